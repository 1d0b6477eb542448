//! Which PJRT plugin this process loads: the first of the search order that is there.

use crate::config;
use crate::error::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Where to look, beyond the environment: set by the Python side, which knows the installed packages.
static SEARCH_PATHS: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// Folders that hold Python packages (`site-packages`), in which plugin wheels are looked up. The first call counts.
pub fn set_search_paths(paths: Vec<PathBuf>) {
    let _ = SEARCH_PATHS.set(paths);
}

/// A place that was looked at: what it is, the path, whether it exists.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub what: &'static str,
    pub path: Option<PathBuf>,
    /// Chosen by the user: it is used, or its failure is the error.
    pub explicit: bool,
}

/// The kernel's device files of TPU chips.
pub fn tpu_hardware() -> bool {
    Path::new("/dev/accel0").exists() || (Path::new("/dev/vfio").exists() && google_vendor())
}

/// A PCI device of vendor 0x1ae0 (Google).
fn google_vendor() -> bool {
    let Ok(entries) = std::fs::read_dir("/sys/bus/pci/devices") else {
        return false;
    };
    entries
        .flatten()
        .any(|entry| std::fs::read_to_string(entry.path().join("vendor")).is_ok_and(|vendor| vendor.trim() == "0x1ae0"))
}

/// The kernel's device files of Neuron cores.
pub fn neuron_hardware() -> bool {
    Path::new("/dev/neuron0").exists()
}

/// All candidates in search order.
pub fn candidates() -> Vec<Candidate> {
    let explicit = |what, path: String| Candidate {
        what,
        path: Some(path.into()),
        explicit: true,
    };
    let mut found = Vec::new();
    if let Some(path) = config::get().plugin.clone() {
        found.push(explicit("TORCH_TPU_PJRT_PLUGIN", path));
        return found;
    }
    let neuron = config::get().device_name == "neuron";
    if let Some(path) = std::env::var("TPU_LIBRARY_PATH")
        .ok()
        .filter(|path| !path.is_empty() && !neuron)
    {
        found.push(explicit("TPU_LIBRARY_PATH", path));
        return found;
    }
    let package = |relative: &str| {
        SEARCH_PATHS
            .get()
            .into_iter()
            .flatten()
            .map(|folder| folder.join(relative))
            .find(|path| path.exists())
    };
    let optional = |what, path: Option<PathBuf>| Candidate {
        what,
        path,
        explicit: false,
    };
    if !neuron {
        let path = if tpu_hardware() {
            package("libtpu/libtpu.so")
        } else {
            None
        };
        found.push(optional(
            "libtpu (package libtpu, on a machine with TPU hardware)",
            path,
        ));
    } else {
        let path = if neuron_hardware() {
            package("libneuronxla/libneuronpjrt.so")
        } else {
            None
        };
        found.push(optional(
            "libneuronpjrt (package libneuronxla, on a machine with Neuron hardware)",
            path,
        ));
    }
    found.push(optional(
        "CPU plugin lammps-jax-pjrt-cpu",
        package("lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so"),
    ));
    found.push(optional(
        "CPU plugin xla-cpu-pjrt",
        package("xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"),
    ));
    found
}

/// The plugin to load; an error that lists what was tried.
pub fn choose() -> Result<PathBuf> {
    let candidates = candidates();
    if let Some(path) = candidates.iter().find_map(|candidate| candidate.path.clone()) {
        return Ok(path);
    }
    let tried: Vec<String> = candidates
        .iter()
        .map(|candidate| format!("  - {}: not found", candidate.what))
        .collect();
    let folders: Vec<String> = SEARCH_PATHS
        .get()
        .into_iter()
        .flatten()
        .map(|path| path.display().to_string())
        .collect();
    Err(Error::runtime(format!(
        "no PJRT plugin was found for device {:?}. Tried:\n  - TORCH_TPU_PJRT_PLUGIN: not set\n  - TPU_LIBRARY_PATH: not set\n{}\n(packages were looked \
         for in {}). Install one, for instance `pip install --no-deps lammps-jax-pjrt-cpu==0.11.2` to run on the CPU, or set TORCH_TPU_PJRT_PLUGIN to the \
         path of a plugin",
        config::get().device_name,
        tried.join("\n"),
        folders.join(", "),
    )))
}
