//! The one way in which a function of the table is called.

use super::error;
use super::ffi::{self, Api, Arguments, Slot};
use crate::error::{Error, Result};

/// A loaded plugin's table; lives as long as the process.
#[derive(Clone, Copy, Debug)]
pub struct Table(*const Api);

// SAFETY: plugins are never unloaded and their table is immutable. That functions may be called from several threads at
// once is not written in the header, but implied: events take callbacks from the plugin's threads, and waiting blocks
// one thread while others go on. JAX and PyTorch/XLA rely on it, and a test here exercises it.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

/// `R` is `*mut ffi::Error`, or `()` for the two functions that read errors.
type Function<A, R> = unsafe extern "C" fn(*mut A) -> R;

impl Table {
    /// # Safety
    /// `api` points to a `PJRT_Api` that is never freed nor changed.
    pub unsafe fn new(api: *const Api) -> Self {
        Self(api)
    }

    pub fn version(self) -> (i32, i32) {
        // SAFETY: by `new`'s contract.
        unsafe { ((*self.0).version.major, (*self.0).version.minor) }
    }

    /// The function of `A`; an error when the plugin's table is too short for it or leaves it out.
    ///
    /// # Safety
    /// `R` is what that function returns.
    unsafe fn function<A: Arguments, R>(self) -> Result<Function<A, R>> {
        let offset = size_of::<Api>() + A::SLOT as usize * size_of::<usize>();
        // SAFETY: by `new`'s contract.
        let table_size = unsafe { (*self.0).struct_size };
        if offset + size_of::<usize>() > table_size {
            return Err(self.missing(A::SLOT));
        }
        // SAFETY: the offset lies inside of the table, whose entries are function pointers or null; `Arguments` pairs
        // the slot with `A`.
        let function = unsafe { *self.0.cast::<u8>().add(offset).cast::<Option<Function<A, R>>>() };
        function.ok_or_else(|| self.missing(A::SLOT))
    }

    #[cold]
    fn missing(self, slot: Slot) -> Error {
        let (major, minor) = self.version();
        Error::not_implemented(format!(
            "the plugin (PJRT API {major}.{minor}) has no function PJRT_{slot:?}; a newer plugin is needed"
        ))
    }

    /// Calls a function and converts its error.
    ///
    /// # Safety The pointers in `arguments` are what the function expects: live objects of this plugin, arrays with the
    /// length given.
    pub unsafe fn call<A: Arguments>(self, arguments: &mut A) -> Result<()> {
        // SAFETY: all functions but `ErrorDestroy` and `ErrorMessage` return an error; the arguments by the contract.
        let error = unsafe { self.function::<A, *mut ffi::Error>()?(arguments) };
        if error.is_null() {
            Ok(())
        } else {
            Err(error::take(self, error))
        }
    }

    /// Calls a destructor, or another function whose error nobody could act on; the error is freed.
    ///
    /// # Safety
    /// As for [`Table::call`]; the object is not used afterwards.
    pub unsafe fn call_ignoring_error<A: Arguments>(self, arguments: &mut A) {
        // SAFETY: as in `call`.
        if let Ok(function) = unsafe { self.function::<A, *mut ffi::Error>() } {
            // SAFETY: by the contract.
            let error = unsafe { function(arguments) };
            if !error.is_null() {
                error::destroy(self, error);
            }
        }
    }

    /// Calls `ErrorDestroy` or `ErrorMessage`, which return nothing.
    ///
    /// # Safety
    /// `A` belongs to one of the two; otherwise as for [`Table::call`].
    pub unsafe fn call_void<A: Arguments>(self, arguments: &mut A) {
        // SAFETY: by the contract.
        if let Ok(function) = unsafe { self.function::<A, ()>() } {
            // SAFETY: by the contract.
            unsafe { function(arguments) };
        }
    }
}
