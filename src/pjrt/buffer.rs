//! A buffer: an array on a device.

use super::client::Handle;
use super::device::Device;
use super::error::slice;
use super::event::Event;
use super::{LIVE_BUFFER_BYTES, LIVE_BUFFERS, born, died, ffi};
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::shape::Dims;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

#[derive(Debug)]
pub struct Buffer {
    pub(super) client: Arc<Handle>,
    pub(super) raw: *mut ffi::Buffer,
    device: *mut ffi::Device,
    bytes: usize,
}

// SAFETY: the C API binds no buffer to a thread (see `Table`): a program's buffers become ready on the plugin's own
// threads. The device lives as long as the client.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

/// Bytes of a dense row-major array.
fn dense_bytes(dtype: DType, dims: &[i64]) -> Result<usize> {
    dims.iter()
        .try_fold(dtype.bytes(), |bytes, &dim| {
            usize::try_from(dim).ok().and_then(|dim| bytes.checked_mul(dim))
        })
        .ok_or_else(|| Error::runtime(format!("dims {dims:?} of a {dtype} array are negative or too large")))
}

impl Buffer {
    /// Takes ownership of a buffer of this client's on this device. `bytes` is its size there.
    pub(super) fn from_raw(
        client: Arc<Handle>,
        raw: *mut ffi::Buffer,
        device: *mut ffi::Device,
        bytes: usize,
    ) -> Buffer {
        born(&LIVE_BUFFERS);
        LIVE_BUFFER_BYTES.fetch_add(bytes as i64, Relaxed);
        Buffer {
            client,
            raw,
            device,
            bytes,
        }
    }

    /// The same for a buffer whose size is not known yet.
    pub(super) fn measured(client: Arc<Handle>, raw: *mut ffi::Buffer, device: *mut ffi::Device) -> Result<Buffer> {
        let mut buffer = Self::from_raw(client, raw, device, 0);
        buffer.measure()?;
        Ok(buffer)
    }

    /// Asks for the size and keeps it.
    pub(super) fn measure(&mut self) -> Result<usize> {
        let mut call = ffi::BufferOnDeviceSizeInBytes {
            buffer: self.raw,
            ..Default::default()
        };
        // SAFETY: the buffer is alive.
        unsafe { self.client.table.call(&mut call)? };
        LIVE_BUFFER_BYTES.fetch_add(call.bytes as i64 - self.bytes as i64, Relaxed);
        self.bytes = call.bytes;
        Ok(call.bytes)
    }

    /// A copy of `data` (row-major, native byte order; bool is one byte) on `device`. The data is read before the call
    /// returns.
    pub fn from_host(device: &Device, data: &[u8], dtype: DType, dims: &[i64]) -> Result<Buffer> {
        // SAFETY: a slice is valid for its length.
        unsafe { Self::from_host_ptr(device, data.as_ptr(), data.len(), dtype, dims) }
    }

    /// [`Buffer::from_host`] for memory that is not Rust's.
    ///
    /// # Safety
    /// `data` is valid for reads of `size` bytes and not written to during the call.
    pub unsafe fn from_host_ptr(
        device: &Device,
        data: *const u8,
        size: usize,
        dtype: DType,
        dims: &[i64],
    ) -> Result<Buffer> {
        let expected = dense_bytes(dtype, dims)?;
        ensure(size == expected, || {
            Error::runtime(format!(
                "a {dtype} array of dims {dims:?} has {expected} bytes, got {size}"
            ))
        })?;
        let client = device.client.clone();
        let mut call = ffi::ClientBufferFromHostBuffer {
            client: client.raw,
            data: data.cast(),
            element_type: dtype.pjrt() as i32,
            dims: dims.as_ptr(),
            num_dims: dims.len(),
            semantics: ffi::COPY_DURING_CALL,
            device: device.raw,
            ..Default::default()
        };
        // SAFETY: client and device are alive and belong together; the plugin reads `size` bytes (checked above) during
        // the call, dense and row-major, since no strides are given.
        unsafe { client.table.call(&mut call)? };
        if !call.done_with_host_buffer.is_null() {
            drop(Event::new(client.clone(), call.done_with_host_buffer));
        }
        Self::measured(client, call.buffer, device.raw)
    }

    pub fn dtype(&self) -> Result<DType> {
        let mut call = ffi::BufferElementType {
            buffer: self.raw,
            ..Default::default()
        };
        // SAFETY: the buffer is alive.
        unsafe { self.client.table.call(&mut call)? };
        DType::from_pjrt(call.element_type as u32)
    }

