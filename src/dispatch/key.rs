//! The structural key of a call, and what a run of it needs: storages, numbers, generator.

use super::arguments::Argument;
use super::numbers;
use super::overload::Overload;
use crate::config;
use crate::device::generator::Generator;
use crate::error::{Error, Result};
use crate::stablehlo::Literal;
use crate::storage::{Slot, Storage, TypeId};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// Above this many storages, duplicates are looked up in a map.
const LINEAR: usize = 32;

/// What a call brings, in the order in which it came up; the key's words name things by their ordinals here.
#[derive(Debug, Default)]
pub struct Inputs<'a> {
    pub storages: SmallVec<[&'a Arc<Storage>; 8]>,
    pub types: SmallVec<[TypeId; 8]>,
    pub slots: SmallVec<[Slot; 8]>,
    pub numbers: SmallVec<[Literal; 4]>,
    pub generator: Option<&'a Arc<Generator>>,
    by_address: FxHashMap<u64, usize>,
}

impl<'a> Inputs<'a> {
    /// The storage's ordinal; whether it is new.
    pub fn ordinal(&mut self, storage: &'a Arc<Storage>) -> (usize, bool) {
        let count = self.storages.len();
        if count <= LINEAR {
            if let Some(ordinal) = self.storages.iter().position(|other| Arc::ptr_eq(other, storage)) {
                return (ordinal, false);
            }
        } else {
            if self.by_address.is_empty() {
                self.by_address.extend(
                    self.storages
                        .iter()
                        .enumerate()
                        .map(|(ordinal, other)| (other.address, ordinal)),
                );
            }
            if let Some(&ordinal) = self.by_address.get(&storage.address) {
                return (ordinal, false);
            }
            self.by_address.insert(storage.address, count);
        }
        let (ty, slot) = storage.snapshot();
        self.storages.push(storage);
        self.types.push(ty);
        self.slots.push(slot);
        (count, true)
    }

    /// The storage's ordinal, when it came up before.
    pub fn find(&self, storage: &Arc<Storage>) -> Option<usize> {
        self.storages.iter().position(|other| Arc::ptr_eq(other, storage))
    }
}

/// Appends the call's key to `key` and collects its inputs. The device is that of its tensors, `default_device` without any.
pub fn collect<'a>(
    overload: &Overload,
    context: u64,
    arguments: &'a [Argument<'a>],
    default_device: u16,
    key: &mut Vec<u64>,
) -> Result<(Inputs<'a>, u16)> {
    let mut inputs = Inputs::default();
    let mut device: Option<u16> = None;
    key.push(overload.id as u64 | context << 32);
    key.push(0);
    let mut position = 0;
    let mut elements = 0;
    for argument in arguments {
        let operand = overload.operand.get(position).copied().unwrap_or(false);
        match argument {
            Argument::None => key.push(0),
            Argument::Tensor(tensor) => {
                match device {
                    None => device = Some(tensor.storage.device),
                    Some(first) if first != tensor.storage.device => {
                        return Err(two_devices(first, tensor.storage.device));
                    }
                    _ => {}
                }
                let (ordinal, new) = inputs.ordinal(tensor.storage);
                key.push(
                    1 | (tensor.dtype as u64) << 8
                        | (tensor.conj as u64) << 16
                        | (tensor.neg as u64) << 17
                        | (tensor.sizes.len() as u64) << 24
                        | (ordinal as u64) << 32,
                );
                if new {
                    key.push(inputs.types[ordinal].number() as u64);
                    key.push(tensor.storage.bytes() as u64);
                }
                key.push(tensor.offset as u64);
                key.extend(tensor.sizes.iter().map(|&size| size as u64));
                key.extend(tensor.strides.iter().map(|&stride| stride as u64));
            }
            Argument::Number(number, category, dtype) if operand => {
                let (kind, _, _) = numbers::bits(*number);
                key.push(2 | (kind as u64) << 8 | (*category as u64) << 16 | (*dtype as u64) << 24);
                inputs.numbers.push(*number);
            }
            Argument::Number(number, ..) => {
                let (kind, low, high) = numbers::bits(*number);
                key.push(3 | (kind as u64) << 8);
                key.push(low);
                if kind == 3 {
                    key.push(high);
                }
            }
            Argument::List(count) => {
                key.push(4 | (*count as u64) << 8);
                elements = *count + 1;
            }
            Argument::Ints(values) => {
                key.push(5 | (values.len() as u64) << 8);
                key.extend(values.iter().map(|&value| value as u64));
            }
            Argument::Floats(values) => {
                key.push(6 | (values.len() as u64) << 8);
                key.extend(values.iter().map(|value| value.to_bits()));
            }
            Argument::Text(text) => {
                key.push(7 | (text.len() as u64) << 8);
                key.extend(text.as_bytes().chunks(8).map(|chunk| {
                    let mut word = [0; 8];
                    word[..chunk.len()].copy_from_slice(chunk);
                    u64::from_ne_bytes(word)
                }));
            }
            Argument::Generator(generator) => {
                key.push(0);
                inputs.generator = Some(generator);
            }
        }
        // A list's elements belong to one argument.
        elements = usize::saturating_sub(elements, 1);
        if elements == 0 {
            position += 1;
        }
    }
    let device = device.unwrap_or(default_device);
    key[1] = device as u64;
    Ok((inputs, device))
}

fn two_devices(first: u16, second: u16) -> Error {
    let name = &config::get().device_name;
    Error::runtime(format!(
        "Expected all tensors to be on the same device, but found at least two devices, {name}:{first} and {name}:{second}! Move one of them with .to()"
    ))
}
