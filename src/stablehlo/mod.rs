//! A typed StableHLO builder that infers and checks every shape and writes text. It knows no torch.

mod emit;
mod func;
pub mod infer;
mod literal;
mod types;

mod arith;
mod contract;
mod control;
mod convert;
mod index;
mod reduce;
mod shape;

pub use arith::{Binary, Comparison, Unary};
pub use contract::{Convolution, DotDims, Precision};
pub use func::{Func, Module};
pub use index::{GatherDims, ScatterDims};
pub use reduce::{Monoid, Window};
pub use types::{Literal, TensorType, Value};

#[cfg(test)]
mod tests;
