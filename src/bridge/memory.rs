//! Storages: handles, allocation, copies, statistics.

use super::ffi::{Allocation, ArgumentRecord, MemoryStatistics};
use super::{calls, never_panics, run};
use crate::device::registry;
use crate::dispatch::transfer;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::storage::{Storage, live, reaper, statistics};
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// An owned handle: `release_storage` must follow once.
pub(super) fn into_handle(storage: Arc<Storage>) -> u64 {
    Arc::into_raw(storage) as u64
}

/// The storage of a handle that somebody else owns; `None` for a null handle.
pub(super) fn borrowed(handle: u64) -> Option<ManuallyDrop<Arc<Storage>>> {
    if handle == 0 {
        return None;
    }
    // SAFETY: a non-null handle came from `into_handle`, and the tensor that holds it lives during the call.
    Some(ManuallyDrop::new(unsafe { Arc::from_raw(handle as *const Storage) }))
}

fn required(handle: u64) -> Result<ManuallyDrop<Arc<Storage>>> {
    borrowed(handle).ok_or_else(|| Error::runtime("the tensor has no storage on this device"))
}

pub(super) fn allocate(device: u8, bytes: u64, allocation: &mut Allocation) -> u8 {
    run(|| {
        registry::runtime()?;
        registry::check_index(device.into())?;
        *allocation = allocation_of(Storage::empty(device.into(), bytes as usize)?);
        Ok(())
    })
}

fn allocation_of(storage: Arc<Storage>) -> Allocation {
    Allocation {
        address: storage.address,
        storage: into_handle(storage),
    }
}

/// Only enqueues: may run with the GIL held, on any thread.
pub(super) fn release_storage(storage: u64) {
    never_panics((), || {
        if let Some(storage) = borrowed(storage) {
            drop(ManuallyDrop::into_inner(storage));
        }
    });
}

/// # Safety
/// `data` must be valid for `bytes` bytes.
pub(super) unsafe fn upload(storage: u64, dtype: u8, sizes: &[i64], data: *const u8, bytes: u64) -> u8 {
    run(|| {
        let storage = required(storage)?;
        let data = if bytes == 0 {
            &[][..]
        } else {
            // SAFETY: the caller's promise.
            unsafe { std::slice::from_raw_parts(data, bytes as usize) }
        };
        transfer::upload(&storage, DType::from_torch(dtype.into())?, sizes, data)
    })
}

/// # Safety
/// `data` must be valid for writes of `bytes` bytes.
pub(super) unsafe fn download(tensor: &ArgumentRecord, data: *mut u8, bytes: u64) -> u8 {
    run(|| {
        let storage = required(tensor.word)?;
        let argument = calls::tensor_of(tensor, &storage)?;
        let data = if bytes == 0 {
            &mut [][..]
        } else {
            // SAFETY: the caller's promise.
            unsafe { std::slice::from_raw_parts_mut(data, bytes as usize) }
        };
        transfer::download(&argument, data)
    })
}

pub(super) fn copy_to_device(tensor: &ArgumentRecord, device: u8, allocation: &mut Allocation) -> u8 {
    run(|| {
        let storage = required(tensor.word)?;
        let argument = calls::tensor_of(tensor, &storage)?;
        *allocation = allocation_of(transfer::to_device(&argument, device.into())?);
        Ok(())
    })
}

pub(super) fn resize_storage(storage: u64, bytes: u64, allocation: &mut Allocation) -> u8 {
    run(|| {
        let storage = required(storage)?;
        *allocation = allocation_of(transfer::resize(&storage, bytes as usize)?);
        Ok(())
    })
}

/// The handle of the storage that an address lies in, owned by somebody else, and the bytes from its beginning; 0 if there is none.
pub(super) fn find_storage(address: u64, offset_bytes: &mut u64) -> u64 {
    never_panics(0, || {
        live::find(address).map_or(0, |(storage, offset)| {
            *offset_bytes = offset;
            // The caller's pointer came from a tensor that keeps the storage alive.
            Arc::as_ptr(&storage) as u64
        })
    })
}

pub(super) fn memory_statistics(device: u8) -> MemoryStatistics {
    let figures = statistics::get(device.into());
    MemoryStatistics {
        bytes: figures.bytes,
        peak_bytes: figures.peak_bytes,
        allocated_bytes: figures.allocated_bytes,
        freed_bytes: figures.freed_bytes,
        count: figures.count,
        peak_count: figures.peak_count,
        allocated_count: figures.allocated_count,
        freed_count: figures.freed_count,
        out_of_memory: figures.out_of_memory,
        limit_bytes: figures.limit_bytes,
    }
}

pub(super) fn reset_peak_statistics(device: u8) {
    statistics::reset_peak(device.into());
}

pub(super) fn reset_accumulated_statistics(device: u8) {
    statistics::reset_accumulated(device.into());
}

pub(super) fn empty_cache() {
    never_panics((), reaper::drain);
}
