//! Operations that move elements: broadcast, reshape, transpose, slice, pad, concatenate, reverse, dynamic slices.

use super::emit::{axes as axes_text, ints};
use super::func::Func;
use super::infer::shape as infer;
use super::types::Value;
use crate::error::{Error, Result, ensure};
use crate::shape::{self, Dims};

impl Func {
    /// StableHLO's own: operand axis `i` becomes result axis `axes[i]`.
    pub fn broadcast_in_dim(&mut self, x: &Value, dims: &[i64], axes: &[usize]) -> Result<Value> {
        let ty = infer::broadcast_in_dim(&x.ty, dims, axes)?;
        Ok(self.single(
            "stablehlo.broadcast_in_dim",
            &[x],
            format!("broadcast_dimensions = {}", axes_text(axes)),
            ty,
        ))
    }

    /// PyTorch's `expand`: aligned at the last axis, sizes 1 stretch. The value itself when the dims are equal.
    pub fn broadcast_to(&mut self, x: &Value, dims: &[i64]) -> Result<Value> {
        if x.dims() == dims {
            return Ok(x.clone());
        }
        ensure(x.rank() <= dims.len(), || {
            Error::runtime(format!("{:?} cannot be expanded to the shorter {dims:?}", x.dims()))
        })?;
        let first = dims.len() - x.rank();
        let axes: Vec<usize> = (first..dims.len()).collect();
        self.broadcast_in_dim(x, dims, &axes)
    }

    /// Both, broadcast to their common shape (PyTorch's rules and error).
    pub fn broadcast_pair(&mut self, left: &Value, right: &Value) -> Result<(Value, Value)> {
        let dims = shape::broadcast(left.dims(), right.dims())?;
        Ok((self.broadcast_to(left, &dims)?, self.broadcast_to(right, &dims)?))
    }

    /// Same number of elements, row-major order. The value itself when the dims are equal.
    pub fn reshape(&mut self, x: &Value, dims: &[i64]) -> Result<Value> {
        if x.dims() == dims {
            return Ok(x.clone());
        }
        let ty = infer::reshape(&x.ty, dims)?;
        Ok(self.single("stablehlo.reshape", &[x], String::new(), ty))
    }

    /// Result axis `i` is operand axis `permutation[i]`. The value itself when nothing moves.
    pub fn transpose(&mut self, x: &Value, permutation: &[usize]) -> Result<Value> {
        let ty = infer::transpose(&x.ty, permutation)?;
        if permutation.iter().enumerate().all(|(position, &axis)| position == axis) {
            return Ok(x.clone());
        }
        Ok(self.single(
            "stablehlo.transpose",
            &[x],
            format!("permutation = {}", axes_text(permutation)),
            ty,
        ))
    }

    /// Axes of size 1 put in so that they stand at `axes` (positions in the result, ascending).
    pub fn unsqueeze(&mut self, x: &Value, axes: &[usize]) -> Result<Value> {
        let mut dims = x.ty.dims.clone();
        for &axis in axes {
            ensure(axis <= dims.len(), || {
                Error::runtime(format!("axis {axis} cannot be put into {dims:?}"))
            })?;
            dims.insert(axis, 1);
        }
        self.reshape(x, &dims)
    }

    /// The listed axes, each of size 1, taken out.
    pub fn squeeze(&mut self, x: &Value, axes: &[usize]) -> Result<Value> {
        for &axis in axes {
            ensure(axis < x.rank() && x.dim(axis) == 1, || {
                Error::runtime(format!("axis {axis} of {:?} is not of size 1", x.dims()))
            })?;
        }
        let dims = shape::without(x.dims(), axes);
        self.reshape(x, &dims)
    }

