//! A compiled program, loaded on a client or not.

use super::buffer::Buffer;
use super::call::Table;
use super::client::Handle;
use super::device::Device;
use super::error::slice;
use super::event::Event;
use super::topology::TopologyHandle;
use super::{LIVE_EXECUTABLES, born, died, ffi};
use crate::error::{Error, Result, ensure};
use smallvec::{SmallVec, smallvec};
use std::ptr::null_mut;
use std::sync::{Arc, OnceLock};

/// `CompileOptionsProto`: executable_build_options (field 3) with num_replicas (4) = num_partitions (5) = 1, then
/// compile_portable_executable (field 4) = true, so that one executable runs on whichever device it is given, then in
/// env_option_overrides (field 7) `xla_cpu_enable_fast_min_max` = false: with XLA's default the maximum of a NaN and a number is either.
pub const PORTABLE_OPTIONS: &[u8] =
    b"\x1a\x04\x20\x01\x28\x01\x20\x01\x3a\x21\x0a\x1bxla_cpu_enable_fast_min_max\x12\x02\x10\x00";

/// A program loaded on a client: it can run.
#[derive(Debug)]
pub struct Executable {
    client: Arc<Handle>,
    raw: *mut ffi::LoadedExecutable,
    compiled: Compiled,
    num_outputs: usize,
    /// Size on the device of each result, asked for at the first run.
    output_bytes: OnceLock<SmallVec<[usize; 8]>>,
}

// SAFETY: the C API binds no executable to a thread (see `Table`), and running one does not change it.
unsafe impl Send for Executable {}
// SAFETY: as above.
unsafe impl Sync for Executable {}

/// A program that was compiled, perhaps for devices that this process does not have.
#[derive(Debug)]
pub struct Compiled {
    table: Table,
    raw: *mut ffi::Executable,
    _owner: Owner,
}

/// What has to outlive a [`Compiled`].
#[derive(Debug)]
#[allow(dead_code)] // held, never read
pub(super) enum Owner {
    Client(Arc<Handle>),
    Topology(Arc<TopologyHandle>),
}

// SAFETY: immutable, and the C API binds it to no thread (see `Table`).
unsafe impl Send for Compiled {}
// SAFETY: as above.
unsafe impl Sync for Compiled {}

/// What a run takes, in bytes, as the compiler planned it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompiledMemoryStats {
    pub generated_code_bytes: i64,
    pub argument_bytes: i64,
    pub output_bytes: i64,
    /// Part of the output that takes donated arguments' memory.
    pub alias_bytes: i64,
    pub temporary_bytes: i64,
    pub peak_bytes: i64,
}

impl Compiled {
    /// Takes ownership of an executable that belongs to `owner`.
    pub(super) fn new(table: Table, raw: *mut ffi::Executable, owner: Owner) -> Compiled {
        Compiled {
            table,
            raw,
            _owner: owner,
        }
    }

    pub fn num_outputs(&self) -> Result<usize> {
        let mut call = ffi::ExecutableNumOutputs {
            executable: self.raw,
            ..Default::default()
        };
        // SAFETY: the executable is alive.
        unsafe { self.table.call(&mut call)? };
        Ok(call.num_outputs)
    }

    /// The executable as bytes, for [`super::Client::load_serialized`].
    pub fn serialize(&self) -> Result<Vec<u8>> {
        let mut call = ffi::ExecutableSerialize {
            executable: self.raw,
            ..Default::default()
        };
        // SAFETY: the executable is alive.
        unsafe { self.table.call(&mut call)? };
        // SAFETY: the bytes live until the deleter is called.
        let bytes = unsafe { slice(call.bytes.cast::<u8>(), call.bytes_size) }.to_vec();
        if let Some(deleter) = call.deleter {
            // SAFETY: the deleter and its argument came together; called once.
            unsafe { deleter(call.serialized) };
        }
        Ok(bytes)
    }

    pub fn memory_stats(&self) -> Result<CompiledMemoryStats> {
        let mut call = ffi::ExecutableGetCompiledMemoryStats {
            executable: self.raw,
            ..Default::default()
        };
        // SAFETY: the executable is alive.
        unsafe { self.table.call(&mut call)? };
        Ok(CompiledMemoryStats {
            generated_code_bytes: call.generated_code_bytes,
            argument_bytes: call.argument_bytes,
            output_bytes: call.output_bytes,
            alias_bytes: call.alias_bytes,
            temporary_bytes: call.temporary_bytes,
            peak_bytes: call.peak_bytes,
        })
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        // SAFETY: owned, and not used afterwards.
        unsafe {
            self.table.call_ignoring_error(&mut ffi::ExecutableDestroy {
                executable: self.raw,
                ..Default::default()
            })
        };
    }
}

/// Destroys a loaded executable; its own type, so that it is also destroyed when [`Executable::new`] fails.
struct Loaded<'a>(&'a Handle, *mut ffi::LoadedExecutable);

