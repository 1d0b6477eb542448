//! Gather and scatter.

use crate::error::{Error, Result, ensure};
use crate::shape::Dims;
use crate::stablehlo::{GatherDims, ScatterDims, TensorType};

/// The index array's dims without the index vector's axis, and the vector's length.
fn batch_dims(indices: &TensorType, index_vector_dim: usize) -> Result<(Dims, usize)> {
    ensure(indices.dtype.is_integer(), || {
        Error::runtime(format!("indices must be integers, got {indices}"))
    })?;
    ensure(index_vector_dim <= indices.rank(), || {
        Error::runtime(format!("index vector axis {index_vector_dim} of {indices}"))
    })?;
    let mut dims = indices.dims.clone();
    let length = if index_vector_dim < dims.len() {
        dims.remove(index_vector_dim) as usize
    } else {
        1
    };
    Ok((dims, length))
}

/// Result axes at `positions` take from `window`, the others from `batch`, in order.
fn interleave(positions: &[usize], window: &[i64], batch: &[i64]) -> Result<Dims> {
    let (mut window, mut batch) = (window.iter(), batch.iter());
    let rank = window.len() + batch.len();
    (0..rank)
        .map(|axis| {
            let next = if positions.contains(&axis) {
                window.next()
            } else {
                batch.next()
            };
            next.copied()
                .ok_or_else(|| Error::runtime(format!("window axes {positions:?} do not fit into rank {rank}")))
        })
        .collect()
}

pub fn gather(x: &TensorType, indices: &TensorType, dims: &GatherDims, slice_sizes: &[i64]) -> Result<TensorType> {
    let (batch, length) = batch_dims(indices, dims.index_vector_dim)?;
    ensure(length == dims.start_index_map.len(), || {
        Error::runtime(format!(
            "index vectors of {length} for {} mapped axes",
            dims.start_index_map.len()
        ))
    })?;
    ensure(dims.start_index_map.iter().all(|&axis| axis < x.rank()), || {
        Error::runtime(format!("index map beyond the rank of {x}"))
    })?;
    ensure(
        slice_sizes.len() == x.rank()
            && slice_sizes
                .iter()
                .zip(&x.dims)
                .all(|(size, dim)| (0..=*dim).contains(size)),
        || Error::runtime(format!("slice sizes {slice_sizes:?} for {x}")),
    )?;
    let dropped = |axis: &usize| dims.collapsed_slice_dims.contains(axis) || dims.operand_batching_dims.contains(axis);
    ensure((0..x.rank()).filter(dropped).all(|axis| slice_sizes[axis] <= 1), || {
        Error::runtime(format!(
            "collapsed axes of {x} must have slices of size 1, got {slice_sizes:?}"
        ))
    })?;
    let window: Vec<i64> = (0..x.rank())
        .filter(|axis| !dropped(axis))
        .map(|axis| slice_sizes[axis])
        .collect();
    ensure(window.len() == dims.offset_dims.len(), || {
        Error::runtime(format!(
            "{} window axes for offset axes {:?}",
            window.len(),
            dims.offset_dims
        ))
    })?;
    Ok(x.with_dims(&interleave(&dims.offset_dims, &window, &batch)?))
}

pub fn scatter(
    operands: &[&TensorType],
    indices: &TensorType,
    updates: &[&TensorType],
    dims: &ScatterDims,
) -> Result<Vec<TensorType>> {
    let first = *operands
        .first()
        .ok_or_else(|| Error::runtime("scatter into no operands"))?;
    ensure(
        operands.len() == updates.len() && operands.iter().all(|operand| operand.dims == first.dims),
        || Error::runtime("scatter wants one update per operand, all operands of equal dims"),
    )?;
    let (batch, length) = batch_dims(indices, dims.index_vector_dim)?;
    ensure(length == dims.scatter_dims_to_operand_dims.len(), || {
        Error::runtime(format!(
            "index vectors of {length} for {} mapped axes",
            dims.scatter_dims_to_operand_dims.len()
        ))
    })?;
    let dropped = |axis: &usize| dims.inserted_window_dims.contains(axis) || dims.input_batching_dims.contains(axis);
    let limits: Vec<i64> = (0..first.rank())
        .filter(|axis| !dropped(axis))
        .map(|axis| first.dims[axis])
        .collect();
    for (operand, update) in operands.iter().zip(updates) {
        ensure(operand.dtype == update.dtype, || {
            Error::runtime(format!("scatter of {update} into {operand}"))
        })?;
        let window: Vec<i64> = dims
            .update_window_dims
            .iter()
            .filter_map(|&axis| update.dims.get(axis).copied())
            .collect();
        ensure(
            window.len() == limits.len() && window.iter().zip(&limits).all(|(size, limit)| size <= limit),
            || {
                Error::runtime(format!(
                    "windows {window:?} of the update {update} do not fit into {operand}"
                ))
            },
        )?;
        ensure(
            interleave(&dims.update_window_dims, &window, &batch)? == update.dims,
            || Error::runtime(format!("the update {update} does not match indices {indices}")),
        )?;
    }
    Ok(operands.iter().map(|&operand| operand.clone()).collect())
}
