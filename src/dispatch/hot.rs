//! The hot path: key → program → run → results. On a hit nothing is allocated beyond the outputs, and no lock is held over the
//! execution.

use super::arguments::Argument;
use super::build::{self, Built, Context};
use super::overload::Overload;
use super::program::{Output, Program};
use super::queue::{self, Launch, Task};
use super::{checks, key, modes};
use crate::cache::memory::{self, PROGRAMS};
use crate::cache::statistics;
use crate::device::{current, generator, registry};
use crate::error::{Error, Result};
use crate::shape::Dims;
use crate::storage::{Slot, Storage, reaper};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// What a call gives back to the shim.
pub struct Completed {
    pub program: Arc<Program>,
    /// Storages of the program's new tensors, in order.
    pub new: SmallVec<[Arc<Storage>; 4]>,
    /// Size of axis 0 of the new tensors of a bounded program.
    pub count: Option<i64>,
}

pub enum Outcome {
    Completed(Completed),
    /// `out=` tensors (flattened argument positions) to resize before calling again.
    Resize(Vec<(usize, Dims)>),
}

thread_local! {
    static KEY: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Runs one call of an overload.
pub fn call(overload: &Overload, context: u64, arguments: &[Argument]) -> Result<Outcome> {
    let debug = modes::is_debug();
    let context = context | (debug as u64) << 10;
    KEY.with_borrow_mut(|key| {
        key.clear();
        call_with(overload, context, arguments, debug, key)
    })
    .map_err(|error| error.context(&overload.label))
}

fn call_with(
    overload: &Overload,
    context: u64,
    arguments: &[Argument],
    debug: bool,
    key: &mut Vec<u64>,
) -> Result<Outcome> {
    reaper::drain();
    let runtime = registry::runtime()?;
    let (mut inputs, device) = key::collect(overload, context, arguments, current::device(), key)?;
    let hash = memory::hash(key);
    let program = match PROGRAMS.find(hash, key) {
        Some(program) => {
            statistics::HITS.fetch_add(1, Relaxed);
            program
        }
        None => match build::build(overload, Context(context), arguments, &inputs, device, key)? {
            Built::Program(program) => {
                let built = Arc::new(program);
                let kept = PROGRAMS.insert(hash, built.clone());
                // Another thread may have built the same meanwhile: its program is the one, and its compile is shared.
                let counter = if Arc::ptr_eq(&built, &kept) {
                    &statistics::MISSES
                } else {
                    &statistics::HITS
                };
                counter.fetch_add(1, Relaxed);
                kept
            }
            Built::Resize(outs) => return Ok(Outcome::Resize(outs)),
        },
    };
    overload.executed.fetch_add(1, Relaxed);
    let random = (program.random_blocks > 0).then(|| {
        let generator = inputs.generator.unwrap_or_else(|| generator::default(device));
        generator.advance(program.random_blocks)
    });
    let stream = current::stream(device);
    let sequence = queue::next_sequence();
    if program.bounded {
        program.slot.wait().as_ref().map_err(Clone::clone)?;
        queue::wait_idle();
        for (slot, storage) in inputs.slots.iter_mut().zip(&inputs.storages) {
            *slot = storage.snapshot().1;
        }
    }

    let ready = if queue::is_idle() { program.slot.get() } else { None };
    let mut new: SmallVec<[Arc<Storage>; 4]> = SmallVec::new();
    let Some(executable) = ready else {
        for tensor in program.new_tensors() {
            new.push(Storage::result(device, tensor.bytes, tensor.ty, Slot::Pending));
        }
        set_types(&program, &inputs.storages);
        queue::push(Task::Launch(Launch {
            storages: inputs.storages.iter().map(|storage| (*storage).clone()).collect(),
            numbers: inputs.numbers,
            random,
            new: new.to_vec(),
            device,
            stream,
            sequence,
            program: program.clone(),
        }));
        if debug {
            queue::wait_idle();
            settle(&program, &new)?;
        }
        return Ok(Outcome::Completed(Completed {
            program,
            new,
            count: None,
        }));
    };

    let executable = executable.as_ref().map_err(Clone::clone)?;
    let named = |error: Error| error.context(format!("call {sequence}"));
    let slots = std::mem::take(&mut inputs.slots);
    let results = queue::execute(
        runtime,
        executable,
        &program,
        device,
        stream,
        &inputs.storages,
        slots,
        &inputs.numbers,
        random,
    )
    .map_err(named)?;
    set_types(&program, &inputs.storages);
    let count = queue::store(&program, &inputs.storages, results, |position, buffer| {
        if let Output::New(tensor) = &program.outputs[position] {
            new.push(Storage::result(device, tensor.bytes, tensor.ty, Slot::Resident(buffer)));
        }
    });
    let count = count
        .map(|buffer| {
            let mut bytes = [0; 8];
            buffer.read_into(&mut bytes).map(|()| i64::from_ne_bytes(bytes))
        })
        .transpose()?;
    if debug {
        settle(&program, &new)?;
    }
    Ok(Outcome::Completed(Completed { program, new, count }))
}

fn set_types(program: &Program, storages: &[&Arc<Storage>]) {
    for output in &program.outputs {
        if let Output::Write { ordinal, ty } = output {
            storages[*ordinal].set_type(*ty);
        }
    }
}

/// Debug mode: waits for the call's results and reads its checks.
fn settle(program: &Program, new: &[Arc<Storage>]) -> Result<()> {
    for storage in new {
        if let Slot::Failed(error) = storage.snapshot().1 {
            return Err((*error).clone());
        }
        if let Slot::Resident(buffer) = storage.snapshot().1 {
            buffer.ready_event()?.wait()?;
        }
    }
    if program.has_checks() { checks::raise() } else { Ok(()) }
}