    /// Elements `start..limit` by `stride` on every axis.
    pub fn slice(&mut self, x: &Value, start: &[i64], limit: &[i64], stride: &[i64]) -> Result<Value> {
        let ty = infer::slice(&x.ty, start, limit, stride)?;
        if ty.dims == x.ty.dims && stride.iter().all(|&step| step == 1) {
            return Ok(x.clone());
        }
        let attributes = format!(
            "start_indices = {}, limit_indices = {}, strides = {}",
            ints(start.iter().copied()),
            ints(limit.iter().copied()),
            ints(stride.iter().copied())
        );
        Ok(self.single("stablehlo.slice", &[x], attributes, ty))
    }

    /// Elements `start..limit` of one axis, all of the others.
    pub fn slice_axis(&mut self, x: &Value, axis: usize, start: i64, limit: i64) -> Result<Value> {
        ensure(axis < x.rank(), || {
            Error::runtime(format!("slice along axis {axis} of {:?}", x.dims()))
        })?;
        let (mut starts, mut limits): (Dims, Dims) = (x.dims().iter().map(|_| 0).collect(), x.ty.dims.clone());
        (starts[axis], limits[axis]) = (start, limit);
        let ones: Dims = x.dims().iter().map(|_| 1).collect();
        self.slice(x, &starts, &limits, &ones)
    }

    /// `low`/`high` may be negative (cropping); `interior` elements go between neighbours. `value` is 0-d of `x`'s dtype.
    pub fn pad(&mut self, x: &Value, value: &Value, low: &[i64], high: &[i64], interior: &[i64]) -> Result<Value> {
        let ty = infer::pad(&x.ty, &value.ty, low, high, interior)?;
        let attributes = format!(
            "edge_padding_low = {}, edge_padding_high = {}, interior_padding = {}",
            ints(low.iter().copied()),
            ints(high.iter().copied()),
            ints(interior.iter().copied())
        );
        Ok(self.single("stablehlo.pad", &[x, value], attributes, ty))
    }

    /// One or more values of one dtype, equal but for `axis`.
    pub fn concatenate(&mut self, values: &[Value], axis: usize) -> Result<Value> {
        let types: Vec<_> = values.iter().map(|value| &value.ty).collect();
        let ty = infer::concatenate(&types, axis)?;
        if let [only] = values {
            return Ok(only.clone());
        }
        let operands: Vec<&Value> = values.iter().collect();
        Ok(self.single(
            "stablehlo.concatenate",
            &operands,
            format!("dimension = {axis} : i64"),
            ty,
        ))
    }

    pub fn reverse(&mut self, x: &Value, axes: &[usize]) -> Result<Value> {
        ensure(axes.iter().all(|&axis| axis < x.rank()), || {
            Error::runtime(format!("reverse of axes {axes:?} of {:?}", x.dims()))
        })?;
        if axes.is_empty() {
            return Ok(x.clone());
        }
        Ok(self.single(
            "stablehlo.reverse",
            &[x],
            format!("dimensions = {}", axes_text(axes)),
            x.ty.clone(),
        ))
    }

    /// `starts`: one 0-d integer per axis, clamped by the program.
    pub fn dynamic_slice(&mut self, x: &Value, starts: &[Value], sizes: &[i64]) -> Result<Value> {
        let types: Vec<_> = starts.iter().map(|start| &start.ty).collect();
        let ty = infer::dynamic_slice(&x.ty, &types, sizes)?;
        let operands: Vec<&Value> = std::iter::once(x).chain(starts).collect();
        Ok(self.single(
            "stablehlo.dynamic_slice",
            &operands,
            format!("slice_sizes = {}", ints(sizes.iter().copied())),
            ty,
        ))
    }

    pub fn dynamic_update_slice(&mut self, x: &Value, update: &Value, starts: &[Value]) -> Result<Value> {
        let types: Vec<_> = starts.iter().map(|start| &start.ty).collect();
        let ty = infer::dynamic_update_slice(&x.ty, &update.ty, &types)?;
        if starts.is_empty() {
            return Ok(update.clone());
        }
        let operands: Vec<&Value> = [x, update].into_iter().chain(starts).collect();
        Ok(self.single("stablehlo.dynamic_update_slice", &operands, String::new(), ty))
    }
}
