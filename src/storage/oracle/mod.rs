//! The oracle of windows: random chains of view operations, read and written by plain walks over memory.

mod chain;
mod device;
mod host;
mod run;

use super::window::Window;

/// A small deterministic generator (splitmix64), so that a failing case is named by its seed.
pub(super) struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// In `low..=high`.
    pub fn range(&mut self, low: i64, high: i64) -> i64 {
        low + (self.next() % (high - low + 1).max(1) as u64) as i64
    }

    pub fn chance(&mut self, one_in: i64) -> bool {
        self.range(1, one_in) == 1
    }

    pub fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.range(0, values.len() as i64 - 1) as usize]
    }
}

/// Positions of the window's elements in its storage, in row-major order.
pub(super) fn positions(window: &Window) -> Vec<i64> {
    let mut positions = vec![window.offset];
    for (&size, &stride) in window.sizes.iter().zip(&window.strides) {
        positions = positions
            .iter()
            .flat_map(|&at| (0..size).map(move |index| at + index * stride))
            .collect();
    }
    positions
}

/// Number of cases of a test: `TORCH_TPU_ORACLE_CASES`, or `default`.
pub(super) fn cases(default: u64) -> u64 {
    std::env::var("TORCH_TPU_ORACLE_CASES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}
