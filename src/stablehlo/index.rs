//! Gather and scatter.

use super::func::Func;
use super::types::Value;
use crate::error::Result;

/// The dimension numbers of `stablehlo.gather` (names of the specification; all lists sorted where it asks).
#[derive(Clone, Debug, Default)]
pub struct GatherDims {
    pub offset_dims: Vec<usize>,
    pub collapsed_slice_dims: Vec<usize>,
    pub operand_batching_dims: Vec<usize>,
    pub start_indices_batching_dims: Vec<usize>,
    pub start_index_map: Vec<usize>,
    pub index_vector_dim: usize,
}

/// The dimension numbers of `stablehlo.scatter`.
#[derive(Clone, Debug, Default)]
pub struct ScatterDims {
    pub update_window_dims: Vec<usize>,
    pub inserted_window_dims: Vec<usize>,
    pub input_batching_dims: Vec<usize>,
    pub scatter_indices_batching_dims: Vec<usize>,
    pub scatter_dims_to_operand_dims: Vec<usize>,
    pub index_vector_dim: usize,
}

impl Func {
    /// Out-of-range starts are clamped by the program.
    pub fn gather(&mut self, x: &Value, indices: &Value, dims: &GatherDims, slice_sizes: &[i64], sorted: bool) -> Result<Value> { todo!() }
    /// Several operands at once; out-of-range updates are dropped. `body(f, current, update)` on 0-d values returns the new ones.
    pub fn scatter(
        &mut self, operands: &[Value], indices: &Value, updates: &[Value], dims: &ScatterDims, sorted: bool, unique: bool,
        body: impl FnOnce(&mut Func, &[Value], &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> { todo!() }
    /// Rows of `x` along `axis`: indices `[i0 … ik]` (any integer dtype) → `x` dims with `axis` replaced by `[i0 … ik]`.
    pub fn take(&mut self, x: &Value, indices: &Value, axis: usize) -> Result<Value> { todo!() }
}
