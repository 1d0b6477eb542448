//! Running programs: at once when their executable is there, in order on the launch thread while one is still compiling.

use super::checks;
use super::numbers;
use super::program::{Input, Output, Program};
use crate::device::event::Mark;
use crate::device::generator::State as RandomState;
use crate::device::registry::{self, Runtime};
use crate::error::{Error, Result};
use crate::pjrt::{Buffer, Executable};
use crate::stablehlo::Literal;
use crate::storage::{Slot, Storage};
use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// The buffers of a program's results, in their order.
pub type Results = SmallVec<[Arc<Buffer>; 4]>;

/// One run of a program, owning what it needs.
pub struct Launch {
    pub program: Arc<Program>,
    pub storages: Vec<Arc<Storage>>,
    pub numbers: SmallVec<[Literal; 4]>,
    pub random: Option<RandomState>,
    /// Storages of the new tensors.
    pub new: Vec<Arc<Storage>>,
    pub device: u16,
    pub stream: i64,
    pub sequence: u64,
}

/// Work in dispatch order.
pub enum Task {
    Launch(Launch),
    /// A host copy becomes a storage's buffer.
    Set {
        storage: Arc<Storage>,
        buffer: Arc<Buffer>,
    },
    /// An event is recorded.
    Mark {
        mark: Arc<Mark>,
        device: u16,
        stream: i64,
    },
}

/// Tasks queued or running.
static OUTSTANDING: AtomicUsize = AtomicUsize::new(0);
static QUEUE: Mutex<VecDeque<Task>> = Mutex::new(VecDeque::new());
static WORK: Condvar = Condvar::new();
static IDLE: Condvar = Condvar::new();
static STARTED: AtomicBool = AtomicBool::new(false);
static SEQUENCE: AtomicU64 = AtomicU64::new(0);

/// The number of the call that is being dispatched: errors name it.
pub fn next_sequence() -> u64 {
    SEQUENCE.fetch_add(1, Relaxed)
}

/// Whether nothing is queued, so that a program may run at once.
pub fn is_idle() -> bool {
    OUTSTANDING.load(Acquire) == 0
}

/// Appends a task. It runs after all that were queued before it.
pub fn push(task: Task) {
    OUTSTANDING.fetch_add(1, Relaxed);
    QUEUE.lock().push_back(task);
    WORK.notify_one();
    if !STARTED.swap(true, Relaxed)
        && std::thread::Builder::new()
            .name("torch_tpu launch".into())
            .spawn(work)
            .is_err()
    {
        // No thread to be had: run it here, in order.
        while let Some(task) = { QUEUE.lock().pop_front() } {
            run(task);
        }
    }
}

/// Waits until everything queued has been launched. Not with the GIL held.
pub fn wait_idle() {
    if is_idle() {
        return;
    }
    let mut queue = QUEUE.lock();
    while !is_idle() {
        IDLE.wait(&mut queue);
    }
}

fn work() {
    loop {
        let task = {
            let mut queue = QUEUE.lock();
            loop {
                match queue.pop_front() {
                    Some(task) => break task,
                    None => WORK.wait(&mut queue),
                }
            }
        };
        run(task);
    }
}

fn run(task: Task) {
    match task {
        Task::Launch(launch) => launch.run(),
        Task::Set { storage, buffer } => storage.put(Slot::Resident(buffer)),
        Task::Mark { mark, device, stream } => mark_now(&mark, device, stream),
    }
    let queue = QUEUE.lock();
    if OUTSTANDING.fetch_sub(1, Release) == 1 {
        IDLE.notify_all();
    }
    drop(queue);
}

/// Records an event against what is unfinished on its stream now.
pub fn mark_now(mark: &Arc<Mark>, device: u16, stream: i64) {
    let before = registry::started()
        .map(|runtime| runtime.streams[device as usize].unfinished(stream))
        .unwrap_or_default();
    mark.reached(before);
}

impl Launch {
    fn run(self) {
        let result = catch_unwind(AssertUnwindSafe(|| self.try_run())).unwrap_or_else(|_| {
            Err(Error::runtime(
                "the launch thread panicked; please report this as a bug",
            ))
        });
        if let Err(error) = result {
            self.poison(error);
        }
    }

    fn try_run(&self) -> Result<()> {
        let runtime = registry::runtime()?;
        let executable = self.program.slot.wait().as_ref().map_err(Clone::clone)?;
        let storages: SmallVec<[&Arc<Storage>; 8]> = self.storages.iter().collect();
        let slots: SmallVec<[Slot; 8]> = storages.iter().map(|storage| storage.snapshot().1).collect();
        let results = execute(
            runtime,
            executable,
            &self.program,
            self.device,
            self.stream,
            &storages,
            slots,
            &self.numbers,
            self.random,
        )?;
        let mut new = self.new.iter();
        store(&self.program, &storages, results, |_, buffer| {
            if let Some(storage) = new.next() {
                storage.put(Slot::Resident(buffer));
            }
        });
        Ok(())
    }

