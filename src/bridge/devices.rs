//! Devices, streams, events, generators, tiers.

use super::{never_panics, run};
use crate::config::{self, Fallback};
use crate::device::event::Mark;
use crate::device::generator::{self, Generator, State};
use crate::device::{current, registry};
use crate::dispatch::queue::{self, Task};
use crate::dispatch::{tiers, transfer};
use std::mem::ManuallyDrop;
use std::sync::{Arc, OnceLock};

pub(super) fn device_name() -> String {
    config::get().device_name.clone()
}

pub(super) fn initialize() -> u8 {
    run(|| registry::runtime().map(|_| ()))
}

pub(super) fn is_started() -> bool {
    registry::started().is_some()
}

pub(super) fn is_available() -> bool {
    never_panics(false, registry::is_available)
}

pub(super) fn device_count() -> i64 {
    never_panics(0, || registry::device_count() as i64)
}

pub(super) fn check_device(index: i64) -> u8 {
    run(|| registry::check_index(index).map(|_| ()))
}

pub(super) fn current_device() -> u8 {
    current::device() as u8
}

pub(super) fn exchange_device(index: u8) -> u8 {
    current::exchange_device(index.into()) as u8
}

pub(super) fn current_stream(device: u8) -> i64 {
    current::stream(device.into())
}

pub(super) fn exchange_stream(device: u8, stream: i64) -> i64 {
    current::exchange_stream(device.into(), stream)
}

pub(super) fn new_stream(device: u8, stream: &mut i64) -> u8 {
    run(|| {
        let index = registry::check_index(device.into())?;
        *stream = registry::runtime()?.streams[index as usize].create();
        Ok(())
    })
}

pub(super) fn query_stream(device: u8, stream: i64, done: &mut bool) -> u8 {
    run(|| {
        *done = match registry::started() {
            Some(runtime) => queue::is_idle() && runtime.streams[device as usize].unfinished(stream).is_empty(),
            None => true,
        };
        Ok(())
    })
}

pub(super) fn synchronize_stream(device: u8, stream: i64) -> u8 {
    run(|| transfer::synchronize_stream(device.into(), stream))
}

pub(super) fn synchronize_device(device: u8) -> u8 {
    run(|| transfer::synchronize(device.into()))
}

fn mark(event: u64) -> Option<ManuallyDrop<Arc<Mark>>> {
    // SAFETY: a non-null event came from `record_event` and has not been released.
    (event != 0).then(|| ManuallyDrop::new(unsafe { Arc::from_raw(event as *const Mark) }))
}

/// Records anew; the old recording (0: none) is released. Returns the new one's handle.
pub(super) fn record_event(event: u64, device: u8, stream: i64) -> u64 {
    release_event(event);
    never_panics(0, || {
        let mark = Mark::queued();
        if queue::is_idle() {
            queue::mark_now(&mark, device.into(), stream);
        } else {
            queue::push(Task::Mark {
                mark: mark.clone(),
                device: device.into(),
                stream,
            });
        }
        Arc::into_raw(mark) as u64
    })
}

pub(super) fn release_event(event: u64) {
    never_panics((), || {
        if let Some(mark) = mark(event) {
            drop(ManuallyDrop::into_inner(mark));
        }
    });
}

/// An event that was never recorded is complete, as CUDA's is.
pub(super) fn query_event(event: u64) -> bool {
    never_panics(true, || mark(event).is_none_or(|mark| mark.query()))
}

pub(super) fn synchronize_event(event: u64) -> u8 {
    run(|| mark(event).map_or(Ok(()), |mark| mark.synchronize()))
}

/// Work that is launched on the stream from now on counts as finished only when the event's work is.
pub(super) fn block_event(event: u64, device: u8, stream: i64) -> u8 {
    run(|| {
        if let (Some(mark), Some(runtime)) = (mark(event), registry::started()) {
            runtime.streams[device as usize].add(stream, mark.before());
        }
        Ok(())
    })
}

pub(super) fn elapsed_milliseconds(start: u64, end: u64, milliseconds: &mut f64) -> u8 {
    run(|| {
        let (Some(start), Some(end)) = (mark(start), mark(end)) else {
            return Err(crate::error::Error::runtime(
                "both events must be recorded before calculating elapsed time",
            ));
        };
        *milliseconds = end.elapsed_milliseconds(&start)?;
        Ok(())
    })
}

pub(super) fn new_generator(seed: u64) -> u64 {
    Arc::into_raw(Generator::new(seed)) as u64
}

/// A handle of its own to the device's default generator.
pub(super) fn default_generator(device: u8) -> u64 {
    Arc::into_raw(generator::default(device.into()).clone()) as u64
}

fn generator_of(handle: u64) -> ManuallyDrop<Arc<Generator>> {
    // SAFETY: the handle came from `new_generator` or `default_generator` and is held by a C++ generator.
    ManuallyDrop::new(unsafe { Arc::from_raw(handle as *const Generator) })
}

pub(super) fn release_generator(handle: u64) {
    never_panics((), || drop(ManuallyDrop::into_inner(generator_of(handle))));
}

pub(super) fn generator_seed(handle: u64) -> u64 {
    generator_of(handle).state().seed
}

pub(super) fn generator_offset(handle: u64) -> u64 {
    generator_of(handle).state().offset
}

pub(super) fn set_generator(handle: u64, seed: u64, offset: u64) {
    generator_of(handle).set(State { seed, offset });
}

/// 0 warn, 1 silent, 2 error.
pub(super) fn fallback_policy() -> u8 {
    match config::get().fallback {
        Fallback::Warn => 0,
        Fallback::Silent => 1,
        Fallback::Error => 2,
    }
}

pub(super) fn count_fallback(label: &str) -> u64 {
    never_panics(0, || tiers::count_fallback(label))
}

/// Set by the Python module: registers PyTorch's decomposition of an overload; false when there is none.
pub static DECOMPOSE: OnceLock<fn(&str) -> bool> = OnceLock::new();

pub(super) fn decompose(label: &str) -> bool {
    never_panics(false, || DECOMPOSE.get().is_some_and(|register| register(label)))
}
