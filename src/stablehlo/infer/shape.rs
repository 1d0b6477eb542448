//! Operations that move elements.

use crate::error::{Error, Result, ensure};
use crate::shape::{Dims, numel};
use crate::stablehlo::TensorType;

pub fn broadcast_in_dim(x: &TensorType, dims: &[i64], axes: &[usize]) -> Result<TensorType> {
    ensure(axes.len() == x.rank(), || {
        Error::runtime(format!(
            "broadcast of {x}: {} axes given for rank {}",
            axes.len(),
            x.rank()
        ))
    })?;
    for (position, (&axis, &size)) in axes.iter().zip(&x.dims).enumerate() {
        ensure(axis < dims.len() && !axes[..position].contains(&axis), || {
            Error::runtime(format!(
                "broadcast of {x} to {dims:?}: axis {axis} is out of range or named twice"
            ))
        })?;
        ensure(size == 1 || size == dims[axis], || {
            Error::runtime(format!(
                "broadcast of {x} to {dims:?}: size {size} cannot become {} at axis {axis}",
                dims[axis]
            ))
        })?;
    }
    Ok(x.with_dims(dims))
}

pub fn reshape(x: &TensorType, dims: &[i64]) -> Result<TensorType> {
    ensure(x.numel() == numel(dims), || {
        Error::runtime(format!(
            "reshape of {x} to {dims:?}: {} elements against {}",
            x.numel(),
            numel(dims)
        ))
    })?;
    Ok(x.with_dims(dims))
}

pub fn transpose(x: &TensorType, permutation: &[usize]) -> Result<TensorType> {
    let mut seen = vec![false; x.rank()];
    let valid = permutation.len() == x.rank()
        && permutation
            .iter()
            .all(|&axis| seen.get_mut(axis).is_some_and(|seen| !std::mem::replace(seen, true)));
    ensure(valid, || {
        Error::runtime(format!("{permutation:?} is no permutation of the axes of {x}"))
    })?;
    let dims: Dims = permutation.iter().map(|&axis| x.dims[axis]).collect();
    Ok(x.with_dims(&dims))
}

pub fn slice(x: &TensorType, start: &[i64], limit: &[i64], stride: &[i64]) -> Result<TensorType> {
    let rank = x.rank();
    ensure(
        start.len() == rank && limit.len() == rank && stride.len() == rank,
        || {
            Error::runtime(format!(
                "slice of {x}: start {start:?}, limit {limit:?}, stride {stride:?} must have {rank} entries"
            ))
        },
    )?;
    let mut dims = Dims::new();
    for axis in 0..rank {
        let (from, to, step) = (start[axis], limit[axis], stride[axis]);
        ensure(0 <= from && from <= to && to <= x.dims[axis] && step >= 1, || {
            Error::runtime(format!("slice {from}..{to} by {step} of axis {axis} of {x}"))
        })?;
        dims.push((to - from + step - 1) / step);
    }
    Ok(x.with_dims(&dims))
}

pub fn pad(x: &TensorType, value: &TensorType, low: &[i64], high: &[i64], interior: &[i64]) -> Result<TensorType> {
    let rank = x.rank();
    ensure(value.rank() == 0 && value.dtype == x.dtype, || {
        Error::runtime(format!("pad of {x} with {value}: a 0-d {} is wanted", x.dtype))
    })?;
    ensure(
        low.len() == rank && high.len() == rank && interior.len() == rank,
        || {
            Error::runtime(format!(
                "pad of {x}: low {low:?}, high {high:?}, interior {interior:?} must have {rank} entries"
            ))
        },
    )?;
    let mut dims = Dims::new();
    for axis in 0..rank {
        let size = x.dims[axis];
        let inside = size.saturating_add((size - 1).max(0).saturating_mul(interior[axis]));
        let padded = low[axis].saturating_add(inside).saturating_add(high[axis]);
        ensure(interior[axis] >= 0 && padded >= 0, || {
            Error::runtime(format!(
                "pad of axis {axis} of {x} by {}, {}, interior {} leaves {padded}",
                low[axis], high[axis], interior[axis]
            ))
        })?;
        dims.push(padded);
    }
    Ok(x.with_dims(&dims))
}

pub fn concatenate(types: &[&TensorType], axis: usize) -> Result<TensorType> {
    let first = *types
        .first()
        .ok_or_else(|| Error::runtime("concatenation of no values"))?;
    ensure(axis < first.rank(), || {
        Error::runtime(format!("concatenation of {first} along axis {axis}"))
    })?;
    let mut dims = first.dims.clone();
    dims[axis] = 0;
    for ty in types {
        let alike = ty.dtype == first.dtype
            && ty.rank() == first.rank()
            && (0..first.rank()).all(|other| other == axis || ty.dims[other] == first.dims[other]);
        ensure(alike, || {
            Error::runtime(format!("concatenation along axis {axis} of {first} and {ty}"))
        })?;
        dims[axis] += ty.dims[axis];
    }
    Ok(first.with_dims(&dims))
}

fn check_starts(x: &TensorType, starts: &[&TensorType]) -> Result<()> {
    let valid = starts.len() == x.rank()
        && starts
            .iter()
            .all(|start| start.rank() == 0 && start.dtype.is_integer() && start.dtype == starts[0].dtype);
    ensure(valid, || {
        Error::runtime(format!(
            "{} start indices for {x}: one 0-d integer per axis is wanted, all of one dtype",
            starts.len()
        ))
    })
}

pub fn dynamic_slice(x: &TensorType, starts: &[&TensorType], sizes: &[i64]) -> Result<TensorType> {
    check_starts(x, starts)?;
    ensure(
        sizes.len() == x.rank() && sizes.iter().zip(&x.dims).all(|(size, dim)| (0..=*dim).contains(size)),
        || Error::runtime(format!("dynamic slice of sizes {sizes:?} of {x}")),
    )?;
    Ok(x.with_dims(sizes))
}

pub fn dynamic_update_slice(x: &TensorType, update: &TensorType, starts: &[&TensorType]) -> Result<TensorType> {
    check_starts(x, starts)?;
    let fits = update.dtype == x.dtype
        && update.rank() == x.rank()
        && update.dims.iter().zip(&x.dims).all(|(size, dim)| size <= dim);
    ensure(fits, || {
        Error::runtime(format!("update {update} does not fit into {x}"))
    })?;
    Ok(x.clone())
}
