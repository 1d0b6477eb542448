//! PyTorch device for AI accelerators: ATen calls → StableHLO → the vendor runtime through the PJRT C API.
//!
//! Layers point down only (see `docs/architecture.md`):
//! `bridge`, `python` → `dispatch` → `ops`, `storage`, `cache`, `device` → `stablehlo`, `pjrt` → `shape`, `dtype`, `error`.

#[cfg(feature = "torch")]
pub mod bridge;
pub mod cache;
pub mod config;
pub mod device;
pub mod dispatch;
pub mod dtype;
pub mod error;
#[cfg(feature = "tch")]
pub mod frontend;
pub mod ops;
pub mod pjrt;
pub mod promote;
#[cfg(feature = "python")]
mod python;
pub mod shape;
pub mod stablehlo;
pub mod storage;
