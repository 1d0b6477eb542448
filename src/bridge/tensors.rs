//! tch tensors across the border.

use crate::error::{Error, Result};
use tch::Tensor;

/// The tensor on `device` (`"cpu"`, `"tpu:0"`): a copy, or the same tensor when it is there already.
pub fn move_to(tensor: &Tensor, device: &str) -> Result<Tensor> {
    let moved =
        super::ffi::move_tensor(tensor.as_ptr() as usize, device).map_err(|error| Error::runtime(error.what()))?;
    // SAFETY: `move_tensor` returns a new `at::Tensor` that nobody else owns; tch's C_tensor is an `at::Tensor`.
    Ok(unsafe { Tensor::from_ptr(moved as *mut _) })
}
