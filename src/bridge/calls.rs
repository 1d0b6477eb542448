//! Operator calls: records → arguments, results → records.

use super::ffi::{ArgumentRecord, TensorRecord};
use super::{RESIZE, guarded, memory, never_panics};
use crate::device::generator::Generator;
use crate::dispatch::arguments::{Argument, TensorArgument};
use crate::dispatch::hot::{self, Completed, Outcome};
use crate::dispatch::overload::Overload;
use crate::dispatch::program::{Program, Return};
use crate::dispatch::tiers;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ops::internal;
use crate::ops::schema::{Schema, Variant};
use crate::promote::Category;
use crate::shape::Dims;
use crate::stablehlo::Literal;
use crate::storage::Storage;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// Handles of the overloads that the table serves, in the order of `schemas`; 0 for the others.
pub(super) fn register_schemas(schemas: &[String]) -> Vec<u64> {
    never_panics(vec![0; schemas.len()], || {
        let mut canonical: FxHashMap<String, Vec<String>> = FxHashMap::default();
        for schema in schemas.iter().filter_map(|text| Schema::parse(text).ok()) {
            if schema.variant() != Variant::Functional {
                continue;
            }
            let names: Vec<String> = schema.arguments.iter().map(|argument| argument.name.clone()).collect();
            let longest = canonical.entry(schema.name).or_default();
            if names.len() > longest.len() {
                *longest = names;
            }
        }
        for text in internal::SCHEMAS {
            if let Ok(Some(overload)) = Overload::new(text, |_| None) {
                tiers::add(overload);
            }
        }
        schemas
            .iter()
            .map(|text| match Overload::new(text, |base| canonical.get(base).cloned()) {
                Ok(Some(overload)) => tiers::add(overload) as *const Overload as u64,
                _ => 0,
            })
            .collect()
    })
}

fn overload_of(handle: u64) -> &'static Overload {
    // SAFETY: handles come from `register_schemas`, which leaks the overload: it lives as long as the process.
    unsafe { &*(handle as *const Overload) }
}

/// 1: uses the matrix product precision; 2: takes a generator; 4: index lists may hold bool masks.
pub(super) fn overload_flags(overload: u64) -> u8 {
    let overload = overload_of(overload);
    overload.def.precision as u8 | (overload.def.random as u8) << 1
}

thread_local! {
    /// What the sizes and strides in the last results point into.
    static KEPT: RefCell<(Option<Arc<Program>>, Vec<Dims>)> = const { RefCell::new((None, Vec::new())) };
}

type Storages = SmallVec<[ManuallyDrop<Arc<Storage>>; 8]>;

pub(super) fn call(overload: u64, context: u64, arguments: &[ArgumentRecord], results: &mut Vec<TensorRecord>) -> u8 {
    guarded(|| {
        results.clear();
        let storages = storages(arguments)?;
        let generators = generators(arguments);
        let arguments = arguments_of(arguments, &storages, &generators)?;
        match hot::call(overload_of(overload), context, &arguments)? {
            Outcome::Completed(completed) => {
                fill(completed, results);
                Ok(0)
            }
            Outcome::Resize(outs) => {
                KEPT.with_borrow_mut(|(_, kept)| {
                    *kept = outs.iter().map(|(_, dims)| dims.clone()).collect();
                    for ((position, _), dims) in outs.iter().zip(kept.iter()) {
                        results.push(TensorRecord {
                            kind: 3,
                            argument: *position as u32,
                            rank: dims.len() as u32,
                            sizes: dims.as_ptr(),
                            ..NONE
                        });
                    }
                });
                Ok(RESIZE)
            }
        }
    })
}

const NONE: TensorRecord = TensorRecord {
    kind: 0,
    dtype: 0,
    device: 0,
    rank: 0,
    argument: 0,
    storage: 0,
    address: 0,
    bytes: 0,
    count: -1,
    sizes: std::ptr::null(),
    strides: std::ptr::null(),
};

