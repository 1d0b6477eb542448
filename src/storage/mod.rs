pub mod bitcast;
pub mod plan;
pub mod read;
pub mod steps;
pub mod window;
pub mod write;

#[cfg(test)]
mod oracle;

#[cfg(feature = "torch")]
pub mod live;
#[cfg(feature = "torch")]
pub mod reaper;
#[cfg(feature = "torch")]
pub mod statistics;
#[cfg(feature = "torch")]
mod store;
pub mod types;

pub use read::read;
#[cfg(feature = "torch")]
pub use store::{Slot, Storage};
pub use types::TypeId;
pub use window::Window;
pub use write::{whole_type, write, write_whole};
