//! Gather and scatter.

use super::emit::{ints, list};
use super::func::Func;
use super::infer::index as infer;
use super::types::{TensorType, Value};
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};

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

/// The non-empty lists of a dimension numbers attribute, then the index vector's axis.
fn dims_text(lists: &[(&str, &[usize])], index_vector_dim: usize) -> String {
    let mut parts: Vec<String> = lists
        .iter()
        .filter(|(_, values)| !values.is_empty())
        .map(|(name, values)| format!("{name} = {}", list(values)))
        .collect();
    parts.push(format!("index_vector_dim = {index_vector_dim}"));
    parts.join(", ")
}

impl Func {
    /// Out-of-range starts are clamped by the program.
    pub fn gather(
        &mut self,
        x: &Value,
        indices: &Value,
        dims: &GatherDims,
        slice_sizes: &[i64],
        sorted: bool,
    ) -> Result<Value> {
        let ty = infer::gather(&x.ty, &indices.ty, dims, slice_sizes)?;
        let numbers = dims_text(
            &[
                ("offset_dims", &dims.offset_dims),
                ("collapsed_slice_dims", &dims.collapsed_slice_dims),
                ("operand_batching_dims", &dims.operand_batching_dims),
                ("start_indices_batching_dims", &dims.start_indices_batching_dims),
                ("start_index_map", &dims.start_index_map),
            ],
            dims.index_vector_dim,
        );
        let attributes = format!(
            "dimension_numbers = #stablehlo.gather<{numbers}>, indices_are_sorted = {sorted}, slice_sizes = {}",
            ints(slice_sizes.iter().copied())
        );
        Ok(self.single("stablehlo.gather", &[x, indices], attributes, ty))
    }

    /// Several operands at once; out-of-range updates are dropped. `body(f, current, update)` on 0-d values returns the new ones.
    #[allow(clippy::too_many_arguments)] // the operation's own
    pub fn scatter(
        &mut self,
        operands: &[Value],
        indices: &Value,
        updates: &[Value],
        dims: &ScatterDims,
        sorted: bool,
        unique: bool,
        body: impl FnOnce(&mut Func, &[Value], &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        let operand_types: Vec<&TensorType> = operands.iter().map(|operand| &operand.ty).collect();
        let update_types: Vec<&TensorType> = updates.iter().map(|update| &update.ty).collect();
        let types = infer::scatter(&operand_types, &indices.ty, &update_types, dims)?;
        let count = operands.len();
        let arguments: Vec<TensorType> = operands
            .iter()
            .chain(updates)
            .map(|value| value.ty.with_dims(&[]))
            .collect();
        let region = self.region(&arguments, |f, values| body(f, &values[..count], &values[count..]))?;
        ensure(
            region
                .results
                .iter()
                .map(|result| &result.ty)
                .eq(arguments[..count].iter()),
            || Error::runtime("the body of scatter must return one 0-d value per operand"),
        )?;
        let numbers = dims_text(
            &[
                ("update_window_dims", &dims.update_window_dims),
                ("inserted_window_dims", &dims.inserted_window_dims),
                ("input_batching_dims", &dims.input_batching_dims),
                ("scatter_indices_batching_dims", &dims.scatter_indices_batching_dims),
                ("scatter_dims_to_operand_dims", &dims.scatter_dims_to_operand_dims),
            ],
            dims.index_vector_dim,
        );
        let attributes = format!(
            "indices_are_sorted = {sorted}, scatter_dimension_numbers = #stablehlo.scatter<{numbers}>, unique_indices = {unique}"
        );
        let all = operands
            .iter()
            .chain(std::iter::once(indices))
            .chain(updates)
            .cloned()
            .collect();
        Ok(self.operation("stablehlo.scatter", all, attributes, vec![region], types))
    }

    /// Rows of `x` along `axis`: indices `[i0 … ik]` (any integer dtype) → `x` dims with `axis` replaced by `[i0 … ik]`.
    pub fn take(&mut self, x: &Value, indices: &Value, axis: usize) -> Result<Value> {
        ensure(axis < x.rank() && indices.dtype().is_integer(), || {
            Error::runtime(format!(
                "take along axis {axis} of {} with indices of {}",
                x.ty,
                indices.dtype()
            ))
        })?;
        let size = x.dim(axis);
        let indices = if size <= i32::MAX.into() {
            self.convert(indices, DType::I32)?
        } else {
            indices.clone()
        };
        let mut slice_sizes = x.dims().to_vec();
        slice_sizes[axis] = 1;
        let dims = GatherDims {
            offset_dims: (0..axis)
                .chain(axis + indices.rank()..x.rank() - 1 + indices.rank())
                .collect(),
            collapsed_slice_dims: vec![axis],
            start_index_map: vec![axis],
            index_vector_dim: indices.rank(),
            ..GatherDims::default()
        };
        if size == 0 {
            // Nothing to take from: legal only when nothing is taken.
            ensure(indices.numel() == 0, || {
                Error::index("index out of range: the axis has size 0")
            })?;
            let mut result = x.dims()[..axis].to_vec();
            result.extend(indices.dims());
            result.extend(&x.dims()[axis + 1..]);
            return Ok(self.constant(x.dtype(), &result, 0i64));
        }
        self.gather(x, &indices, &dims, &slice_sizes, false)
    }
}
