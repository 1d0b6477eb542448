//! Loading a plugin.

use super::call::Table;
use super::error::{slice, text};
use super::ffi::{self, Api};
use crate::error::{Error, Result, ensure};
use libloading::Library;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The oldest minor version that is accepted. The oldest tested is 0.81.
const OLDEST_MINOR: i32 = 70;

/// A loaded and initialised plugin. Its library stays in the process for ever, so this is a mere handle.
#[derive(Clone, Copy, Debug)]
pub struct Plugin {
    pub(super) table: Table,
}

/// The value of a plugin's attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    Text(String),
    Int(i64),
    Ints(Vec<i64>),
    Float(f32),
    Bool(bool),
}

impl Plugin {
    /// Loads and initialises the shared object at `path`, once per process and path.
    pub fn load(path: &Path) -> Result<Plugin> {
        static LOADED: LazyLock<Mutex<FxHashMap<PathBuf, Plugin>>> = LazyLock::new(Mutex::default);
        let name = path.display();
        let canonical = path.canonicalize().map_err(|error| {
            Error::runtime(format!("PJRT plugin {name} cannot be opened ({error}); check the path"))
        })?;
        let mut loaded = LOADED.lock();
        if let Some(plugin) = loaded.get(&canonical) {
            return Ok(*plugin);
        }
        let plugin = Self::open(&canonical).map_err(|error| error.context(format!("PJRT plugin {name}")))?;
        loaded.insert(canonical, plugin);
        Ok(plugin)
    }

    fn open(path: &Path) -> Result<Plugin> {
        // SAFETY: loading runs the library's initialisers; the user or the plugin's package vouches for it.
        let library = unsafe { Library::new(path) }.map_err(|error| {
            Error::runtime(format!(
                "it is not a shared library that can be loaded ({error}); a PJRT plugin is a .so file"
            ))
        })?;
        // Plugins start threads that outlive every client: unloading one is never safe.
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: the symbol has this type in every PJRT plugin.
        let get_api = unsafe { library.get::<unsafe extern "C" fn() -> *const Api>(b"GetPjrtApi\0") }
            .map_err(|_| Error::runtime("it exports no GetPjrtApi: it is a shared library, but no PJRT plugin"))?;
        // SAFETY: takes nothing; returns the static table.
        let api = unsafe { get_api() };
        ensure(!api.is_null(), || {
            Error::runtime("GetPjrtApi returned null; the plugin may be for other hardware than this machine's")
        })?;
        // SAFETY: the table is static in the library, which is never unloaded.
        let table = unsafe { Table::new(api) };
        let (major, minor) = table.version();
        supported(major, minor)?;
        // SAFETY: takes nothing.
        unsafe { table.call(&mut ffi::PluginInitialize::default())? };
        Ok(Plugin { table })
    }

    /// Major and minor version of the API.
    pub fn api_version(&self) -> (i32, i32) {
        self.table.version()
    }

    /// What the plugin tells of itself, such as `xla_version` and `stablehlo_current_version`. Attributes of unknown
    /// kinds are left out.
    pub fn attributes(&self) -> Result<Vec<(String, Attribute)>> {
        let mut call = ffi::PluginAttributes::default();
        // SAFETY: takes nothing.
        unsafe { self.table.call(&mut call)? };
        // SAFETY: the array belongs to the plugin, for ever.
        let attributes = unsafe { slice(call.attributes, call.num_attributes) };
        // SAFETY: as above.
        Ok(attributes
            .iter()
            .filter_map(|attribute| unsafe { read(attribute) })
            .collect())
    }
}

pub(super) fn supported(major: i32, minor: i32) -> Result<()> {
    ensure(major == 0 && minor >= OLDEST_MINOR, || {
        Error::runtime(format!(
            "it speaks PJRT API {major}.{minor}, but 0.{OLDEST_MINOR} or a later 0.x is needed; install another version of the plugin"
        ))
    })
}

/// # Safety
/// The plugin filled `attribute` in, and it is still alive.
unsafe fn read(attribute: &ffi::NamedValue) -> Option<(String, Attribute)> {
    // SAFETY: name and value are valid for the sizes given; the kind tells which member of the union is set.
    unsafe {
        let name = text(attribute.name, attribute.name_size);
        let value = match attribute.kind {
            ffi::TEXT => Attribute::Text(text(attribute.value.text, attribute.value_size)),
            ffi::INT => Attribute::Int(attribute.value.int),
            ffi::INTS => Attribute::Ints(slice(attribute.value.ints, attribute.value_size).to_vec()),
            ffi::FLOAT => Attribute::Float(attribute.value.float),
            ffi::BOOL => Attribute::Bool(attribute.value.bool != 0),
            _ => return None,
        };
        Some((name, value))
    }
}
