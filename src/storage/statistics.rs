//! Bytes and counts of live storages per device: our own accounting, since few plugins keep one.

use crate::error::{Error, Result};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// Devices that can be told apart; a process with more of them shares the last slot.
const DEVICES: usize = 64;

#[derive(Debug)]
struct Counters {
    bytes: AtomicI64,
    peak_bytes: AtomicI64,
    allocated_bytes: AtomicI64,
    freed_bytes: AtomicI64,
    count: AtomicI64,
    peak_count: AtomicI64,
    allocated_count: AtomicI64,
    freed_count: AtomicI64,
    out_of_memory: AtomicI64,
    /// Bytes the device has; 0 = not known.
    limit: AtomicU64,
}

static DEVICE_COUNTERS: [Counters; DEVICES] = [const {
    Counters {
        bytes: AtomicI64::new(0),
        peak_bytes: AtomicI64::new(0),
        allocated_bytes: AtomicI64::new(0),
        freed_bytes: AtomicI64::new(0),
        count: AtomicI64::new(0),
        peak_count: AtomicI64::new(0),
        allocated_count: AtomicI64::new(0),
        freed_count: AtomicI64::new(0),
        out_of_memory: AtomicI64::new(0),
        limit: AtomicU64::new(0),
    }
}; DEVICES];

/// One device's figures: bytes or numbers of storages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    pub bytes: i64,
    pub peak_bytes: i64,
    pub allocated_bytes: i64,
    pub freed_bytes: i64,
    pub count: i64,
    pub peak_count: i64,
    pub allocated_count: i64,
    pub freed_count: i64,
    pub out_of_memory: i64,
    pub limit_bytes: u64,
}

fn counters(device: u16) -> &'static Counters {
    &DEVICE_COUNTERS[(device as usize).min(DEVICES - 1)]
}

pub fn set_limit(device: u16, bytes: u64) {
    counters(device).limit.store(bytes, Relaxed);
}

/// Books `bytes` on the device; `torch.OutOfMemoryError` when it has not that many left.
pub fn allocate(device: u16, bytes: usize) -> Result<()> {
    check(device, bytes)?;
    book(device, bytes);
    Ok(())
}

/// `torch.OutOfMemoryError` when the device has not `bytes` left.
pub fn check(device: u16, bytes: usize) -> Result<()> {
    let counters = counters(device);
    let limit = counters.limit.load(Relaxed);
    let now = counters.bytes.load(Relaxed).max(0) as u64;
    if limit == 0 || now.saturating_add(bytes as u64) <= limit {
        return Ok(());
    }
    counters.out_of_memory.fetch_add(1, Relaxed);
    Err(Error::out_of_memory(format!(
        "{} out of memory. Tried to allocate {}. Device {device} has a total capacity of {}, of which {} is free; \
         {} is allocated by tensors of this process. Free tensors (del, torch.accelerator.empty_cache()) or use smaller ones",
        crate::config::get().device_name.to_uppercase(),
        human(bytes as u64),
        human(limit),
        human(limit.saturating_sub(now)),
        human(now),
    )))
}

/// As `allocate`, for buffers that exist already.
pub fn book(device: u16, bytes: usize) {
    let counters = counters(device);
    let bytes = bytes as i64;
    let now = counters.bytes.fetch_add(bytes, Relaxed) + bytes;
    if now > counters.peak_bytes.load(Relaxed) {
        counters.peak_bytes.fetch_max(now, Relaxed);
    }
    let count = counters.count.fetch_add(1, Relaxed) + 1;
    if count > counters.peak_count.load(Relaxed) {
        counters.peak_count.fetch_max(count, Relaxed);
    }
    counters.allocated_bytes.fetch_add(bytes, Relaxed);
    counters.allocated_count.fetch_add(1, Relaxed);
}

pub fn free(device: u16, bytes: usize) {
    let counters = counters(device);
    counters.bytes.fetch_sub(bytes as i64, Relaxed);
    counters.count.fetch_sub(1, Relaxed);
    counters.freed_bytes.fetch_add(bytes as i64, Relaxed);
    counters.freed_count.fetch_add(1, Relaxed);
}

pub fn get(device: u16) -> Statistics {
    let counters = counters(device);
    Statistics {
        bytes: counters.bytes.load(Relaxed),
        peak_bytes: counters.peak_bytes.load(Relaxed),
        allocated_bytes: counters.allocated_bytes.load(Relaxed),
        freed_bytes: counters.freed_bytes.load(Relaxed),
        count: counters.count.load(Relaxed),
        peak_count: counters.peak_count.load(Relaxed),
        allocated_count: counters.allocated_count.load(Relaxed),
        freed_count: counters.freed_count.load(Relaxed),
        out_of_memory: counters.out_of_memory.load(Relaxed),
        limit_bytes: counters.limit.load(Relaxed),
    }
}

pub fn reset_peak(device: u16) {
    let counters = counters(device);
    counters.peak_bytes.store(counters.bytes.load(Relaxed), Relaxed);
    counters.peak_count.store(counters.count.load(Relaxed), Relaxed);
}

pub fn reset_accumulated(device: u16) {
    let counters = counters(device);
    for counter in [
        &counters.allocated_bytes,
        &counters.freed_bytes,
        &counters.allocated_count,
        &counters.freed_count,
        &counters.out_of_memory,
    ] {
        counter.store(0, Relaxed);
    }
}

/// `1.50 GiB`
fn human(bytes: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let power = (0..units.len() - 1)
        .take_while(|&power| bytes >= 1 << (10 * (power + 1)))
        .count();
    if power == 0 {
        format!("{bytes} bytes")
    } else {
        format!("{:.2} {}", bytes as f64 / (1u64 << (10 * power)) as f64, units[power])
    }
}
