//! Operators of our own that no PyTorch schema names.

use super::call::{Call, Outputs};
use super::table::OpDef;
use crate::error::Result;
use crate::stablehlo::Func;

pub(super) const OPS: &[OpDef] = &[OpDef::new("_torch_tpu_dense", dense)];

/// Schemas that are registered beside PyTorch's.
pub const SCHEMAS: &[&str] = &["aten::_torch_tpu_dense(Tensor self) -> Tensor"];

/// `self`'s elements in a contiguous buffer of their own: what a host read of a view needs.
fn dense(_: &mut Func, call: &Call) -> Result<Outputs> {
    Ok(call.tensor("self")?.value.clone().into())
}