fn fill(completed: Completed, results: &mut Vec<TensorRecord>) {
    let Completed { program, new, count } = completed;
    let mut new = new.into_iter();
    for wanted in &program.returns {
        results.push(match *wanted {
            Return::Undefined => NONE,
            Return::Argument(position) => TensorRecord {
                kind: 2,
                argument: position as u32,
                ..NONE
            },
            Return::New(index) => match (program.new_tensors().nth(index), new.next()) {
                (Some(tensor), Some(storage)) => TensorRecord {
                    kind: 1,
                    dtype: tensor.dtype as u8,
                    device: storage.device as u8,
                    rank: tensor.sizes.len() as u32,
                    address: storage.address,
                    bytes: tensor.bytes as u64,
                    count: count.unwrap_or(-1),
                    sizes: tensor.sizes.as_ptr(),
                    strides: tensor.strides.as_ptr(),
                    storage: memory::into_handle(storage),
                    ..NONE
                },
                _ => NONE,
            },
        });
    }
    KEPT.with_borrow_mut(|kept| kept.0 = Some(program));
}

/// The storages of the tensors among the records, in their order, without taking references.
fn storages(records: &[ArgumentRecord]) -> Result<Storages> {
    records
        .iter()
        .filter(|record| record.tag == 1)
        .map(|record| memory::borrowed(record.word).ok_or_else(no_storage))
        .collect()
}

fn no_storage() -> Error {
    Error::runtime(
        "a tensor of this device has no storage (it may be fake or on another backend); use a real tensor of the device",
    )
}

type Generators = SmallVec<[ManuallyDrop<Arc<Generator>>; 1]>;

fn generators(records: &[ArgumentRecord]) -> Generators {
    records
        .iter()
        .filter(|record| record.tag == 7)
        .map(|record| {
            // SAFETY: the word is a handle of `new_generator` or `default_generator`, kept alive by the C++ generator for the call.
            ManuallyDrop::new(unsafe { Arc::from_raw(record.word as *const Generator) })
        })
        .collect()
}

/// # Safety
/// `pointer` must be valid for `count` elements for as long as the record's call runs, or `count` be 0.
unsafe fn list<'a, T>(pointer: *const T, count: u32) -> &'a [T] {
    if count == 0 || pointer.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(pointer, count as usize) }
}

pub(super) fn tensor_of<'a>(record: &ArgumentRecord, storage: &'a Arc<Storage>) -> Result<TensorArgument<'a>> {
    // SAFETY: the shim points to the sizes and strides of a tensor that is alive during the call.
    let (sizes, strides) = unsafe { (list(record.sizes, record.count), list(record.strides, record.count)) };
    Ok(TensorArgument {
        storage,
        dtype: DType::from_torch(record.dtype.into())?,
        sizes,
        strides,
        offset: record.offset,
        conj: record.flags & 1 != 0,
        neg: record.flags & 2 != 0,
    })
}

type Arguments<'a> = SmallVec<[Argument<'a>; 12]>;

fn arguments_of<'a>(
    records: &[ArgumentRecord],
    storages: &'a Storages,
    generators: &'a Generators,
) -> Result<Arguments<'a>> {
    let mut storages = storages.iter();
    let mut generators = generators.iter();
    records
        .iter()
        .map(|record| {
            Ok(match record.tag {
                1 => match storages.next() {
                    Some(storage) => Argument::Tensor(tensor_of(record, storage)?),
                    None => Argument::None,
                },
                2 => {
                    let number = match record.flags {
                        0 => Literal::Bool(record.word != 0),
                        1 => Literal::Int(record.word as i64),
                        2 => Literal::Float(f64::from_bits(record.word)),
                        _ => Literal::Complex(f64::from_bits(record.word), f64::from_bits(record.extra)),
                    };
                    let category = if record.category == 1 {
                        Category::ZeroDim
                    } else {
                        Category::Number
                    };
                    Argument::Number(number, category, DType::from_torch(record.dtype.into())?)
                }
                3 => Argument::List(record.count as usize),
                // SAFETY: the shim points into the call's argument stack, which outlives the call.
                4 => Argument::Ints(unsafe { list(record.word as *const i64, record.count) }),
                // SAFETY: as above.
                5 => Argument::Floats(unsafe { list(record.word as *const f64, record.count) }),
                // SAFETY: as above.
                6 => Argument::Text(
                    std::str::from_utf8(unsafe { list(record.word as *const u8, record.count) })
                        .map_err(|_| Error::value("a text argument is not UTF-8"))?,
                ),
                7 => generators
                    .next()
                    .map_or(Argument::None, |generator| Argument::Generator(generator)),
                _ => Argument::None,
            })
        })
        .collect()
}
