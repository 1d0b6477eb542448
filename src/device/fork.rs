//! Fork after initialisation: the runtime's threads do not exist in the child, so its use raises there, as CUDA's does.

use crate::error::{Error, Result};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Process that initialised the runtime; 0 = none yet.
static OWNER: AtomicU32 = AtomicU32::new(0);

pub fn claim() {
    OWNER.store(std::process::id(), Relaxed);
}

/// Whether this process was forked from one that had initialised the runtime.
pub fn is_bad() -> bool {
    let owner = OWNER.load(Relaxed);
    owner != 0 && owner != std::process::id()
}

pub fn check() -> Result<()> {
    if !is_bad() {
        return Ok(());
    }
    let name = &crate::config::get().device_name;
    Err(Error::runtime(format!(
        "cannot use the {name} device in a forked subprocess: it was initialised before the fork. Start worker processes with the 'spawn' \
         method, for instance torch.multiprocessing.set_start_method('spawn') or DataLoader(multiprocessing_context='spawn')"
    )))
}
