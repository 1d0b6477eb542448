//! The PJRT C API: own declarations, checked calls, one owning type per foreign object.
//!
//! Written against the public header `pjrt_c_api.h` (API 0.81); works with any plugin of major version 0 that has the
//! functions in use.
#![allow(unsafe_code)] // the FFI layer: everything above it is safe Rust

mod buffer;
mod call;
mod client;
mod device;
mod error;
mod event;
mod executable;
mod ffi;
mod plugin;
#[cfg(test)]
mod tests;
mod topology;

pub use buffer::Buffer;
pub use client::{Client, ClientOption};
pub use device::{Device, Memory, MemoryStats};
pub use event::Event;
pub use executable::{Compiled, CompiledMemoryStats, Executable, PORTABLE_OPTIONS};
pub use plugin::{Attribute, Plugin};
pub use topology::Topology;

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Live foreign objects, for tests: what is created must be destroyed.
pub static LIVE_BUFFERS: AtomicI64 = AtomicI64::new(0);
pub static LIVE_EVENTS: AtomicI64 = AtomicI64::new(0);
pub static LIVE_EXECUTABLES: AtomicI64 = AtomicI64::new(0);
/// Bytes on the device of the live buffers. A donated buffer counts until it is dropped, as its successor does.
pub static LIVE_BUFFER_BYTES: AtomicI64 = AtomicI64::new(0);

fn born(counter: &AtomicI64) {
    counter.fetch_add(1, Relaxed);
}

fn died(counter: &AtomicI64) {
    counter.fetch_sub(1, Relaxed);
}
