//! Execution modes: strict (the default) and debug.

use crate::config;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// 0 = as the environment says, 1 = strict, 2 = debug.
static MODE: AtomicU8 = AtomicU8::new(0);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Strict,
    Debug,
}

pub fn get() -> Mode {
    match MODE.load(Relaxed) {
        1 => Mode::Strict,
        2 => Mode::Debug,
        _ => {
            let mode = if config::get().launch_blocking {
                Mode::Debug
            } else {
                Mode::Strict
            };
            set(mode);
            mode
        }
    }
}

pub fn set(mode: Mode) {
    MODE.store(if mode == Mode::Debug { 2 } else { 1 }, Relaxed);
}

pub fn is_debug() -> bool {
    get() == Mode::Debug
}
