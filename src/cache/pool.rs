//! The compile pool: as many workers as cores, and one compile for all requests of the same text.

use super::statistics::{COMPILE_NANOSECONDS, COMPILES, SHARED};
use crate::config;
use crate::device::registry;
use crate::error::{Error, Result};
use crate::pjrt::{Executable, PORTABLE_OPTIONS};
use parking_lot::{Condvar, Mutex};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Instant;

/// An executable that may still be compiling.
#[derive(Debug, Default)]
pub struct Slot {
    done: OnceLock<Result<Arc<Executable>>>,
    lock: Mutex<()>,
    finished: Condvar,
}

impl Slot {
    /// The executable, if it is there already.
    pub fn get(&self) -> Option<&Result<Arc<Executable>>> {
        self.done.get()
    }

    /// Waits for the compile. Not with the GIL held.
    pub fn wait(&self) -> &Result<Arc<Executable>> {
        loop {
            if let Some(result) = self.done.get() {
                return result;
            }
            let mut guard = self.lock.lock();
            if self.done.get().is_none() {
                self.finished.wait(&mut guard);
            }
        }
    }

    fn finish(&self, result: Result<Arc<Executable>>) {
        let _guard = self.lock.lock();
        let _ = self.done.set(result);
        self.finished.notify_all();
    }
}

#[derive(Default)]
struct Pool {
    queue: Mutex<VecDeque<(Arc<str>, Arc<Slot>)>>,
    work: Condvar,
    by_text: Mutex<FxHashMap<Arc<str>, Arc<Slot>>>,
}

static POOL: LazyLock<Arc<Pool>> = LazyLock::new(|| {
    let pool = Arc::new(Pool::default());
    for index in 0..config::get().compile_threads {
        let pool = pool.clone();
        // With no worker at all `request` compiles on the calling thread.
        let _ = std::thread::Builder::new()
            .name(format!("torch_tpu compile {index}"))
            .spawn(move || pool.work());
    }
    pool
});

impl Pool {
    fn work(&self) {
        loop {
            let (text, slot) = {
                let mut queue = self.queue.lock();
                loop {
                    if let Some(item) = queue.pop_front() {
                        break item;
                    }
                    self.work.wait(&mut queue);
                }
            };
            let result = catch_unwind(AssertUnwindSafe(|| compile(&text))).unwrap_or_else(|_| {
                Err(Error::runtime(
                    "the compiler thread panicked; please report this as a bug",
                ))
            });
            slot.finish(result);
        }
    }
}

/// Asks for the executable of a StableHLO module.
pub fn request(text: String) -> Arc<Slot> {
    let text: Arc<str> = text.into();
    let slot = {
        let mut by_text = POOL.by_text.lock();
        if let Some(slot) = by_text.get(&text) {
            SHARED.fetch_add(1, Relaxed);
            return slot.clone();
        }
        let slot = Arc::new(Slot::default());
        by_text.insert(text.clone(), slot.clone());
        slot
    };
    POOL.queue.lock().push_back((text, slot.clone()));
    POOL.work.notify_one();
    slot
}

fn compile(text: &str) -> Result<Arc<Executable>> {
    let start = Instant::now();
    let result = registry::runtime()?
        .client
        .compile(text, PORTABLE_OPTIONS)
        .map_err(|error| match dump(text) {
            Some(path) => error.context(format!("compiling the program written to {path}")),
            None => error,
        });
    COMPILES.fetch_add(1, Relaxed);
    COMPILE_NANOSECONDS.fetch_add(start.elapsed().as_nanos() as u64, Relaxed);
    result
}

/// Writes a program into the `TORCH_TPU_DUMP` folder; where it went.
pub fn dump(text: &str) -> Option<String> {
    let folder = config::get().dump.as_ref()?;
    let path = format!(
        "{folder}/{:016x}.mlir",
        super::memory::hash(&text.bytes().map(u64::from).collect::<Vec<_>>())
    );
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&path, text))
        .ok()?;
    Some(path)
}