    pub fn dims(&self) -> Result<Dims> {
        let mut call = ffi::BufferDimensions {
            buffer: self.raw,
            ..Default::default()
        };
        // SAFETY: the buffer is alive.
        unsafe { self.client.table.call(&mut call)? };
        // SAFETY: the array belongs to the buffer.
        Ok(Dims::from_slice(unsafe { slice(call.dims, call.num_dims) }))
    }

    /// Bytes that the buffer takes on the device.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The device it is on.
    pub fn device(&self) -> Result<Device> {
        Device::new(self.client.clone(), self.device)
    }

    pub fn is_on(&self, device: &Device) -> bool {
        self.device == device.raw
    }

    /// Copies the array into `data`, row-major, and waits. Raises the error of the program that computes it.
    pub fn read_into(&self, data: &mut [u8]) -> Result<()> {
        // SAFETY: a slice is valid for its length.
        unsafe { self.read_into_ptr(data.as_mut_ptr(), data.len()) }
    }

    /// [`Buffer::read_into`] for memory that is not Rust's.
    ///
    /// # Safety
    /// `data` is valid for writes of `size` bytes, and nobody else uses it during the call.
    pub unsafe fn read_into_ptr(&self, data: *mut u8, size: usize) -> Result<()> {
        // SAFETY: by the contract; the event is waited for here.
        unsafe { self.copy_to_host(data, size)? }.map_or(Ok(()), |copied| copied.wait())
    }

    /// Starts copying the array to `data`, row-major; the event tells when it is there (none: it is).
    ///
    /// # Safety
    /// `data` is valid for writes of `size` bytes, and nobody else uses it until the event is ready.
    pub unsafe fn copy_to_host(&self, data: *mut u8, size: usize) -> Result<Option<Event>> {
        let (dtype, dims) = (self.dtype()?, self.dims()?);
        let expected = dense_bytes(dtype, &dims)?;
        ensure(size == expected, || {
            Error::runtime(format!(
                "a {dtype} array of dims {dims:?} has {expected} bytes, got room for {size}"
            ))
        })?;
        let minor_to_major: SmallVec<[i64; 8]> = (0..dims.len() as i64).rev().collect();
        let layout = ffi::MemoryLayout {
            tiled: ffi::TiledLayout {
                minor_to_major: minor_to_major.as_ptr(),
                minor_to_major_size: minor_to_major.len(),
                ..Default::default()
            },
            kind: ffi::TILED,
            ..Default::default()
        };
        let mut call = ffi::BufferToHostBuffer {
            buffer: self.raw,
            host_layout: &layout,
            data: data.cast(),
            data_size: size,
            ..Default::default()
        };
        // SAFETY: the buffer is alive; the layout outlives the call; the plugin writes `size` bytes (checked above)
        // until the event.
        unsafe { self.client.table.call(&mut call)? };
        Ok((!call.event.is_null()).then(|| Event::new(self.client.clone(), call.event)))
    }

    /// A copy on `device`, which belongs to the same client.
    pub fn copy_to_device(&self, device: &Device) -> Result<Buffer> {
        ensure(Arc::ptr_eq(&self.client, &device.client), || {
            Error::runtime("a buffer can be copied between devices of one client only; copy it through the host")
        })?;
        let mut call = ffi::BufferCopyToDevice {
            buffer: self.raw,
            device: device.raw,
            ..Default::default()
        };
        // SAFETY: buffer and device are alive and of the same client.
        unsafe { self.client.table.call(&mut call)? };
        Self::measured(self.client.clone(), call.copy, device.raw)
    }

    /// Ready when the buffer's value is.
    pub fn ready_event(&self) -> Result<Event> {
        let mut call = ffi::BufferReadyEvent {
            buffer: self.raw,
            ..Default::default()
        };
        // SAFETY: the buffer is alive.
        unsafe { self.client.table.call(&mut call)? };
        Ok(Event::new(self.client.clone(), call.event))
    }

    /// Whether it was donated to a program (or the plugin cannot tell).
    pub fn is_deleted(&self) -> bool {
        let mut call = ffi::BufferIsDeleted {
            buffer: self.raw,
            ..Default::default()
        };
        // SAFETY: the buffer is alive as an object, even when its memory is gone.
        unsafe { self.client.table.call(&mut call) }.map_or(true, |()| call.is_deleted)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: owned, and not used afterwards; programs that still read it hold references of their own.
        unsafe {
            self.client.table.call_ignoring_error(&mut ffi::BufferDestroy {
                buffer: self.raw,
                ..Default::default()
            })
        };
        LIVE_BUFFER_BYTES.fetch_sub(self.bytes as i64, Relaxed);
        died(&LIVE_BUFFERS);
    }
}
