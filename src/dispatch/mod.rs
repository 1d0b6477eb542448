//! From a call of an overload to a running program.

pub mod arguments;
pub mod build;
pub mod checks;
pub mod hot;
pub mod key;
pub mod layout;
pub mod modes;
pub mod numbers;
pub mod overload;
pub mod program;
pub mod queue;
pub mod tiers;
pub mod transfer;
