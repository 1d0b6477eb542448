//! Live storages by address, for pointers that come back without their handle: `at::from_blob` (as `pickle` of a storage uses it), DLPack.

use super::store::Storage;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// Addresses are given out from here on, with the device in bits 52..58. They are not canonical on x86-64 and lie outside of user space on
/// aarch64, so that a stray host access faults; nothing ever dereferences one.
const FIRST_ADDRESS: u64 = 0x4000_0000_0000_0000;
const DEVICE_BIT: u32 = 52;
const DEVICE_BITS: u64 = 0x3f << DEVICE_BIT;

/// Dead entries between live ones are swept when there are more of them than this, and than live ones.
const SWEEP: usize = 256;

struct Live {
    next: u64,
    /// In the order of their addresses without the device's bits, as they are given out. Entries of freed storages are dead until swept.
    entries: VecDeque<(u64, Weak<Storage>)>,
    dead: usize,
}

static LIVE: Mutex<Live> = Mutex::new(Live {
    next: FIRST_ADDRESS,
    entries: VecDeque::new(),
    dead: 0,
});

/// Makes a storage at a fresh address that `bytes` bytes from it on belong to.
pub(super) fn add(device: u16, bytes: usize, make: impl FnOnce(u64) -> Storage) -> Arc<Storage> {
    let mut live = LIVE.lock();
    let place = live.next;
    live.next += (bytes as u64).next_multiple_of(512).max(512);
    let storage = Arc::new(make(place | (device as u64) << DEVICE_BIT));
    live.entries.push_back((place, Arc::downgrade(&storage)));
    storage
}

/// A storage is being dropped.
pub(super) fn remove(address: u64) {
    let mut live = LIVE.lock();
    let place = address & !DEVICE_BITS;
    let Ok(index) = live.entries.binary_search_by_key(&place, |entry| entry.0) else {
        return;
    };
    live.entries[index].1 = Weak::new();
    live.dead += 1;
    while live.entries.back().is_some_and(|entry| entry.1.strong_count() == 0) {
        live.entries.pop_back();
        live.dead = live.dead.saturating_sub(1);
    }
    while live.entries.front().is_some_and(|entry| entry.1.strong_count() == 0) {
        live.entries.pop_front();
        live.dead = live.dead.saturating_sub(1);
    }
    if live.dead > SWEEP && live.dead > live.entries.len() / 2 {
        live.entries.retain(|entry| entry.1.strong_count() > 0);
        live.dead = 0;
    }
}

/// The live storage that an address lies in, and how many bytes after its beginning.
pub fn find(address: u64) -> Option<(Arc<Storage>, u64)> {
    let live = LIVE.lock();
    let place = address & !DEVICE_BITS;
    let after = live.entries.partition_point(|entry| entry.0 <= place);
    let (start, storage) = live.entries.get(after.checked_sub(1)?)?;
    let storage = storage.upgrade()?;
    let offset = place - start;
    let inside = offset < storage.bytes().max(1) as u64 && (storage.address ^ address) & DEVICE_BITS == 0;
    // Dropped after the lock: the last reference would take it again.
    drop(live);
    inside.then_some((storage, offset))
}
