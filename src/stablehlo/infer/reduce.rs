//! Reductions, windows, sorting.

use crate::error::{Error, Result, ensure};
use crate::shape::{self, Dims};
use crate::stablehlo::{TensorType, Window};

fn check_operands(operands: &[&TensorType], initial: &[&TensorType]) -> Result<()> {
    let first = *operands
        .first()
        .ok_or_else(|| Error::runtime("reduction of no operands"))?;
    ensure(operands.iter().all(|operand| operand.dims == first.dims), || {
        Error::runtime("a reduction's operands must have equal dims")
    })?;
    let paired = initial.len() == operands.len()
        && operands
            .iter()
            .zip(initial)
            .all(|(operand, initial)| initial.rank() == 0 && initial.dtype == operand.dtype);
    ensure(paired, || {
        Error::runtime("a reduction wants one 0-d initial value of each operand's dtype")
    })
}

pub fn reduce(operands: &[&TensorType], initial: &[&TensorType], axes: &[usize]) -> Result<Vec<TensorType>> {
    check_operands(operands, initial)?;
    let rank = operands[0].rank();
    for (position, &axis) in axes.iter().enumerate() {
        ensure(axis < rank && !axes[..position].contains(&axis), || {
            Error::runtime(format!(
                "reduction of {} over axes {axes:?}: out of range or named twice",
                operands[0]
            ))
        })?;
    }
    Ok(operands
        .iter()
        .map(|operand| operand.with_dims(&shape::without(&operand.dims, axes)))
        .collect())
}

pub fn reduce_window(operands: &[&TensorType], initial: &[&TensorType], window: &Window) -> Result<Vec<TensorType>> {
    check_operands(operands, initial)?;
    let dims = window_dims(&operands[0].dims, window)?;
    Ok(operands.iter().map(|operand| operand.with_dims(&dims)).collect())
}

/// Number of window positions per axis.
fn window_dims(dims: &[i64], window: &Window) -> Result<Dims> {
    let rank = dims.len();
    let lists = [&window.size, &window.stride, &window.base_dilation, &window.dilation];
    ensure(
        lists.iter().all(|list| list.len() == rank) && window.padding.len() == rank,
        || Error::runtime(format!("a window over {dims:?} must have {rank} entries in every list")),
    )?;
    (0..rank)
        .map(|axis| {
            let (low, high) = window.padding[axis];
            let (size, stride) = (window.size[axis], window.stride[axis]);
            ensure(
                size >= 1 && stride >= 1 && window.base_dilation[axis] >= 1 && window.dilation[axis] >= 1,
                || {
                    Error::runtime(format!(
                        "window of size {size}, stride {stride} at axis {axis}: at least 1 each"
                    ))
                },
            )?;
            let base =
                low + if dims[axis] == 0 {
                    0
                } else {
                    (dims[axis] - 1) * window.base_dilation[axis] + 1
                } + high;
            let extent = (size - 1) * window.dilation[axis] + 1;
            Ok(if base < extent { 0 } else { (base - extent) / stride + 1 })
        })
        .collect()
}

pub fn sort(operands: &[&TensorType], axis: usize) -> Result<Vec<TensorType>> {
    let first = *operands.first().ok_or_else(|| Error::runtime("sort of no operands"))?;
    ensure(axis < first.rank(), || {
        Error::runtime(format!("sort of {first} along axis {axis}"))
    })?;
    ensure(operands.iter().all(|operand| operand.dims == first.dims), || {
        Error::runtime("the operands of sort must have equal dims")
    })?;
    Ok(operands.iter().map(|&operand| operand.clone()).collect())
}
