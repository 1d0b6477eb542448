//! A topology: a description of devices, which may be elsewhere, to compile for.

use super::call::Table;
use super::client::{self, Client, Handle};
use super::error::text;
use super::executable::{Compiled, Owner};
use super::ffi;
use super::plugin::Plugin;
use crate::error::Result;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Topology {
    handle: Arc<TopologyHandle>,
}

/// The foreign topology; what was compiled for it keeps it alive.
#[derive(Debug)]
pub struct TopologyHandle {
    table: Table,
    raw: *mut ffi::TopologyDescription,
    /// The client that owns it; none when it is this handle's own.
    client: Option<Arc<Handle>>,
}

// SAFETY: a topology is immutable, and the C API binds it to no thread (see `Table`).
unsafe impl Send for TopologyHandle {}
// SAFETY: as above.
unsafe impl Sync for TopologyHandle {}

impl Drop for TopologyHandle {
    fn drop(&mut self) {
        if self.client.is_none() {
            let mut call = ffi::TopologyDescriptionDestroy {
                topology: self.raw,
                ..Default::default()
            };
            // SAFETY: owned, and not used afterwards.
            unsafe { self.table.call_ignoring_error(&mut call) };
        }
    }
}

impl Topology {
    /// By the vendor's name, such as `v5e:2x2`. CPU plugins have none by name.
    pub fn new(plugin: &Plugin, name: &str) -> Result<Topology> {
        let mut call = ffi::TopologyDescriptionCreate {
            name: name.as_ptr().cast(),
            name_size: name.len(),
            ..Default::default()
        };
        // SAFETY: the name outlives the call; there are no options.
        unsafe { plugin.table.call(&mut call) }.map_err(|error| error.context(format!("topology {name}")))?;
        Ok(Topology {
            handle: Arc::new(TopologyHandle {
                table: plugin.table,
                raw: call.topology,
                client: None,
            }),
        })
    }

    /// Of the devices that a client has.
    pub fn of_client(client: &Client) -> Result<Topology> {
        let mut call = ffi::ClientTopologyDescription {
            client: client.handle.raw,
            ..Default::default()
        };
        let table = client.handle.table;
        // SAFETY: the client is alive, and stays the owner of the result.
        unsafe { table.call(&mut call)? };
        Ok(Topology {
            handle: Arc::new(TopologyHandle {
                table,
                raw: call.topology,
                client: Some(client.handle.clone()),
            }),
        })
    }

    pub fn platform_name(&self) -> Result<String> {
        let mut call = ffi::TopologyDescriptionPlatformName {
            topology: self.handle.raw,
            ..Default::default()
        };
        // SAFETY: the topology is alive, and the text belongs to it.
        unsafe {
            self.handle.table.call(&mut call)?;
            Ok(text(call.text, call.text_size))
        }
    }

    /// Compiles a StableHLO module (text) under a serialised `CompileOptionsProto`, without a device. Slow: not with
    /// the GIL held.
    pub fn compile(&self, module: &str, options: &[u8]) -> Result<Compiled> {
        let program = client::program(module);
        let mut call = ffi::Compile {
            topology: self.handle.raw,
            program: &program,
            options: options.as_ptr().cast(),
            options_size: options.len(),
            ..Default::default()
        };
        // SAFETY: the topology is alive; program and options outlive the call; a null client is allowed.
        unsafe { self.handle.table.call(&mut call)? };
        Ok(Compiled::new(
            self.handle.table,
            call.executable,
            Owner::Topology(self.handle.clone()),
        ))
    }
}
