//! Counts per tier: operators that ran on the device, through PyTorch's decompositions, on the CPU.

use super::overload::Overload;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

static OVERLOADS: Mutex<Vec<&'static Overload>> = Mutex::new(Vec::new());
static DECOMPOSED: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());
static FALLBACK: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

/// Registers an overload for counting; it lives as long as the process.
pub fn add(overload: Overload) -> &'static Overload {
    let overload: &'static Overload = Box::leak(Box::new(overload));
    OVERLOADS.lock().push(overload);
    overload
}

pub fn overloads() -> Vec<&'static Overload> {
    OVERLOADS.lock().clone()
}

/// A registered overload by its label, such as `aten::clone`.
pub fn find(label: &str) -> Option<&'static Overload> {
    OVERLOADS
        .lock()
        .iter()
        .find(|overload| overload.label == label)
        .copied()
}

/// Calls per overload that ran on the device.
pub fn executed() -> BTreeMap<String, u64> {
    overloads()
        .into_iter()
        .filter_map(|overload| match overload.executed.load(Relaxed) {
            0 => None,
            _ if overload.schema.name == "_torch_tpu_dense" => None, // part of a host copy, not a call of the user's
            count => Some((overload.label.clone(), count)),
        })
        .collect()
}

pub fn decomposed() -> BTreeMap<String, u64> {
    DECOMPOSED.lock().clone()
}

pub fn fallback() -> BTreeMap<String, u64> {
    FALLBACK.lock().clone()
}

/// Counts a call that PyTorch's decomposition served.
pub fn count_decomposed(label: &str) {
    *DECOMPOSED.lock().entry(label.to_owned()).or_default() += 1;
}

/// Counts a call that ran on the CPU; how many there were before.
pub fn count_fallback(label: &str) -> u64 {
    let mut counts = FALLBACK.lock();
    let count = counts.entry(label.to_owned()).or_default();
    *count += 1;
    *count - 1
}

pub fn reset() {
    for overload in overloads() {
        overload.executed.store(0, Relaxed);
    }
    DECOMPOSED.lock().clear();
    FALLBACK.lock().clear();
}
