//! Copies between host and device, and waiting.

use super::arguments::Argument;
use super::arguments::TensorArgument;
use super::build::window;
use super::hot::{self, Outcome};
use super::overload::Overload;
use super::queue::{self, Task};
use super::{checks, tiers};
use crate::device::fork;
use crate::device::registry;
use crate::device::stream;
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::pjrt::Buffer;
use crate::stablehlo::TensorType;
use crate::storage::{Slot, Storage, TypeId, reaper};
use std::sync::{Arc, OnceLock};

/// `data` (row-major, of `dtype` and `dims`) becomes all that the storage holds.
pub fn upload(storage: &Arc<Storage>, dtype: DType, dims: &[i64], data: &[u8]) -> Result<()> {
    let runtime = registry::runtime()?;
    let buffer = Buffer::from_host(runtime.device(storage.device), data, dtype, dims)?;
    install(storage, TypeId::of(&TensorType::new(dtype, dims)), Arc::new(buffer));
    Ok(())
}

/// Makes `buffer` what the storage holds, in dispatch order.
fn install(storage: &Arc<Storage>, ty: TypeId, buffer: Arc<Buffer>) {
    if queue::is_idle() {
        storage.set(ty, Slot::Resident(buffer));
    } else {
        storage.set_type(ty);
        queue::push(Task::Set {
            storage: storage.clone(),
            buffer,
        });
    }
}

/// The tensor's elements, row-major, into `data` (exactly as many bytes). Waits; raises what failed on the way.
pub fn download(tensor: &TensorArgument, data: &mut [u8]) -> Result<()> {
    if data.is_empty() {
        return Ok(());
    }
    let (buffer, _hold) = dense(tensor)?;
    let read = match buffer {
        Some(buffer) => buffer.read_into(data),
        None => {
            data.fill(0);
            Ok(())
        }
    };
    checks::raise()?;
    reaper::drain();
    read
}

/// A buffer, and what keeps it alive.
type Dense = (Option<Arc<Buffer>>, Option<Arc<Storage>>);

/// A buffer with just the tensor's elements, row-major; `None` for a storage that was never written. The second value keeps it alive.
fn dense(tensor: &TensorArgument) -> Result<Dense> {
    fork::check()?;
    queue::wait_idle();
    let (ty, slot) = tensor.storage.snapshot();
    let whole = ty.get().is_some_and(|ty| {
        let window = window(tensor);
        ty.dtype == window.dtype && !window.conj && !window.neg && window.is_whole(&ty)
    });
    match slot {
        Slot::Empty => return Ok((None, None)),
        Slot::Failed(error) => return Err((*error).clone()),
        Slot::Resident(buffer) if whole => return Ok((Some(buffer), None)),
        _ => {}
    }
    let overload = dense_overload()?;
    let outcome = hot::call(overload, DType::F32.torch() as u64, &[Argument::Tensor(*tensor)]);
    let Outcome::Completed(mut completed) = outcome? else {
        return Err(Error::runtime("the copy cannot ask for a resize"));
    };
    queue::wait_idle();
    let storage = completed
        .new
        .pop()
        .ok_or_else(|| Error::runtime("the copy gave no result"))?;
    match storage.snapshot().1 {
        Slot::Resident(buffer) => Ok((Some(buffer), Some(storage))),
        Slot::Failed(error) => Err((*error).clone()),
        _ => Err(Error::runtime(
            "the copy is not on the device; please report this as a bug",
        )),
    }
}

/// The overload of `ops::internal` that copies a window.
fn dense_overload() -> Result<&'static Overload> {
    let label = "aten::_torch_tpu_dense";
    static DENSE: OnceLock<Option<&'static Overload>> = OnceLock::new();
    DENSE
        .get_or_init(|| tiers::find(label))
        .ok_or_else(|| Error::runtime(format!("the table has no {label}; please report this as a bug")))
}

/// A new storage on `device` with the tensor's elements, row-major.
pub fn to_device(tensor: &TensorArgument, device: u16) -> Result<Arc<Storage>> {
    let runtime = registry::runtime()?;
    let bytes = crate::shape::numel(tensor.sizes) as usize * tensor.dtype.bytes();
    let (buffer, _hold) = dense(tensor)?;
    let Some(buffer) = buffer else {
        return Storage::empty(device, bytes);
    };
    let copy = buffer.copy_to_device(runtime.device(device))?;
    Ok(Storage::result(
        device,
        bytes,
        TypeId::of(&TensorType::new(tensor.dtype, tensor.sizes)),
        Slot::Resident(Arc::new(copy)),
    ))
}

/// Gives a storage another size: what it held stays at its front.
pub fn resize(storage: &Arc<Storage>, bytes: usize) -> Result<Arc<Storage>> {
    let old = storage.bytes().min(bytes);
    let resized = Storage::empty(storage.device, bytes)?;
    if old == 0 || storage.ty() == TypeId::EMPTY {
        return Ok(resized);
    }
    let mut data = vec![0; old];
    let sizes = [old as i64];
    let whole = TensorArgument {
        storage,
        dtype: DType::U8,
        sizes: &sizes,
        strides: &[1],
        offset: 0,
        conj: false,
        neg: false,
    };
    download(&whole, &mut data)?;
    data.resize(bytes, 0);
    upload(&resized, DType::U8, &[bytes as i64], &data)?;
    Ok(resized)
}

/// Waits for all work on a device and raises what failed.
pub fn synchronize(device: u16) -> Result<()> {
    fork::check()?;
    queue::wait_idle();
    let Some(runtime) = registry::started() else {
        return Ok(());
    };
    ensure((device as usize) < runtime.device_count(), || {
        Error::runtime(format!("no device {device}"))
    })?;
    let waited = stream::wait_all(&runtime.streams[device as usize].all_unfinished());
    checks::raise()?;
    reaper::drain();
    waited
}

/// Waits for the work on one stream.
pub fn synchronize_stream(device: u16, stream: i64) -> Result<()> {
    fork::check()?;
    queue::wait_idle();
    let Some(runtime) = registry::started() else {
        return Ok(());
    };
    let waited = stream::wait_all(&runtime.streams[device as usize].unfinished(stream));
    checks::raise()?;
    waited
}
