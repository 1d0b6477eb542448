//! Pure arithmetic on dims, strides and axes. Sizes are in elements.

use crate::error::{Error, Result, ensure};
use smallvec::SmallVec;

/// Sizes of a tensor, outermost first.
pub type Dims = SmallVec<[i64; 6]>;

/// Number of elements; 1 for a 0-d tensor; `i64::MAX` beyond it.
pub fn numel(dims: &[i64]) -> i64 {
    dims.iter().fold(1, |count: i64, &dim| count.saturating_mul(dim))
}

/// Row-major strides in elements, as PyTorch's contiguous tensors have them (a dim of size 0 counts as 1).
pub fn contiguous_strides(dims: &[i64]) -> Dims {
    let mut strides: Dims = SmallVec::from_elem(1, dims.len());
    for axis in (0..dims.len().saturating_sub(1)).rev() {
        strides[axis] = strides[axis + 1].saturating_mul(dims[axis + 1].max(1));
    }
    strides
}

/// An axis in `0..rank` from a possibly negative one; `IndexError` in PyTorch's words otherwise. Rank 0 counts as 1.
pub fn wrap_axis(axis: i64, rank: usize) -> Result<usize> {
    let limit = rank.max(1) as i64;
    ensure(-limit <= axis && axis < limit, || {
        Error::index(format!(
            "Dimension out of range (expected to be in range of [{}, {}], but got {axis})",
            -limit,
            limit - 1
        ))
    })?;
    Ok(if axis < 0 { axis + limit } else { axis } as usize)
}

/// The common shape of two under PyTorch's broadcasting rules.
pub fn broadcast(left: &[i64], right: &[i64]) -> Result<Dims> {
    let rank = left.len().max(right.len());
    let mut dims: Dims = SmallVec::from_elem(1, rank);
    for back in 1..=rank {
        let a = if back <= left.len() { left[left.len() - back] } else { 1 };
        let b = if back <= right.len() {
            right[right.len() - back]
        } else {
            1
        };
        ensure(a == b || a == 1 || b == 1, || {
            Error::runtime(format!(
                "The size of tensor a ({a}) must match the size of tensor b ({b}) at non-singleton dimension {}",
                rank - back
            ))
        })?;
        dims[rank - back] = if a == 1 { b } else { a };
    }
    Ok(dims)
}

/// `dims` without the listed axes.
pub fn without(dims: &[i64], axes: &[usize]) -> Dims {
    dims.iter()
        .enumerate()
        .filter(|(axis, _)| !axes.contains(axis))
        .map(|(_, &dim)| dim)
        .collect()
}
