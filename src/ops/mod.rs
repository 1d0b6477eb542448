//! The operator table: one entry per ATen base name, one file per family.

pub mod call;
pub mod common;
pub mod table;

mod activation;
mod attention;
mod compare;
mod complex;
mod conv;
mod embedding;
mod factory;
mod indexing;
mod layout;
mod linalg;
mod loss;
mod norm;
mod optimizer;
mod pointwise;
mod pool;
mod random;
mod recurrent;
mod reduction;
mod scan;
mod softmax;
mod sort;
mod upsample;

pub use call::{Arg, Call, Operand, Outputs, Scalar};
pub use table::{Layout, OpDef};