impl Drop for Loaded<'_> {
    fn drop(&mut self) {
        // SAFETY: owned, and not used afterwards; runs under way hold references of their own.
        unsafe {
            self.0.table.call_ignoring_error(&mut ffi::LoadedExecutableDestroy {
                executable: self.1,
                ..Default::default()
            })
        };
    }
}

impl Executable {
    /// Takes ownership of an executable loaded on `client`.
    pub(super) fn new(client: Arc<Handle>, raw: *mut ffi::LoadedExecutable) -> Result<Executable> {
        let guard = Loaded(&client, raw);
        let mut call = ffi::LoadedExecutableGetExecutable {
            loaded: raw,
            ..Default::default()
        };
        // SAFETY: the executable is alive; the result is the caller's to destroy.
        unsafe { client.table.call(&mut call)? };
        let compiled = Compiled::new(client.table, call.executable, Owner::Client(client.clone()));
        let num_outputs = compiled.num_outputs()?;
        std::mem::forget(guard);
        born(&LIVE_EXECUTABLES);
        Ok(Executable {
            client,
            raw,
            compiled,
            num_outputs,
            output_bytes: OnceLock::new(),
        })
    }

    pub fn num_outputs(&self) -> usize {
        self.num_outputs
    }

    /// The executable as bytes, for [`super::Client::load_serialized`].
    pub fn serialize(&self) -> Result<Vec<u8>> {
        self.compiled.serialize()
    }

    pub fn memory_stats(&self) -> Result<CompiledMemoryStats> {
        self.compiled.memory_stats()
    }

    /// Runs the program on `device`: results are appended to `outputs`, at once and not yet ready. With `want_event`,
    /// returns the event of the run's completion.
    ///
    /// The arguments that the program marks with `tf.aliasing_output` or `jax.buffer_donor` are donated (deleted), but
    /// for those whose positions are in `kept`. After the call the arguments may be dropped: the run holds references
    /// of its own.
    ///
    /// The hot path: no lock, and no allocation for up to 16 arguments and 8 results (beyond the room in `outputs`).
    pub fn execute(
        &self,
        arguments: &[Arc<Buffer>],
        device: &Device,
        kept: &[i64],
        want_event: bool,
        outputs: &mut SmallVec<[Buffer; 4]>,
    ) -> Result<Option<Event>> {
        // A pointer of another plugin's would be taken for one of this plugin's.
        ensure(
            arguments.iter().all(|buffer| Arc::ptr_eq(&buffer.client, &self.client))
                && Arc::ptr_eq(&device.client, &self.client),
            || {
                Error::runtime(
                    "executable, arguments and device belong to different PJRT clients; copy the arguments through the host",
                )
            },
        )?;
        let inputs: SmallVec<[*mut ffi::Buffer; 16]> = arguments.iter().map(|buffer| buffer.raw).collect();
        let mut results: SmallVec<[*mut ffi::Buffer; 8]> = smallvec![null_mut(); self.num_outputs];
        let (input_row, result_row) = (inputs.as_ptr(), results.as_mut_ptr());
        let mut event = null_mut();
        let options = ffi::ExecuteOptions {
            non_donatable_input_indices: kept.as_ptr(),
            num_non_donatable_input_indices: kept.len(),
            ..Default::default()
        };
        let mut call = ffi::LoadedExecutableExecute {
            executable: self.raw,
            options: &raw const options,
            argument_lists: &raw const input_row,
            num_devices: 1,
            num_args: inputs.len(),
            output_lists: &raw const result_row,
            device_complete_events: if want_event { &raw mut event } else { null_mut() },
            execute_device: device.raw,
            ..Default::default()
        };
        // SAFETY: all objects are alive and of this client; the lists have one row, with `num_args` buffers and room
        // for the program's number of results; everything outlives the call.
        unsafe { self.client.table.call(&mut call)? };
        let event = (!event.is_null()).then(|| Event::new(self.client.clone(), event));
        self.collect(&results, device, outputs)?;
        Ok(event)
    }

    /// Wraps what a run returned.
    fn collect(
        &self,
        results: &[*mut ffi::Buffer],
        device: &Device,
        outputs: &mut SmallVec<[Buffer; 4]>,
    ) -> Result<()> {
        let start = outputs.len();
        let known = self.output_bytes.get();
        for (position, &result) in results.iter().enumerate().filter(|(_, result)| !result.is_null()) {
            let bytes = known.map_or(0, |bytes| bytes[position]);
            outputs.push(Buffer::from_raw(self.client.clone(), result, device.raw, bytes));
        }
        if outputs.len() - start != results.len() {
            outputs.truncate(start);
            return Err(Error::runtime(
                "the plugin left out a result of the program; please report this to the plugin's vendor",
            ));
        }
        if known.is_none() {
            match outputs[start..].iter_mut().map(Buffer::measure).collect::<Result<_>>() {
                // Another thread may have been first, with the same sizes.
                Ok(bytes) => drop(self.output_bytes.set(bytes)),
                Err(error) => {
                    outputs.truncate(start);
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        drop(Loaded(&self.client, self.raw));
        died(&LIVE_EXECUTABLES);
    }
}
