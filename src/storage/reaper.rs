//! Deferred destruction of buffers: a deleter can run with the GIL held, so it only enqueues. The next dispatched call, a
//! synchronisation or, beyond a limit, the reaper's own thread destroys what is here.

use crate::pjrt::Buffer;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// Above this many buffers waiting, the thread is woken.
const WAKE_COUNT: usize = 512;

static WAITING: AtomicUsize = AtomicUsize::new(0);
static GRAVES: Mutex<Vec<Arc<Buffer>>> = Mutex::new(Vec::new());
static WAKE: Condvar = Condvar::new();
static STARTED: AtomicBool = AtomicBool::new(false);

/// Queues a buffer for destruction.
pub fn bury(buffer: Arc<Buffer>) {
    let mut graves = GRAVES.lock();
    graves.push(buffer);
    let waiting = graves.len();
    WAITING.store(waiting, Release);
    if waiting >= WAKE_COUNT {
        WAKE.notify_one();
    }
}

/// Destroys what is queued. Not from a deleter.
pub fn drain() {
    if WAITING.load(Acquire) == 0 {
        return;
    }
    let buffers = {
        let mut graves = GRAVES.lock();
        WAITING.store(0, Release);
        std::mem::take(&mut *graves)
    };
    drop(buffers);
}

/// Starts the thread that destroys buffers when no call comes by; once per process.
pub fn start() {
    if STARTED.swap(true, Relaxed) {
        return;
    }
    let run = || loop {
        let mut graves = GRAVES.lock();
        if graves.len() < WAKE_COUNT {
            WAKE.wait(&mut graves);
        }
        drop(graves);
        drain();
    };
    // Without the thread the next call still destroys them.
    let _ = std::thread::Builder::new().name("torch_tpu reaper".into()).spawn(run);
}
