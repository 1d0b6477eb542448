//! Counts for `torch.tpu.cache_stats()`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub static HITS: AtomicU64 = AtomicU64::new(0);
pub static MISSES: AtomicU64 = AtomicU64::new(0);
/// Compiles that another request for the same text had started already.
pub static SHARED: AtomicU64 = AtomicU64::new(0);
pub static COMPILES: AtomicU64 = AtomicU64::new(0);
pub static COMPILE_NANOSECONDS: AtomicU64 = AtomicU64::new(0);

#[derive(Clone, Copy, Debug)]
pub struct Statistics {
    pub hits: u64,
    pub misses: u64,
    pub shared: u64,
    pub compiles: u64,
    pub compile_seconds: f64,
    pub entries: usize,
}

pub fn get() -> Statistics {
    Statistics {
        hits: HITS.load(Relaxed),
        misses: MISSES.load(Relaxed),
        shared: SHARED.load(Relaxed),
        compiles: COMPILES.load(Relaxed),
        compile_seconds: COMPILE_NANOSECONDS.load(Relaxed) as f64 * 1e-9,
        entries: super::memory::PROGRAMS.len(),
    }
}
