//! The client: a process's connection to its devices.

use super::call::Table;
use super::device::Device;
use super::error::{slice, text};
use super::executable::Executable;
use super::ffi;
use super::plugin::Plugin;
use crate::error::Result;
use std::sync::Arc;

/// A create option's value.
#[derive(Clone, Debug)]
pub enum ClientOption {
    Int(i64),
    Text(String),
    Bool(bool),
}

#[derive(Debug)]
pub struct Client {
    pub(super) handle: Arc<Handle>,
    devices: Vec<Device>,
    platform_name: String,
    platform_version: String,
}

/// The foreign client; its devices, buffers, events and executables keep it alive.
#[derive(Debug)]
pub struct Handle {
    pub table: Table,
    pub raw: *mut ffi::Client,
}

// SAFETY: the C API binds no client to a thread (see `Table`); the pointer is only passed to it.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    /// The plugin joins its threads here: the process's client is a static, so that this happens in tests only.
    fn drop(&mut self) {
        // SAFETY: everything that belongs to the client holds an `Arc` of this handle, so nothing is left.
        unsafe {
            self.table.call_ignoring_error(&mut ffi::ClientDestroy {
                client: self.raw,
                ..Default::default()
            })
        };
    }
}

impl Client {
    pub fn new(plugin: &Plugin, options: &[(&str, ClientOption)]) -> Result<Arc<Client>> {
        let table = plugin.table;
        let options: Vec<ffi::NamedValue> = options.iter().map(|(name, option)| named_value(name, option)).collect();
        let mut call = ffi::ClientCreate {
            options: options.as_ptr(),
            num_options: options.len(),
            ..Default::default()
        };
        // SAFETY: the options, and the names and texts that they point to, outlive the call; there are no callbacks.
        unsafe { table.call(&mut call)? };
        let handle = Arc::new(Handle {
            table,
            raw: call.client,
        });

        let mut devices = ffi::ClientAddressableDevices {
            client: handle.raw,
            ..Default::default()
        };
        // SAFETY: the client is alive.
        unsafe { table.call(&mut devices)? };
        // SAFETY: the array belongs to the client.
        let devices = unsafe { slice(devices.devices, devices.num_devices) };
        let devices = devices
            .iter()
            .map(|&device| Device::new(handle.clone(), device))
            .collect::<Result<_>>()?;

        let mut name = ffi::ClientPlatformName {
            client: handle.raw,
            ..Default::default()
        };
        let mut version = ffi::ClientPlatformVersion {
            client: handle.raw,
            ..Default::default()
        };
        // SAFETY: the client is alive, and the texts belong to it.
        let (platform_name, platform_version) = unsafe {
            table.call(&mut name)?;
            table.call(&mut version)?;
            (text(name.text, name.text_size), text(version.text, version.text_size))
        };
        Ok(Arc::new(Client {
            handle,
            devices,
            platform_name,
            platform_version,
        }))
    }

    /// The vendor's name of the platform, such as `cpu` or `tpu`.
    pub fn platform_name(&self) -> &str {
        &self.platform_name
    }

    pub fn platform_version(&self) -> &str {
        &self.platform_version
    }

    /// The devices that this process can run programs on.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Compiles a StableHLO module (text) under a serialised `CompileOptionsProto`. Slow: not with the GIL held.
    pub fn compile(&self, module: &str, options: &[u8]) -> Result<Arc<Executable>> {
        let program = program(module);
        let mut call = ffi::ClientCompile {
            client: self.handle.raw,
            program: &program,
            options: options.as_ptr().cast(),
            options_size: options.len(),
            ..Default::default()
        };
        // SAFETY: the client is alive; program and options outlive the call.
        unsafe { self.handle.table.call(&mut call)? };
        Executable::new(self.handle.clone(), call.executable).map(Arc::new)
    }

    /// An executable from what [`Executable::serialize`] returned, on the same version of the plugin and kind of
    /// device.
    pub fn load_serialized(&self, bytes: &[u8]) -> Result<Arc<Executable>> {
        let mut call = ffi::ExecutableDeserializeAndLoad {
            client: self.handle.raw,
            bytes: bytes.as_ptr().cast(),
            bytes_size: bytes.len(),
            ..Default::default()
        };
        // SAFETY: the client is alive; the bytes outlive the call; null options mean those of the serialised
        // executable.
        unsafe { self.handle.table.call(&mut call)? };
        Executable::new(self.handle.clone(), call.executable).map(Arc::new)
    }
}

/// The module as the compilers take it. It points into `module`.
pub(super) fn program(module: &str) -> ffi::Program {
    const FORMAT: &str = "mlir";
    ffi::Program {
        code: module.as_ptr().cast(),
        code_size: module.len(),
        format: FORMAT.as_ptr().cast(),
        format_size: FORMAT.len(),
        ..Default::default()
    }
}

/// Points into `name` and `option`.
fn named_value(name: &str, option: &ClientOption) -> ffi::NamedValue {
    let (kind, value, value_size) = match option {
        ClientOption::Int(int) => (ffi::INT, ffi::Value { int: *int }, 1),
        ClientOption::Text(text) => (
            ffi::TEXT,
            ffi::Value {
                text: text.as_ptr().cast(),
            },
            text.len(),
        ),
        ClientOption::Bool(flag) => (ffi::BOOL, ffi::Value { bool: (*flag).into() }, 1),
    };
    ffi::NamedValue {
        name: name.as_ptr().cast(),
        name_size: name.len(),
        kind,
        value,
        value_size,
        ..Default::default()
    }
}
