//! A device of a client, and its memory.

use super::client::Handle;
use super::error::text;
use super::ffi;
use crate::error::Result;
use std::sync::Arc;

/// A handle to a device that this process can run programs on; cheap to clone.
#[derive(Clone, Debug)]
pub struct Device {
    pub(super) client: Arc<Handle>,
    pub(super) raw: *mut ffi::Device,
    facts: Arc<Facts>,
}

// SAFETY: devices are immutable parts of the client, which `client` keeps alive and which is bound to no thread (see
// `Table`).
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

#[derive(Debug)]
struct Facts {
    id: i32,
    local_hardware_id: i32,
    kind: String,
}

/// A memory of a device.
#[derive(Clone, Debug)]
pub struct Memory {
    pub id: i32,
    /// Such as `device`, `pinned_host`, `unpinned_host`.
    pub kind: String,
}

/// What a device's allocator tells, in bytes; `None` where the plugin does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    pub in_use_bytes: i64,
    pub peak_in_use_bytes: Option<i64>,
    pub allocations: Option<i64>,
    pub largest_allocation_bytes: Option<i64>,
    pub limit_bytes: Option<i64>,
    pub reserved_bytes: Option<i64>,
    pub peak_reserved_bytes: Option<i64>,
    pub reservable_limit_bytes: Option<i64>,
    pub largest_free_block_bytes: Option<i64>,
    pub pool_bytes: Option<i64>,
    pub peak_pool_bytes: Option<i64>,
}

impl Device {
    pub(super) fn new(client: Arc<Handle>, raw: *mut ffi::Device) -> Result<Device> {
        let table = client.table;
        let mut description = ffi::DeviceGetDescription {
            device: raw,
            ..Default::default()
        };
        let mut hardware = ffi::DeviceLocalHardwareId {
            device: raw,
            ..Default::default()
        };
        // SAFETY: callers pass a device of the client, which is alive.
        unsafe {
            table.call(&mut description)?;
            table.call(&mut hardware)?;
        }
        let description = description.description;
        let mut id = ffi::DeviceDescriptionId {
            description,
            ..Default::default()
        };
        let mut kind = ffi::DeviceDescriptionKind {
            description,
            ..Default::default()
        };
        // SAFETY: the description and its text live as long as the client.
        let kind = unsafe {
            table.call(&mut id)?;
            table.call(&mut kind)?;
            text(kind.text, kind.text_size)
        };
        Ok(Device {
            client,
            raw,
            facts: Arc::new(Facts {
                id: id.id,
                local_hardware_id: hardware.id,
                kind,
            }),
        })
    }

    /// Unique among all devices of the job.
    pub fn id(&self) -> i32 {
        self.facts.id
    }

    /// The device's number on this machine; -1 where the plugin has none.
    pub fn local_hardware_id(&self) -> i32 {
        self.facts.local_hardware_id
    }

    /// The vendor's name for this kind of device, such as `TPU v5 lite` or `cpu`.
    pub fn kind(&self) -> &str {
        &self.facts.kind
    }

    /// The memory where buffers go.
    pub fn default_memory(&self) -> Result<Memory> {
        let table = self.client.table;
        let mut memory = ffi::DeviceDefaultMemory {
            device: self.raw,
            ..Default::default()
        };
        // SAFETY: the device is alive.
        unsafe { table.call(&mut memory)? };
        let memory = memory.memory;
        let mut id = ffi::MemoryId {
            memory,
            ..Default::default()
        };
        let mut kind = ffi::MemoryKind {
            memory,
            ..Default::default()
        };
        // SAFETY: the memory and its text live as long as the client.
        let kind = unsafe {
            table.call(&mut id)?;
            table.call(&mut kind)?;
            text(kind.text, kind.text_size)
        };
        Ok(Memory { id: id.id, kind })
    }

    /// `NotImplementedError` where the plugin keeps no statistics, as on the CPU.
    pub fn memory_stats(&self) -> Result<MemoryStats> {
        let mut call = ffi::DeviceMemoryStats {
            device: self.raw,
            ..Default::default()
        };
        // SAFETY: the device is alive.
        unsafe { self.client.table.call(&mut call)? };
        Ok(MemoryStats {
            in_use_bytes: call.bytes_in_use,
            peak_in_use_bytes: call.peak_bytes_in_use_is_set.then_some(call.peak_bytes_in_use),
            allocations: call.num_allocs_is_set.then_some(call.num_allocs),
            largest_allocation_bytes: call.largest_alloc_size_is_set.then_some(call.largest_alloc_size),
            limit_bytes: call.bytes_limit_is_set.then_some(call.bytes_limit),
            reserved_bytes: call.bytes_reserved_is_set.then_some(call.bytes_reserved),
            peak_reserved_bytes: call.peak_bytes_reserved_is_set.then_some(call.peak_bytes_reserved),
            reservable_limit_bytes: call
                .bytes_reservable_limit_is_set
                .then_some(call.bytes_reservable_limit),
            largest_free_block_bytes: call
                .largest_free_block_bytes_is_set
                .then_some(call.largest_free_block_bytes),
            pool_bytes: call.pool_bytes_is_set.then_some(call.pool_bytes),
            peak_pool_bytes: call.peak_pool_bytes_is_set.then_some(call.peak_pool_bytes),
        })
    }

    /// Bytes the device has for buffers, where the plugin tells.
    pub fn memory_limit_bytes(&self) -> Option<u64> {
        let limit = self.memory_stats().ok()?.limit_bytes?;
        u64::try_from(limit).ok().filter(|&limit| limit > 0)
    }
}
