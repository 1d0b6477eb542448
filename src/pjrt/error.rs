//! `PJRT_Error` → [`Error`], and the texts and arrays that plugins return.

use super::call::Table;
use super::ffi;
use crate::error::{Error, Kind};
use std::ffi::c_char;

/// Codes of `PJRT_Error_Code` that have an exception of their own.
const RESOURCE_EXHAUSTED: i32 = 8;
const UNIMPLEMENTED: i32 = 12;

/// Reads an error and frees it.
#[cold]
pub fn take(table: Table, error: *mut ffi::Error) -> Error {
    let mut message = ffi::ErrorMessage {
        error,
        ..Default::default()
    };
    // SAFETY: callers pass an error that this plugin returned and nobody freed; this function returns nothing.
    unsafe { table.call_void(&mut message) };
    // SAFETY: the text belongs to the error, which is still alive.
    let text = unsafe { text(message.message, message.message_size) };
    let mut code = ffi::ErrorGetCode {
        error,
        ..Default::default()
    };
    // SAFETY: the error is alive. Should the code not be told, it stays 0: an ordinary error.
    unsafe { table.call_ignoring_error(&mut code) };
    destroy(table, error);
    let kind = match code.code {
        RESOURCE_EXHAUSTED => Kind::OutOfMemory,
        UNIMPLEMENTED => Kind::NotImplemented,
        _ => Kind::Runtime,
    };
    let text = if text.is_empty() {
        format!("the plugin failed with code {} and no message", code.code)
    } else {
        text
    };
    Error::new(kind, text)
}

/// Frees an error that this plugin returned and nobody freed.
pub fn destroy(table: Table, error: *mut ffi::Error) {
    // SAFETY: callers own the error; this function returns nothing.
    unsafe {
        table.call_void(&mut ffi::ErrorDestroy {
            error,
            ..Default::default()
        })
    };
}

/// A copy of a text of the plugin's.
///
/// # Safety
/// `data` is valid for `size` bytes, or null.
pub unsafe fn text(data: *const c_char, size: usize) -> String {
    // SAFETY: the caller's promise.
    String::from_utf8_lossy(unsafe { slice(data.cast(), size) }).into_owned()
}

/// An array of the plugin's; empty for null.
///
/// # Safety
/// `data` is valid for `count` elements while `'a` lasts, or null.
pub unsafe fn slice<'a, T>(data: *const T, count: usize) -> &'a [T] {
    if data.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data, count) }
}
