//! Devices: plugin search, the process's one runtime, the current device and stream, events, generators.

pub mod current;
pub mod event;
pub mod fork;
pub mod generator;
pub mod plugins;
pub mod registry;
pub mod stream;
