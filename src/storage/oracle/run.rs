//! Programs on the CPU plugins of the checkout's virtual environment, for the oracle.

use crate::error::{Error, Result};
use crate::pjrt::{Buffer, Client, ClientOption, PORTABLE_OPTIONS, Plugin};
use crate::stablehlo::{Module, TensorType};
use smallvec::SmallVec;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One CPU device of one plugin.
pub struct Device {
    client: Arc<Client>,
}

impl Device {
    /// One of every plugin; at least one, or an error that says what is missing. `TORCH_TPU_PJRT_PLUGIN` names another one alone.
    pub fn all() -> Result<Vec<Device>> {
        let devices: Vec<Device> = plugins().iter().map(|path| Device::open(path)).collect::<Result<_>>()?;
        if devices.is_empty() {
            return Err(Error::runtime("no CPU plugin in .venv: run `make test` once"));
        }
        Ok(devices)
    }

    fn open(path: &Path) -> Result<Device> {
        let plugin = Plugin::load(path)?;
        Ok(Device {
            client: Client::new(&plugin, &[("cpu_device_count", ClientOption::Int(1))])?,
        })
    }

    /// The results' bytes.
    pub fn run(&self, module: &Module, inputs: &[(TensorType, Vec<u8>)]) -> Result<Vec<Vec<u8>>> {
        let executable = self.client.compile(&module.text, PORTABLE_OPTIONS)?;
        let device = self
            .client
            .devices()
            .first()
            .ok_or_else(|| Error::runtime("the plugin has no device"))?;
        let arguments: Vec<Arc<Buffer>> = inputs
            .iter()
            .map(|(ty, bytes)| Ok(Arc::new(Buffer::from_host(device, bytes, ty.dtype, &ty.dims)?)))
            .collect::<Result<_>>()?;
        let mut outputs = SmallVec::new();
        executable.execute(&arguments, device, &[], false, &mut outputs)?;
        let read = |(output, ty): (&Buffer, &TensorType)| {
            let mut bytes = vec![0; ty.numel() as usize * ty.dtype.bytes()];
            output.read_into(&mut bytes)?;
            Ok(bytes)
        };
        outputs.iter().zip(&module.results).map(read).collect()
    }
}

fn plugins() -> Vec<PathBuf> {
    if let Some(path) = std::env::var_os("TORCH_TPU_PJRT_PLUGIN") {
        return vec![path.into()];
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(".venv/lib");
    let pythons = std::fs::read_dir(root)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let files = [
        "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
        "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so",
    ];
    pythons
        .flat_map(|python| files.map(|file| python.join("site-packages").join(file)))
        .filter(|path| path.exists())
        .collect()
}
