//! Norms of vectors, and log-sum-exp.

use super::call::{Call, Outputs};
use super::common::{self, scalar_type};
use super::moments::squared_magnitude;
use super::reduction::Axes;
use super::table::OpDef;
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::promote;
use crate::stablehlo::{Binary, Comparison, Func, Monoid, Unary, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("norm", norm).attributes(&["p"]),
    OpDef::new("linalg_vector_norm", linalg_vector_norm).attributes(&["ord"]),
    OpDef::new("_foreach_norm", foreach_norm).attributes(&["ord"]),
    OpDef::new("_foreach_powsum", foreach_powsum).attributes(&["ord"]),
    OpDef::new("dist", dist).attributes(&["p"]),
    OpDef::new("renorm", renorm).attributes(&["p", "maxnorm"]),
    OpDef::new("logsumexp", logsumexp),
];

/// PyTorch's older entry: as `linalg_vector_norm`, with its own message.
fn norm(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    ensure_inexact(x.dtype())?;
    let order = call.float_opt("p")?.unwrap_or(2.0);
    let axes = Axes::of(call, x)?;
    Ok(checked_norm(f, x, order, &axes, call.dtype_opt("dtype")?)?.into())
}

fn ensure_inexact(dtype: DType) -> Result<()> {
    ensure(dtype.is_inexact(), || {
        let name = scalar_type(dtype);
        Error::runtime(format!(
            "norm(): input dtype should be either floating point or complex. Got {name} instead."
        ))
    })
}

fn linalg_vector_norm(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let axes = Axes::of(call, x)?;
    Ok(checked_norm(f, x, call.float("ord")?, &axes, call.dtype_opt("dtype")?)?.into())
}

/// The norm of each tensor of a list, in one program.
fn foreach_norm(f: &mut Func, call: &Call) -> Result<Outputs> {
    let order = call.float("ord")?;
    let dtype = call.dtype_opt("dtype")?;
    let norms = call
        .tensors("self")?
        .into_iter()
        .map(|x| checked_norm(f, x, order, &Axes::all(x), dtype));
    Ok(Outputs::all(norms.collect::<Result<Vec<_>>>()?))
}

/// `Σ|x|^ord` of each tensor of a list; order 0 has no meaning of its own here (`0⁰ = 1`).
fn foreach_powsum(f: &mut Func, call: &Call) -> Result<Outputs> {
    let order = call.float("ord")?;
    let asked = call.dtype_opt("dtype")?;
    let sums = call.tensors("self")?.into_iter().map(|x| {
        let (wide, dtype) = widened(f, x, asked)?;
        let terms = powers(f, &wide, order)?;
        let sum = Axes::all(x).reduce(f, &terms, Monoid::Add)?;
        f.convert(&sum, dtype)
    });
    Ok(Outputs::all(sums.collect::<Result<Vec<_>>>()?))
}

/// The norm of the difference.
fn dist(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (x, y) = (call.tensor("self")?, call.tensor("other")?);
    let dtype = call.result_type(&[x, y])?;
    ensure_inexact(dtype)?;
    let pair = common::broadcast_all(f, &[x, y], dtype)?;
    let [x, y] = pair.as_slice() else {
        return Err(Error::runtime("dist takes two tensors"));
    };
    let difference = f.sub(x, y)?;
    Ok(checked_norm(f, &difference, call.float("p")?, &Axes::all(&difference), None)?.into())
}

/// The slices along `dim` whose norm is above `maxnorm` are scaled down to it.
fn renorm(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let order = call.float("p")?;
    let limit = call.float("maxnorm")?;
    ensure(order > 0.0, || {
        Error::runtime("renorm: non-positive-norm not supported")
    })?;
    ensure(limit >= 0.0, || {
        Error::runtime(format!("renorm: expected maxnorm to be >= 0 but got {limit}"))
    })?;
    ensure(x.rank() > 1, || {
        Error::runtime(format!(
            "renorm: input needs at least 2 dimensions, got {} dimensions",
            x.rank()
        ))
    })?;
    let axis = call.axis("dim", x.rank())?;
    let axes = Axes {
        axes: (0..x.rank()).filter(|&other| other != axis).collect(),
        keep: true,
    };
    let (wide, _) = widened(f, x, None)?;
    let norm = vector_norm(f, &wide, order, &axes)?;
    // ATen's `renorm_scale_factor_impl`.
    let limits = f.full_like(&norm, limit);
    let shifted = f.binary_const(Binary::Add, &norm, 1e-7)?;
    let shrink = f.div(&limits, &shifted)?;
    let above = f.compare(Comparison::Gt, &norm, &limits)?;
    let one = f.full_like(&norm, 1i64);
    let factor = f.select(&above, &shrink, &one)?;
    let factor = f.convert(&factor, wide.dtype())?;
    let factor = f.broadcast_to(&factor, x.dims())?;
    let scaled = f.mul(&wide, &factor)?;
    Ok(f.convert(&scaled, x.dtype())?.into())
}

