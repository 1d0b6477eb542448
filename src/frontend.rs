//! The Rust front end: tch tensors on the device.
//!
//! A tensor that was moved to the device is an ordinary [`tch::Tensor`]: tch's operators, autograd and optimisers run on it, through the same
//! dispatcher as in Python.

use crate::bridge;
use crate::config;
use crate::device::{plugins, registry};
use crate::dispatch::transfer;
use crate::error::{Error, Result};
use std::path::PathBuf;
use std::sync::OnceLock;
use tch::Tensor;

/// Registers the device with PyTorch and starts the runtime; calling again is harmless. `packages` are folders in which plugin packages
/// are looked for (a Python `site-packages`); `TORCH_TPU_PJRT_PLUGIN` needs none.
pub fn initialize(packages: &[PathBuf]) -> Result<()> {
    static INSTALLED: OnceLock<Result<()>> = OnceLock::new();
    plugins::set_search_paths(packages.to_vec());
    INSTALLED
        .get_or_init(|| bridge::install().map_err(|error| Error::runtime(error.what())))
        .clone()?;
    registry::runtime().map(|_| ())
}

/// Moving tensors to the device and back.
pub trait DeviceTensor {
    /// The tensor on device `index`. Raises when there is no such device.
    fn to_accelerator(&self, index: usize) -> Result<Tensor>;
    /// The tensor on the CPU; waits for its value.
    fn to_host(&self) -> Result<Tensor>;
}

impl DeviceTensor for Tensor {
    fn to_accelerator(&self, index: usize) -> Result<Tensor> {
        registry::check_index(index as i64)?;
        bridge::move_to(self, &format!("{}:{index}", config::get().device_name))
    }

    fn to_host(&self) -> Result<Tensor> {
        bridge::move_to(self, "cpu")
    }
}

/// Waits for all work on device `index` and raises what failed.
pub fn synchronize(index: usize) -> Result<()> {
    transfer::synchronize(registry::check_index(index as i64)?)
}
