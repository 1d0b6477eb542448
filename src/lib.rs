//! PyTorch device for AI accelerators: ATen calls → StableHLO → the vendor runtime through the PJRT C API.
//!
//! Layers point down only (see `docs/architecture.md`):
//! `bridge`, `python` → `dispatch` → `ops`, `storage`, `cache`, `device` → `stablehlo`, `pjrt` → `shape`, `dtype`, `error`.

pub mod dtype;
pub mod error;
pub mod ops;
pub mod pjrt;
pub mod promote;
pub mod shape;
pub mod stablehlo;
pub mod storage;
