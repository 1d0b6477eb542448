//! Variance and standard deviation, with and without the mean.

use super::call::{Call, Outputs};
use super::reduction::Axes;
use super::table::OpDef;
use crate::error::{Error, Result, ensure};
use crate::stablehlo::{Binary, Func, Monoid, Unary, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("var", |f, call| moments(f, call, "std and var", false, false)).attributes(&["correction"]),
    OpDef::new("std", |f, call| moments(f, call, "std and var", true, false)).attributes(&["correction"]),
    OpDef::new("var_mean", |f, call| moments(f, call, "var_mean", false, true)).attributes(&["correction"]),
    OpDef::new("std_mean", |f, call| moments(f, call, "std_mean", true, true)).attributes(&["correction"]),
];

/// `Σ|x - mean|² / max(0, n - correction)`, its root where `root`, and the mean where `with_mean`. Two passes over the elements, as
/// accurate as PyTorch's running form. The variance of a complex tensor is real.
fn moments(f: &mut Func, call: &Call, name: &str, root: bool, with_mean: bool) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let dtype = x.dtype();
    ensure(dtype.is_inexact(), || {
        Error::runtime(format!("{name} only support floating point and complex dtypes"))
    })?;
    let axes = Axes::of(call, x)?;
    let correction = call.float_opt("correction")?.unwrap_or(1.0);
    let count = axes.count(x) as f64;

    let wide = f.convert(x, dtype.opmath())?;
    let total = axes.reduce_keep(f, &wide, Monoid::Add)?;
    let mean = f.binary_const(Binary::Divide, &total, count)?;
    let center = f.broadcast_to(&mean, wide.dims())?;
    let distance = f.sub(&wide, &center)?;
    let squares = squared_magnitude(f, &distance)?;
    let total = axes.reduce_keep(f, &squares, Monoid::Add)?;
    let variance = f.binary_const(Binary::Divide, &total, (count - correction).max(0.0))?;
    let result = if root {
        f.unary(Unary::Sqrt, &variance)?
    } else {
        variance
    };

    let result = axes.finish(f, &result)?;
    let mut outputs = vec![f.convert(&result, dtype.real())?];
    if with_mean {
        let mean = axes.finish(f, &mean)?;
        outputs.push(f.convert(&mean, dtype)?);
    }
    Ok(Outputs::all(outputs))
}

/// `|x|²`, real.
pub(super) fn squared_magnitude(f: &mut Func, x: &Value) -> Result<Value> {
    if !x.dtype().is_complex() {
        return f.mul(x, x);
    }
    let (real, imaginary) = (f.real(x)?, f.imag(x)?);
    let (real, imaginary) = (f.mul(&real, &real)?, f.mul(&imaginary, &imaginary)?);
    f.add(&real, &imaginary)
}
