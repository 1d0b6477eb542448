//! Distances between the rows of two matrices.

use super::call::{Call, Outputs};
use super::common::not_implemented_for;
use super::reduction::Axes;
use super::table::OpDef;
use super::vector_norm::vector_norm;
use crate::error::{Error, Result, ensure};
use crate::shape;
use crate::stablehlo::{Binary, Comparison, Func, Monoid, Unary, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("_cdist_forward", cdist),
    OpDef::new("_cdist_backward", cdist_backward),
];

/// `x1 […, R, M]`, `x2 […, S, M]` → their differences `[…, R, S, M]` in the opmath dtype, batch dims broadcast.
fn differences(f: &mut Func, x1: &Value, x2: &Value) -> Result<Value> {
    for x in [x1, x2] {
        ensure(x.rank() >= 2, || {
            Error::runtime("cdist only supports at least 2D tensors")
        })?;
    }
    let (rows, others) = (x1.dim(x1.rank() - 2), x2.dim(x2.rank() - 2));
    let (size, other_size) = (x1.dim(x1.rank() - 1), x2.dim(x2.rank() - 1));
    ensure(size == other_size, || {
        Error::runtime(format!(
            "X1 and X2 must have the same number of columns. X1: {size} X2: {other_size}"
        ))
    })?;
    ensure(x1.dtype().is_float(), || not_implemented_for("cdist", x1.dtype()))?;
    let mut dims = shape::broadcast(&x1.dims()[..x1.rank() - 2], &x2.dims()[..x2.rank() - 2])?;
    dims.extend_from_slice(&[rows, others, size]);
    let left = f.convert(x1, x1.dtype().opmath())?;
    let left = f.unsqueeze(&left, &[x1.rank() - 1])?;
    let left = f.broadcast_to(&left, &dims)?;
    let right = f.convert(x2, left.dtype())?;
    let right = f.unsqueeze(&right, &[x2.rank() - 2])?;
    let right = f.broadcast_to(&right, &dims)?;
    f.sub(&left, &right)
}

/// → `[…, R, S]`: the p-norms of the differences.
fn cdist(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (x1, x2) = (call.tensor("x1")?, call.tensor("x2")?);
    let order = call.float("p")?;
    ensure(order >= 0.0, || {
        Error::runtime("cdist only supports non-negative p values")
    })?;
    let differences = differences(f, x1, x2)?;
    let last = differences.rank() - 1;
    let norms = if differences.dim(last) == 0 {
        f.constant(differences.dtype(), &differences.dims()[..last], 0i64)
    } else {
        vector_norm(
            f,
            &differences,
            order,
            &Axes {
                axes: vec![last],
                keep: false,
            },
        )?
    };
    Ok(f.convert(&norms, x1.dtype())?.into())
}

/// The gradient of `x1`: `grad […, R, S]` times the slope of each norm, summed over `S` (and what was broadcast). ATen's `DistanceOpsKernel`.
fn cdist_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (gradient, x1, x2) = (call.tensor("grad")?, call.tensor("x1")?, call.tensor("x2")?);
    let order = call.float("p")?;
    let difference = differences(f, x1, x2)?;
    let dims = difference.dims().to_vec();
    let rank = dims.len();
    let spread = |f: &mut Func, x: &Value| {
        let x = f.convert(x, difference.dtype())?;
        let x = f.unsqueeze(&x, &[x.rank()])?;
        f.broadcast_to(&x, &dims)
    };
    let gradient = spread(f, gradient)?;
    let distance = spread(f, call.tensor("cdist")?)?;
    let zero = f.full_like(&difference, 0i64);
    let slope = slope(f, &difference, &distance, order)?;
    let terms = f.mul(&gradient, &slope)?;
    // A distance of 0 has no direction, whatever the gradient.
    let none = f.compare_const(Comparison::Eq, &distance, 0i64)?;
    let terms = f.select(&none, &zero, &terms)?;
    let own = x1.rank() - 2;
    let extra = rank - 3 - own;
    let mut axes: Vec<usize> = (0..rank - 3)
        .filter(|&axis| axis < extra || x1.dim(axis - extra) != dims[axis])
        .collect();
    axes.push(rank - 2);
    let total = f.reduce(&terms, Monoid::Add, &axes)?;
    let total = f.reshape(&total, x1.dims())?;
    Ok(f.convert(&total, x1.dtype())?.into())
}

/// What a norm changes by with each difference.
fn slope(f: &mut Func, difference: &Value, distance: &Value, order: f64) -> Result<Value> {
    let sign = f.unary(Unary::Sign, difference)?;
    let magnitude = f.unary(Unary::Abs, difference)?;
    if order == 0.0 {
        return Ok(f.full_like(difference, 0i64));
    }
    if order == 1.0 {
        return Ok(sign);
    }
    if order == 2.0 {
        return f.div(difference, distance);
    }
    if order.is_infinite() {
        let largest = f.compare(Comparison::Eq, &magnitude, distance)?;
        let zero = f.full_like(&sign, 0i64);
        return f.select(&largest, &sign, &zero);
    }
    let power = f.binary_const(Binary::Power, &magnitude, order - 1.0)?;
    let signed = f.mul(&sign, &power)?;
    let scale = f.binary_const(Binary::Power, distance, order - 1.0)?;
    let slope = f.div(&signed, &scale)?;
    if order >= 1.0 {
        return Ok(slope);
    }
    let still = f.compare_const(Comparison::Eq, difference, 0i64)?;
    let zero = f.full_like(&slope, 0i64);
    f.select(&still, &zero, &slope)
}
