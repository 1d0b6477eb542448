//! Operand numbers on the device: 0-d buffers, cached by value, so that a changing number never recompiles.

use crate::device::registry::Runtime;
use crate::dtype::DType;
use crate::error::Result;
use crate::pjrt::Buffer;
use crate::stablehlo::Literal;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::{Arc, LazyLock};

/// Beyond this many the cache starts afresh: values that change at every step are not worth keeping.
const LIMIT: usize = 4096;

type Key = (u16, u8, u64, u64);

static CACHE: LazyLock<Mutex<FxHashMap<Key, Arc<Buffer>>>> = LazyLock::new(Mutex::default);

/// The dtype in which a number enters a program.
pub fn dtype(number: Literal) -> DType {
    match number {
        Literal::Bool(_) => DType::Bool,
        Literal::Int(_) => DType::I64,
        Literal::Float(_) => DType::F64,
        Literal::Complex(..) => DType::C128,
    }
}

/// Kind and bits of a number, for keys.
pub fn bits(number: Literal) -> (u8, u64, u64) {
    match number {
        Literal::Bool(value) => (0, value as u64, 0),
        Literal::Int(value) => (1, value as u64, 0),
        Literal::Float(value) => (2, value.to_bits(), 0),
        Literal::Complex(real, imaginary) => (3, real.to_bits(), imaginary.to_bits()),
    }
}

pub fn buffer(runtime: &Runtime, device: u16, number: Literal) -> Result<Arc<Buffer>> {
    let (kind, low, high) = bits(number);
    let key = (device, kind, low, high);
    if let Some(buffer) = CACHE.lock().get(&key) {
        return Ok(buffer.clone());
    }
    let device_handle = runtime.device(device);
    let buffer = match number {
        Literal::Bool(value) => Buffer::from_host(device_handle, &[value as u8], DType::Bool, &[])?,
        Literal::Int(value) => Buffer::from_host(device_handle, &value.to_ne_bytes(), DType::I64, &[])?,
        Literal::Float(value) => Buffer::from_host(device_handle, &value.to_ne_bytes(), DType::F64, &[])?,
        Literal::Complex(real, imaginary) => {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&real.to_ne_bytes());
            bytes[8..].copy_from_slice(&imaginary.to_ne_bytes());
            Buffer::from_host(device_handle, &bytes, DType::C128, &[])?
        }
    };
    let buffer = Arc::new(buffer);
    let mut cache = CACHE.lock();
    if cache.len() >= LIMIT {
        cache.clear();
    }
    cache.insert(key, buffer.clone());
    Ok(buffer)
}

/// `[2] uint64`: a generator's key and counter.
pub fn random_state(runtime: &Runtime, device: u16, state: crate::device::generator::State) -> Result<Arc<Buffer>> {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&state.seed.to_ne_bytes());
    bytes[8..].copy_from_slice(&state.offset.to_ne_bytes());
    Ok(Arc::new(Buffer::from_host(
        runtime.device(device),
        &bytes,
        DType::U64,
        &[2],
    )?))
}
