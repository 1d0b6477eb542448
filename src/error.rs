//! The one error type of the crate: a kind (which decides the Python exception), and a message.
//!
//! Messages start in lower case, have no full stop, state what was expected and what came, and say what to do. The
//! operator's name is added by the dispatcher, never typed by hand.

use std::fmt;

/// What went wrong; each kind is one Python exception (see `cpp_shim/status.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// `RuntimeError`
    Runtime = 1,
    /// `IndexError`
    Index = 2,
    /// `NotImplementedError`
    NotImplemented = 3,
    /// `TypeError`
    Type = 4,
    /// `ValueError`
    Value = 5,
    /// `torch.OutOfMemoryError`
    OutOfMemory = 6,
}

#[derive(Clone, Debug)]
pub struct Error {
    pub kind: Kind,
    pub message: String,
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    pub fn runtime(message: impl Into<String>) -> Self {
        Self::new(Kind::Runtime, message)
    }

    pub fn index(message: impl Into<String>) -> Self {
        Self::new(Kind::Index, message)
    }

    pub fn not_implemented(message: impl Into<String>) -> Self {
        Self::new(Kind::NotImplemented, message)
    }

    pub fn type_error(message: impl Into<String>) -> Self {
        Self::new(Kind::Type, message)
    }

    pub fn value(message: impl Into<String>) -> Self {
        Self::new(Kind::Value, message)
    }

    pub fn out_of_memory(message: impl Into<String>) -> Self {
        Self::new(Kind::OutOfMemory, message)
    }

    /// The same error with `context: ` in front of the message.
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// `Ok(())` when `condition` holds, else the error that `error` makes.
pub fn ensure(condition: bool, error: impl FnOnce() -> Error) -> Result<()> {
    if condition { Ok(()) } else { Err(error()) }
}
