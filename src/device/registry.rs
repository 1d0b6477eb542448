//! The process's one PJRT client and its devices.

use super::{fork, plugins, stream};
use crate::config;
use crate::error::{Error, Result};
use crate::pjrt::{Client, ClientOption, Device, Plugin};
use crate::storage::{reaper, statistics};
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// The client with what does not change over its life.
pub struct Runtime {
    pub client: Arc<Client>,
    pub plugin_path: PathBuf,
    pub api_version: (i32, i32),
    /// One entry per device of the process.
    pub streams: Vec<stream::DeviceStreams>,
}

impl Runtime {
    pub fn device(&self, index: u16) -> &Device {
        &self.client.devices()[index as usize]
    }

    pub fn device_count(&self) -> usize {
        self.streams.len()
    }
}

static RUNTIME: OnceLock<Runtime> = OnceLock::new();
static STARTING: Mutex<()> = Mutex::new(());

/// The runtime, made at the first call. Raises when no plugin answers, an environment variable is not valid, or after a fork.
pub fn runtime() -> Result<&'static Runtime> {
    fork::check()?;
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let _starting = STARTING.lock();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let runtime = start()?;
    fork::claim();
    Ok(RUNTIME.get_or_init(|| runtime))
}

/// The runtime if it was started already.
pub fn started() -> Option<&'static Runtime> {
    RUNTIME.get()
}

fn start() -> Result<Runtime> {
    let config = config::checked().as_ref().map_err(Clone::clone)?;
    let path = plugins::choose()?;
    let plugin = Plugin::load(&path).map_err(|error| match &config.plugin {
        Some(_) => error.context("TORCH_TPU_PJRT_PLUGIN"),
        None => error,
    })?;
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    // The CPU plugin logs the option to stderr, so the default of one device is left to its own default, of which the first is used.
    let is_cpu = name.contains("cpu");
    let options = if is_cpu && config.cpu_devices != 1 {
        vec![("cpu_device_count", ClientOption::Int(config.cpu_devices))]
    } else {
        Vec::new()
    };
    let client = Client::new(&plugin, &options).map_err(|error| error.context(format!("plugin {}", path.display())))?;
    if client.devices().is_empty() {
        return Err(Error::runtime(format!(
            "plugin {} has no addressable device on this machine",
            path.display()
        )));
    }
    let devices = client.devices().len().min(if is_cpu {
        config.cpu_devices as usize
    } else {
        usize::MAX
    });
    for index in 0..devices {
        statistics::set_limit(
            index as u16,
            config.memory_limit.unwrap_or_else(|| device_memory(&client, index)),
        );
    }
    reaper::start();
    Ok(Runtime {
        api_version: plugin.api_version(),
        plugin_path: path,
        streams: (0..devices).map(|_| stream::DeviceStreams::default()).collect(),
        client,
    })
}

/// Bytes the device has: the plugin's word, else (a CPU plugin) the machine's memory; 0 when neither is known.
fn device_memory(client: &Client, index: usize) -> u64 {
    if let Some(limit) = client.devices()[index].memory_limit_bytes() {
        return limit;
    }
    let total_kilobytes = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        text.lines().find_map(|line| {
            line.strip_prefix("MemTotal:")?
                .trim()
                .strip_suffix("kB")?
                .trim()
                .parse::<u64>()
                .ok()
        })
    });
    total_kilobytes.map_or(0, |kilobytes| kilobytes * 1024)
}

/// Whether a plugin can be loaded. Starts no client and never raises.
pub fn is_available() -> bool {
    !fork::is_bad()
        && (started().is_some()
            || (config::checked().is_ok() && plugins::choose().and_then(|path| Plugin::load(&path)).is_ok()))
}

/// Number of devices; starts the runtime where a plugin is found, 0 when that fails.
pub fn device_count() -> usize {
    runtime().map_or(0, Runtime::device_count)
}

/// A device index that exists, or an error in PyTorch's manner.
pub fn check_index(index: i64) -> Result<u16> {
    let count = runtime()?.device_count();
    if index >= 0 && (index as usize) < count {
        return Ok(index as u16);
    }
    let name = &config::get().device_name;
    Err(Error::runtime(format!(
        "invalid {name} device ordinal {index}: this process has {count} ({name}:0..{}); on the CPU plugin TORCH_TPU_CPU_DEVICES sets the number",
        count.saturating_sub(1)
    )))
}
