//! Streams: PJRT has none, so a stream is the list of what was launched on it and has not finished. Data dependences order the
//! work on the device; the lists make `query`, `wait` and `synchronize` mean what they say.

use crate::error::Result;
use crate::pjrt::Event;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Finished events are looked for and dropped when a list grows past this.
const SWEEP: usize = 64;

/// All streams of one device.
#[derive(Default)]
pub struct DeviceStreams {
    in_flight: Mutex<FxHashMap<i64, Vec<Arc<Event>>>>,
    next: AtomicI64,
}

impl DeviceStreams {
    /// A new stream's number (0 is the default stream).
    pub fn create(&self) -> i64 {
        self.next.fetch_add(1, Relaxed) + 1
    }

    /// Notes a launch that has not finished yet.
    pub fn launched(&self, stream: i64, event: Event) {
        if event.is_ready().unwrap_or(true) {
            return;
        }
        self.add(stream, std::iter::once(Arc::new(event)));
    }

    /// What follows on `stream` counts as finished only when `events` have.
    pub fn add(&self, stream: i64, events: impl IntoIterator<Item = Arc<Event>>) {
        let mut lists = self.in_flight.lock();
        let list = lists.entry(stream).or_default();
        if list.len() >= SWEEP {
            list.retain(|event| !event.is_ready().unwrap_or(true));
        }
        list.extend(events);
    }

    /// What is unfinished on a stream.
    pub fn unfinished(&self, stream: i64) -> Vec<Arc<Event>> {
        let mut lists = self.in_flight.lock();
        let Some(list) = lists.get_mut(&stream) else {
            return Vec::new();
        };
        list.retain(|event| !event.is_ready().unwrap_or(true));
        list.clone()
    }

    /// What is unfinished on the device.
    pub fn all_unfinished(&self) -> Vec<Arc<Event>> {
        let mut lists = self.in_flight.lock();
        lists
            .values_mut()
            .flat_map(|list| {
                list.retain(|event| !event.is_ready().unwrap_or(true));
                list.clone()
            })
            .collect()
    }
}

/// Waits for all of them; the first error.
pub fn wait_all(events: &[Arc<Event>]) -> Result<()> {
    let mut first = Ok(());
    for event in events {
        // All are waited for, also after an error.
        first = first.and(event.wait());
    }
    first
}
