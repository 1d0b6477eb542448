//! The border to C++: the only `cxx` bridge. It turns raw records into safe types, catches panics, and returns errors as data.
//!
//! Every fallible function returns a status: 0, an [`crate::error::Kind`], or [`RESIZE`]; the message waits in `take_error`.
#![allow(unsafe_code)] // FFI module: raw handles and pointers come in here and nowhere else

mod calls;
mod devices;
mod memory;
#[cfg(feature = "tch")]
mod tensors;

use crate::error::{Error, Kind, Result};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use calls::{call, overload_flags, register_schemas};
use devices::*;
use memory::*;

/// Status: `out=` tensors must be resized to the sizes in the results, then the call repeated.
pub const RESIZE: u8 = 100;

#[cxx::bridge(namespace = "torch_tpu")]
mod ffi {
    /// One argument of a call (or element of a list) as plain data.
    #[derive(Clone, Copy)]
    struct ArgumentRecord {
        /// 0 none, 1 tensor, 2 number, 3 list header, 4 integers, 5 floats, 6 text, 7 generator
        tag: u8,
        /// `c10::ScalarType`
        dtype: u8,
        /// tensor: 1 = conj, 2 = neg; number: 0 bool, 1 integer, 2 float, 3 complex
        flags: u8,
        /// number: 1 = 0-d CPU tensor, 2 = Python number
        category: u8,
        /// rank of a tensor, length of a list
        count: u32,
        /// tensor and generator: handle; number: bits; lists and text: pointer
        word: u64,
        /// complex number: bits of the imaginary part
        extra: u64,
        offset: i64,
        sizes: *const i64,
        strides: *const i64,
    }

    /// One tensor that the caller gets back.
    #[derive(Clone, Copy)]
    struct TensorRecord {
        /// 0 undefined, 1 new tensor, 2 the call's argument, 3 argument to be resized to `sizes`
        kind: u8,
        dtype: u8,
        device: u8,
        rank: u32,
        /// position in the flattened argument list
        argument: u32,
        /// owned handle of a new tensor's storage
        storage: u64,
        address: u64,
        bytes: u64,
        /// size of axis 0 instead of the listed one; -1: as listed
        count: i64,
        /// valid until the thread's next call
        sizes: *const i64,
        strides: *const i64,
    }

    /// An allocation: an owned storage handle and its address.
    #[derive(Clone, Copy, Default)]
    struct Allocation {
        storage: u64,
        address: u64,
    }

    /// Figures of one device, in bytes and numbers of storages.
    #[derive(Clone, Copy, Default)]
    struct MemoryStatistics {
        bytes: i64,
        peak_bytes: i64,
        allocated_bytes: i64,
        freed_bytes: i64,
        count: i64,
        peak_count: i64,
        allocated_count: i64,
        freed_count: i64,
        out_of_memory: i64,
        limit_bytes: u64,
    }

    extern "Rust" {
        fn take_error() -> String;

        // calls.rs
        fn register_schemas(schemas: &[String]) -> Vec<u64>;
        fn overload_flags(overload: u64) -> u8;
        fn call(overload: u64, context: u64, arguments: &[ArgumentRecord], results: &mut Vec<TensorRecord>) -> u8;

        // memory.rs
        fn allocate(device: u8, bytes: u64, allocation: &mut Allocation) -> u8;
        fn release_storage(storage: u64);
        unsafe fn upload(storage: u64, dtype: u8, sizes: &[i64], data: *const u8, bytes: u64) -> u8;
        unsafe fn download(tensor: &ArgumentRecord, data: *mut u8, bytes: u64) -> u8;
        fn copy_to_device(tensor: &ArgumentRecord, device: u8, allocation: &mut Allocation) -> u8;
        fn resize_storage(storage: u64, bytes: u64, allocation: &mut Allocation) -> u8;
        fn find_storage(address: u64, offset_bytes: &mut u64) -> u64;
        fn memory_statistics(device: u8) -> MemoryStatistics;
        fn reset_peak_statistics(device: u8);
        fn reset_accumulated_statistics(device: u8);
        fn empty_cache();

        // devices.rs
        fn device_name() -> String;
        fn initialize() -> u8;
        fn is_started() -> bool;
        fn is_available() -> bool;
        fn device_count() -> i64;
        fn check_device(index: i64) -> u8;
        fn current_device() -> u8;
        fn exchange_device(index: u8) -> u8;
        fn current_stream(device: u8) -> i64;
        fn exchange_stream(device: u8, stream: i64) -> i64;
        fn new_stream(device: u8, stream: &mut i64) -> u8;
        fn query_stream(device: u8, stream: i64, done: &mut bool) -> u8;
        fn synchronize_stream(device: u8, stream: i64) -> u8;
        fn synchronize_device(device: u8) -> u8;
        fn record_event(event: u64, device: u8, stream: i64) -> u64;
        fn release_event(event: u64);
        fn query_event(event: u64) -> bool;
        fn synchronize_event(event: u64) -> u8;
        fn block_event(event: u64, device: u8, stream: i64) -> u8;
        fn elapsed_milliseconds(start: u64, end: u64, milliseconds: &mut f64) -> u8;
        fn new_generator(seed: u64) -> u64;
        fn default_generator(device: u8) -> u64;
        fn release_generator(generator: u64);
        fn generator_seed(generator: u64) -> u64;
        fn generator_offset(generator: u64) -> u64;
        fn set_generator(generator: u64, seed: u64, offset: u64);
        fn fallback_policy() -> u8;
        fn count_fallback(label: &str) -> u64;
        fn decompose(label: &str) -> bool;
    }

    unsafe extern "C++" {
        include!("shim.h");

        /// Registers everything with PyTorch, once per process.
        fn install() -> Result<()>;
        /// Moves an `at::Tensor` (its address) to a device; the address of a new `at::Tensor`, owned by the caller.
        fn move_tensor(tensor: usize, device: &str) -> Result<usize>;
    }
}

pub use devices::DECOMPOSE;
pub use ffi::{install, move_tensor};
#[cfg(feature = "tch")]
pub use tensors::move_to;

pub use ffi::{Allocation, ArgumentRecord, MemoryStatistics, TensorRecord};

thread_local! {
    static LAST_ERROR: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The message of the status that this thread's last call returned.
fn take_error() -> String {
    LAST_ERROR.with_borrow_mut(std::mem::take)
}

thread_local! {
    /// Where this thread's last panic was.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Panics are reported with the error that they become, not on stderr. For this library's own copy of the standard library only.
pub fn keep_panics_quiet() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let text = info.to_string();
            // A thread that is being torn down has no place for it any more.
            let _ = PANIC.try_with(|panic| *panic.borrow_mut() = text);
        }));
    });
}

/// Runs `body`; an error or a panic becomes a status.
fn guarded(body: impl FnOnce() -> Result<u8>) -> u8 {
    let error = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(status)) => return status,
        Ok(Err(error)) => error,
        Err(_) => {
            let text = PANIC.with_borrow_mut(std::mem::take);
            Error::new(
                Kind::Runtime,
                format!("internal error in torch_tpu ({text}); please report this as a bug"),
            )
        }
    };
    LAST_ERROR.with_borrow_mut(|message| *message = error.message);
    error.kind as u8
}

/// As `guarded`, for bodies with nothing to say on success.
fn run(body: impl FnOnce() -> Result<()>) -> u8 {
    guarded(|| body().map(|()| 0))
}

/// For functions that cannot fail towards C++: a panic gives `otherwise`.
fn never_panics<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}
