//! The calling thread's device and streams.

use std::cell::{Cell, RefCell};

thread_local! {
    static DEVICE: Cell<u16> = const { Cell::new(0) };
    /// Stream per device; devices beyond the list are on their default stream.
    static STREAMS: RefCell<Vec<i64>> = const { RefCell::new(Vec::new()) };
}

pub fn device() -> u16 {
    DEVICE.get()
}

/// Sets the device; returns the one before. The caller has checked the index.
pub fn exchange_device(index: u16) -> u16 {
    DEVICE.replace(index)
}

/// The thread's stream on a device: 0 is the default one.
pub fn stream(device: u16) -> i64 {
    STREAMS.with_borrow(|streams| streams.get(device as usize).copied().unwrap_or(0))
}

/// Sets the stream; returns the one before.
pub fn exchange_stream(device: u16, stream: i64) -> i64 {
    STREAMS.with_borrow_mut(|streams| {
        let index = device as usize;
        if streams.len() <= index {
            streams.resize(index + 1, 0);
        }
        std::mem::replace(&mut streams[index], stream)
    })
}
