//! Run-time checks: 0-d bool results that the host reads when it next waits for the device.

use crate::error::{Error, Kind, Result};
use crate::pjrt::Buffer;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Finished checks are looked through when more than this many are waiting.
const SWEEP: usize = 256;

struct Pending {
    ok: Arc<Buffer>,
    kind: Kind,
    message: String,
}

static COUNT: AtomicUsize = AtomicUsize::new(0);
static PENDING: Mutex<Vec<Pending>> = Mutex::new(Vec::new());
/// A failure found while sweeping, to be raised at the next wait.
static FAILED: Mutex<Option<Error>> = Mutex::new(None);

pub fn add(ok: Arc<Buffer>, kind: Kind, message: String) {
    let due = {
        let mut pending = PENDING.lock();
        pending.push(Pending { ok, kind, message });
        COUNT.store(pending.len(), Relaxed);
        if pending.len() < SWEEP {
            Vec::new()
        } else {
            std::mem::take(&mut *pending)
        }
    };
    if !due.is_empty() {
        COUNT.store(0, Relaxed);
        let error = due.into_iter().find_map(|check| read(check).err());
        let mut failed = FAILED.lock();
        if failed.is_none() {
            *failed = error;
        }
        COUNT.fetch_add(failed.is_some() as usize, Relaxed);
    }
}

/// Reads all checks; the first failure in program order is raised, once. Waits.
pub fn raise() -> Result<()> {
    if COUNT.load(Relaxed) == 0 {
        return Ok(());
    }
    let pending = {
        let mut pending = PENDING.lock();
        COUNT.store(0, Relaxed);
        std::mem::take(&mut *pending)
    };
    let earlier = FAILED.lock().take();
    let found = pending
        .into_iter()
        .map(|check| read(check).err())
        .fold(None, |first, error| first.or(error));
    match earlier.or(found) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

fn read(check: Pending) -> Result<()> {
    let mut ok = [1u8];
    // A program that failed has no result to read: its own error is raised where its values are read.
    if check.ok.read_into(&mut ok).is_ok() && ok[0] == 0 {
        return Err(Error::new(check.kind, check.message));
    }
    Ok(())
}
