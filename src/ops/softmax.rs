//! Softmax, its logarithm, and their gradients.

use super::call::{Call, Outputs};
use super::table::OpDef;
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::stablehlo::{Comparison, Func, Monoid, Unary, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("_softmax", |f, call| softmax(f, call, false)),
    OpDef::new("_log_softmax", |f, call| softmax(f, call, true)),
    OpDef::new("_safe_softmax", safe_softmax),
    OpDef::new("_softmax_backward_data", |f, call| backward(f, call, false)),
    OpDef::new("_log_softmax_backward_data", |f, call| backward(f, call, true)),
];

/// `self` in float32 or float64, with at least one axis, and the axis.
fn prepare(f: &mut Func, call: &Call, x: &Value) -> Result<(Value, usize)> {
    ensure(x.dtype().is_float(), || {
        Error::not_implemented(format!("\"softmax\" not implemented for {}", x.dtype()))
    })?;
    let axis = call.axis("dim", x.rank())?;
    let wide = f.convert(x, x.dtype().opmath())?;
    Ok((if x.rank() == 0 { f.reshape(&wide, &[1])? } else { wide }, axis))
}

/// A value without `axis` stretched along it again.
fn spread(f: &mut Func, reduced: &Value, like: &Value, axis: usize) -> Result<Value> {
    let axes: Vec<usize> = (0..like.rank()).filter(|&other| other != axis).collect();
    f.broadcast_in_dim(reduced, like.dims(), &axes)
}

/// `x − max`, its exponential, and the exponentials' sum (spread).
fn shifted(f: &mut Func, x: &Value, axis: usize) -> Result<(Value, Value, Value)> {
    let largest = f.reduce(x, Monoid::Maximum, &[axis])?;
    let largest = spread(f, &largest, x, axis)?;
    let shifted = f.sub(x, &largest)?;
    let power = f.unary(Unary::Exp, &shifted)?;
    let sum = f.reduce(&power, Monoid::Add, &[axis])?;
    Ok((shifted, power, sum))
}

fn result_dtype(call: &Call, x: &Value) -> Result<DType> {
    if call.flag("half_to_float")? {
        return Ok(DType::F32);
    }
    Ok(call.dtype_opt("dtype")?.unwrap_or(x.dtype()))
}

/// `e^(x − max) / Σ` along `dim`, or its logarithm `x − max − log Σ`.
fn softmax(f: &mut Func, call: &Call, log: bool) -> Result<Outputs> {
    let operand = call.tensor("self")?;
    let (x, axis) = prepare(f, call, operand)?;
    if x.numel() == 0 {
        return Ok(f.constant(result_dtype(call, operand)?, operand.dims(), 0i64).into());
    }
    let (shifted, power, sum) = shifted(f, &x, axis)?;
    let result = if log {
        let log_sum = f.unary(Unary::Log, &sum)?;
        let log_sum = spread(f, &log_sum, &x, axis)?;
        f.sub(&shifted, &log_sum)?
    } else {
        let sum = spread(f, &sum, &x, axis)?;
        f.div(&power, &sum)?
    };
    let result = f.reshape(&result, operand.dims())?;
    Ok(f.convert(&result, result_dtype(call, operand)?)?.into())
}

/// Softmax in which rows of −inf only give zeros.
fn safe_softmax(f: &mut Func, call: &Call) -> Result<Outputs> {
    let operand = call.tensor("self")?;
    let out = call.dtype_opt("dtype")?.unwrap_or(operand.dtype());
    let cast = f.convert(operand, out)?;
    let (x, axis) = prepare(f, call, &cast)?;
    if x.numel() == 0 {
        return Ok(f.constant(out, operand.dims(), 0i64).into());
    }
    let (_, power, sum) = shifted(f, &x, axis)?;
    let sum = spread(f, &sum, &x, axis)?;
    let result = f.div(&power, &sum)?;
    let hidden = f.compare_const(Comparison::Eq, &x, f64::NEG_INFINITY)?;
    let all_hidden = f.reduce(&hidden, Monoid::And, &[axis])?;
    let all_hidden = spread(f, &all_hidden, &x, axis)?;
    let zero = f.full_like(&result, 0i64);
    let result = f.select(&all_hidden, &zero, &result)?;
    let result = f.reshape(&result, operand.dims())?;
    Ok(f.convert(&result, out)?.into())
}

/// `(g − Σ g·y)·y`, and for the logarithm `g − e^y Σ g`.
fn backward(f: &mut Func, call: &Call, log: bool) -> Result<Outputs> {
    let (gradient, output) = (call.tensor("grad_output")?, call.tensor("output")?);
    let out = call.dtype_opt("input_dtype")?.unwrap_or(output.dtype());
    if output.numel() == 0 {
        return Ok(f.constant(out, output.dims(), 0i64).into());
    }
    let (gradient, axis) = prepare(f, call, gradient)?;
    let (y, _) = prepare(f, call, output)?;
    let (gradient, y) = (f.convert(&gradient, DType::opmath(y.dtype()))?, y);
    let result = if log {
        let sum = f.reduce(&gradient, Monoid::Add, &[axis])?;
        let sum = spread(f, &sum, &y, axis)?;
        let power = f.unary(Unary::Exp, &y)?;
        let part = f.mul(&power, &sum)?;
        f.sub(&gradient, &part)?
    } else {
        let product = f.mul(&gradient, &y)?;
        let sum = f.reduce(&product, Monoid::Add, &[axis])?;
        let sum = spread(f, &sum, &y, axis)?;
        let difference = f.sub(&gradient, &sum)?;
        f.mul(&difference, &y)?
    };
    let result = f.reshape(&result, output.dims())?;
    Ok(f.convert(&result, out)?.into())
}
