//! An event: something the device will have done.

use super::call::Table;
use super::client::Handle;
use super::{LIVE_EVENTS, born, died, error, ffi};
use crate::error::Result;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

#[derive(Debug)]
pub struct Event {
    client: Arc<Handle>,
    raw: *mut ffi::Event,
}

// SAFETY: an event is a future made to be waited for on other threads; the C API binds it to none (see `Table`).
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

/// Holds no `Handle`: the callback runs on a thread of the plugin, which must not be the one that destroys the client.
struct Callback {
    table: Table,
    body: Box<dyn FnOnce(Result<()>) + Send>,
}

impl Callback {
    /// A panic must not unwind into the plugin; whoever waits for the body sees that it did not report.
    fn run(self, result: Result<()>) {
        let _ = catch_unwind(AssertUnwindSafe(move || (self.body)(result)));
    }
}

/// # Safety
/// `user` is a leaked `Box<Callback>`, not used again; `error` is owned by the callee, or null.
unsafe extern "C" fn on_ready(error: *mut ffi::Error, user: *mut c_void) {
    // SAFETY: by the contract.
    let callback = unsafe { Box::from_raw(user.cast::<Callback>()) };
    let result = if error.is_null() {
        Ok(())
    } else {
        Err(error::take(callback.table, error))
    };
    callback.run(result);
}

impl Event {
    /// Takes ownership of an event of this client's.
    pub(super) fn new(client: Arc<Handle>, raw: *mut ffi::Event) -> Event {
        born(&LIVE_EVENTS);
        Event { client, raw }
    }

    /// Whether it has happened, well or badly: [`Event::wait`] then returns at once and tells which.
    pub fn is_ready(&self) -> Result<bool> {
        let mut call = ffi::EventIsReady {
            event: self.raw,
            ..Default::default()
        };
        // SAFETY: the event is alive.
        unsafe { self.client.table.call(&mut call)? };
        Ok(call.is_ready)
    }

    /// Waits; the error of what it stands for.
    pub fn wait(&self) -> Result<()> {
        // SAFETY: the event is alive.
        unsafe {
            self.client.table.call(&mut ffi::EventAwait {
                event: self.raw,
                ..Default::default()
            })
        }
    }

    /// Runs `body` once when ready: at once if it is already, else on a thread of the plugin. It must not block, nor
    /// drop the last object of a client. The event may be dropped before.
    pub fn on_ready(&self, body: Box<dyn FnOnce(Result<()>) + Send>) {
        let table = self.client.table;
        let callback = Box::into_raw(Box::new(Callback { table, body }));
        let mut call = ffi::EventOnReady {
            event: self.raw,
            callback: Some(on_ready),
            user: callback.cast(),
            ..Default::default()
        };
        // SAFETY: the event is alive; `on_ready` gets the box it expects, once.
        if let Err(error) = unsafe { table.call(&mut call) } {
            // SAFETY: the plugin refused, so it will not call back.
            let callback = unsafe { Box::from_raw(callback) };
            callback.run(Err(error));
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: owned, and not used afterwards. Destroying does not wait for it.
        unsafe {
            self.client.table.call_ignoring_error(&mut ffi::EventDestroy {
                event: self.raw,
                ..Default::default()
            })
        };
        died(&LIVE_EVENTS);
    }
}
