//! Shape inference: types in, type or error out; no builder, no I/O. Rules: openxla.org/stablehlo/spec.

pub mod arith;
pub mod contract;
pub mod index;
pub mod reduce;
pub mod shape;
