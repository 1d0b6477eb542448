//! A storage: what a `c10::StorageImpl`'s data pointer stands for.

use super::types::TypeId;
use super::{live, statistics};
use crate::error::{Error, Result};
use crate::pjrt::Buffer;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What a storage holds on the device.
#[derive(Clone, Debug)]
pub enum Slot {
    /// Allocated, never written: reads as zeros.
    Empty,
    Resident(Arc<Buffer>),
    /// The result of a program in the launch queue.
    Pending,
    /// Taken by a running program that rewrites it.
    Busy,
    /// The program that should have written it failed.
    Failed(Arc<Error>),
}

#[derive(Debug)]
struct State {
    /// The buffer's type once everything dispatched so far has run. [`TypeId::EMPTY`] until the first write.
    ty: TypeId,
    slot: Slot,
}

/// Shared by all tensors that view it. `bytes` is PyTorch's size; the buffer may be larger (results cut to a count).
#[derive(Debug)]
pub struct Storage {
    pub device: u16,
    pub address: u64,
    bytes: AtomicUsize,
    state: Mutex<State>,
}

impl Storage {
    /// An empty storage of `bytes`; `torch.OutOfMemoryError` beyond the device's memory.
    pub fn empty(device: u16, bytes: usize) -> Result<Arc<Storage>> {
        statistics::allocate(device, bytes)?;
        Ok(Self::make(device, bytes, TypeId::EMPTY, Slot::Empty))
    }

    /// A storage for a program's result.
    pub fn result(device: u16, bytes: usize, ty: TypeId, slot: Slot) -> Arc<Storage> {
        statistics::book(device, bytes);
        Self::make(device, bytes, ty, slot)
    }

    fn make(device: u16, bytes: usize, ty: TypeId, slot: Slot) -> Arc<Storage> {
        let state = Mutex::new(State { ty, slot });
        live::add(device, bytes, |address| Storage {
            device,
            address,
            bytes: AtomicUsize::new(bytes),
            state,
        })
    }

    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    pub fn ty(&self) -> TypeId {
        self.state.lock().ty
    }

    /// The type after all that is dispatched, and what is there now. Waits while another thread's program rewrites the storage.
    pub fn snapshot(&self) -> (TypeId, Slot) {
        loop {
            let state = self.state.lock();
            if !matches!(state.slot, Slot::Busy) {
                return (state.ty, state.slot.clone());
            }
            drop(state);
            std::thread::yield_now();
        }
    }

    /// Takes the slot for rewriting: `put` must follow.
    pub fn take(&self) -> Slot {
        loop {
            let mut state = self.state.lock();
            if !matches!(state.slot, Slot::Busy) {
                return std::mem::replace(&mut state.slot, Slot::Busy);
            }
            drop(state);
            std::thread::yield_now();
        }
    }

    pub fn put(&self, slot: Slot) {
        self.state.lock().slot = slot;
    }

    /// Sets the buffer and its type.
    pub fn set(&self, ty: TypeId, slot: Slot) {
        *self.state.lock() = State { ty, slot };
    }

    /// The type it will have once the launch queue has run.
    pub fn set_type(&self, ty: TypeId) {
        self.state.lock().ty = ty;
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        live::remove(self.address);
        statistics::free(self.device, self.bytes());
        if let Slot::Resident(buffer) = std::mem::replace(&mut self.state.get_mut().slot, Slot::Empty) {
            super::reaper::bury(buffer);
        }
    }
}
