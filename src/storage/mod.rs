pub mod bitcast;
pub mod plan;
pub mod read;
pub mod steps;
pub mod window;
pub mod write;

#[cfg(test)]
mod oracle;

pub mod live;
pub mod reaper;
pub mod statistics;
mod store;
pub mod types;

pub use read::read;
pub use store::{Slot, Storage};
pub use types::TypeId;
pub use window::Window;
pub use write::{whole_type, write, write_whole};