    /// What depends on a failed program fails when it is read, and only that.
    fn poison(&self, error: Error) {
        let error = Arc::new(error.context(format!("{} (call {})", self.program.label, self.sequence)));
        for storage in &self.new {
            storage.put(Slot::Failed(error.clone()));
        }
        for &ordinal in &self.program.written {
            self.storages[ordinal].put(Slot::Failed(error.clone()));
        }
    }
}

/// Runs a program. `slots` are what the storages hold, in their order; written ones are taken for the time of the call and, on an error,
/// put back or marked as failed.
#[allow(clippy::too_many_arguments)]
pub fn execute(
    runtime: &Runtime,
    executable: &Executable,
    program: &Program,
    device: u16,
    stream: i64,
    storages: &[&Arc<Storage>],
    mut slots: SmallVec<[Slot; 8]>,
    numbers: &[Literal],
    random: Option<RandomState>,
) -> Result<Results> {
    // Written storages are held busy from here on, taken in the order of their addresses so that two threads cannot wait for one another.
    let mut taken: SmallVec<[usize; 8]> = program.written.iter().copied().collect();
    if taken.len() > 1 {
        taken.sort_unstable_by_key(|&ordinal| storages[ordinal].address);
    }
    for &ordinal in &taken {
        slots[ordinal] = Slot::Empty; // the snapshot's reference would keep the buffer from being donated
        slots[ordinal] = storages[ordinal].take();
    }
    let result = execute_taken(runtime, executable, program, device, stream, &slots, numbers, random);
    if let Err(error) = &result {
        for &ordinal in &taken {
            let slot = std::mem::replace(&mut slots[ordinal], Slot::Empty);
            let lost = matches!(&slot, Slot::Resident(buffer) if buffer.is_deleted());
            storages[ordinal].put(if lost {
                Slot::Failed(Arc::new(error.clone()))
            } else {
                slot
            });
        }
    }
    result
}

#[allow(clippy::too_many_arguments)]
fn execute_taken(
    runtime: &Runtime,
    executable: &Executable,
    program: &Program,
    device: u16,
    stream: i64,
    slots: &[Slot],
    numbers: &[Literal],
    random: Option<RandomState>,
) -> Result<Results> {
    let mut arguments: SmallVec<[Arc<Buffer>; 16]> = SmallVec::new();
    let mut kept: SmallVec<[i64; 8]> = SmallVec::new();
    for input in &program.inputs {
        arguments.push(match input {
            Input::Storage { ordinal, donated } => match &slots[*ordinal] {
                Slot::Resident(buffer) => {
                    // Somebody else holds the buffer (a snapshot of another thread, the reaper): it must stay.
                    if *donated && Arc::strong_count(buffer) > 1 {
                        kept.push(arguments.len() as i64);
                    }
                    buffer.clone()
                }
                Slot::Failed(error) => return Err((**error).clone()),
                Slot::Empty | Slot::Pending | Slot::Busy => {
                    return Err(Error::runtime(
                        "an operand is not on the device; please report this as a bug",
                    ));
                }
            },
            Input::Number { ordinal } => numbers::buffer(runtime, device, numbers[*ordinal])?,
            Input::Random => match random {
                Some(state) => numbers::random_state(runtime, device, state)?,
                None => {
                    return Err(Error::runtime(
                        "a random program without a generator; please report this as a bug",
                    ));
                }
            },
        });
    }
    let mut results: SmallVec<[Buffer; 4]> = SmallVec::new();
    let event = executable.execute(&arguments, runtime.device(device), &kept, true, &mut results)?;
    if let Some(event) = event {
        runtime.streams[device as usize].launched(stream, event);
    }
    Ok(results.into_iter().map(Arc::new).collect())
}

/// Hands the results out: new tensors to `new` (in order, with the output's position), written storages and checks to their places. Returns the count of a
/// bounded program.
pub fn store(
    program: &Program,
    storages: &[&Arc<Storage>],
    results: Results,
    mut new: impl FnMut(usize, Arc<Buffer>),
) -> Option<Arc<Buffer>> {
    let mut count = None;
    for (position, (output, buffer)) in program.outputs.iter().zip(results).enumerate() {
        match output {
            Output::New(_) => new(position, buffer),
            Output::Write { ordinal, .. } => storages[*ordinal].put(Slot::Resident(buffer)),
            Output::Check { kind, message } => checks::add(buffer, *kind, message.clone()),
            Output::Count => count = Some(buffer),
        }
    }
    count
}
