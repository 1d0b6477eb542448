//! Philox generators: a seed and an offset in 128-bit blocks.

use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};

/// PyTorch's default seed (`c10::detail::DEFAULT_RNG_SEED`).
pub const DEFAULT_SEED: u64 = 67280421310721;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    pub seed: u64,
    pub offset: u64,
}

#[derive(Debug)]
pub struct Generator {
    state: Mutex<State>,
}

impl Generator {
    pub fn new(seed: u64) -> Arc<Generator> {
        Arc::new(Generator {
            state: Mutex::new(State { seed, offset: 0 }),
        })
    }

    pub fn state(&self) -> State {
        *self.state.lock()
    }

    pub fn set(&self, state: State) {
        *self.state.lock() = state;
    }

    /// The state for a program that uses `blocks`; the next one gets what follows.
    pub fn advance(&self, blocks: u64) -> State {
        let mut state = self.state.lock();
        let before = *state;
        state.offset = state.offset.wrapping_add(blocks);
        before
    }
}

/// Devices that have a default generator of their own.
const DEVICES: usize = 64;

fn defaults() -> &'static [Arc<Generator>] {
    static DEFAULTS: OnceLock<Vec<Arc<Generator>>> = OnceLock::new();
    DEFAULTS.get_or_init(|| (0..DEVICES).map(|_| Generator::new(DEFAULT_SEED)).collect())
}

/// The device's default generator.
pub fn default(device: u16) -> &'static Arc<Generator> {
    &defaults()[(device as usize).min(DEVICES - 1)]
}

/// Seeds the default generators of all devices.
pub fn seed_all(seed: u64) {
    for generator in defaults() {
        generator.set(State { seed, offset: 0 });
    }
}