/// Checks of `linalg.vector_norm`, then the norm in the real part's dtype.
fn checked_norm(f: &mut Func, x: &Value, order: f64, axes: &Axes, asked: Option<DType>) -> Result<Value> {
    if axes.count(x) == 0 && (order < 0.0 || order == f64::INFINITY) {
        let empty = axes.axes.iter().find(|&&axis| x.dim(axis) == 0);
        let whole = axes.axes.len() == x.rank() && !axes.keep;
        return Err(Error::runtime(match empty {
            Some(axis) if !whole => format!(
                "linalg.vector_norm cannot compute the {order} norm on the dimension {axis} because this dimension is empty and the operation does not have an identity"
            ),
            _ => format!(
                "linalg.vector_norm cannot compute the {order} norm on an empty tensor because the operation does not have an identity"
            ),
        }));
    }
    let (wide, dtype) = widened(f, x, asked)?;
    let norm = vector_norm(f, &wide, order, axes)?;
    f.convert(&norm, dtype)
}

/// `x` as the norm is computed on it, and the result's dtype.
fn widened(f: &mut Func, x: &Value, asked: Option<DType>) -> Result<(Value, DType)> {
    let own = x.dtype();
    let refuse = |reason: String| Error::runtime(format!("linalg.vector_norm: {reason}"));
    ensure(own.is_inexact(), || {
        refuse(format!(
            "Expected a floating point or complex tensor as input. Got {}",
            scalar_type(own)
        ))
    })?;
    if let Some(asked) = asked {
        let name = scalar_type(asked);
        let kind = if own.is_complex() { "complex" } else { "real" };
        ensure(asked.is_inexact() && own.is_complex() == asked.is_complex(), || {
            refuse(format!("dtype should be {kind} for {kind} inputs, but got {name}"))
        })?;
        ensure(promote::promote_types(own, asked)? == asked, || {
            let input = scalar_type(own);
            refuse(format!(
                "the dtype of the input ({input}) should be convertible without narrowing to the specified dtype ({name})"
            ))
        })?;
    }
    let dtype = asked.unwrap_or(own);
    Ok((f.convert(x, dtype.opmath())?, dtype.real()))
}

/// `(Σ|x|^order)^(1/order)` and its limits; real out.
pub(super) fn vector_norm(f: &mut Func, x: &Value, order: f64, axes: &Axes) -> Result<Value> {
    if order.is_infinite() {
        let magnitude = f.unary(Unary::Abs, x)?;
        let monoid = if order > 0.0 { Monoid::Maximum } else { Monoid::Minimum };
        return axes.reduce(f, &magnitude, monoid);
    }
    // One element is its own norm: the power and its root would only add rounding.
    if axes.count(x) == 1 && order != 0.0 {
        let magnitude = f.unary(Unary::Abs, x)?;
        return axes.reduce(f, &magnitude, Monoid::Add);
    }
    let sum = power_sum(f, x, order, axes)?;
    match order {
        _ if order == 0.0 || order == 1.0 => Ok(sum),
        _ if order == 2.0 => f.unary(Unary::Sqrt, &sum),
        _ => f.binary_const(Binary::Power, &sum, 1.0 / order),
    }
}

/// `Σ|x|^order`, real; `order` 0 counts what is not 0.
fn power_sum(f: &mut Func, x: &Value, order: f64, axes: &Axes) -> Result<Value> {
    let terms = if order == 0.0 {
        let zero = f.full_like(x, 0i64);
        let different = f.compare(Comparison::Ne, x, &zero)?;
        f.convert(&different, x.dtype().real())?
    } else {
        powers(f, x, order)?
    };
    axes.reduce(f, &terms, Monoid::Add)
}

/// `|x|^order`, real.
fn powers(f: &mut Func, x: &Value, order: f64) -> Result<Value> {
    if order == 2.0 {
        return squared_magnitude(f, x);
    }
    let magnitude = f.unary(Unary::Abs, x)?;
    if order == 1.0 {
        Ok(magnitude)
    } else {
        f.binary_const(Binary::Power, &magnitude, order)
    }
}

/// `log Σ exp(x)`, shifted by the maximum where that is finite.
fn logsumexp(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let dtype = if x.dtype().is_inexact() {
        x.dtype()
    } else {
        call.default_dtype
    };
    let axes = Axes::of(call, x)?;
    let wide = f.convert(x, dtype.opmath())?;
    let real = if wide.dtype().is_complex() {
        f.real(&wide)?
    } else {
        wide.clone()
    };
    let largest = axes.reduce_keep(f, &real, Monoid::Maximum)?;
    let magnitude = f.unary(Unary::Abs, &largest)?;
    let infinite = f.compare_const(Comparison::Eq, &magnitude, f64::INFINITY)?;
    let zero = f.full_like(&largest, 0i64);
    let shift = f.select(&infinite, &zero, &largest)?;
    let shift = f.convert(&shift, wide.dtype())?;
    let spread = f.broadcast_to(&shift, wide.dims())?;
    let shifted = f.sub(&wide, &spread)?;
    let exponentials = f.unary(Unary::Exp, &shifted)?;
    let total = axes.reduce_keep(f, &exponentials, Monoid::Add)?;
    let logarithm = f.unary(Unary::Log, &total)?;
    let result = f.add(&logarithm, &shift)?;
    let result = axes.finish(f, &result)?;
    Ok(f.convert(&result, dtype)?.into())
}
