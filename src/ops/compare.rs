//! Comparisons, logic and bits.

use super::call::{Call, Operand, Outputs};
use super::common::{Promotion, pointwise, predicate};
use super::table::OpDef;
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::stablehlo::{Binary, Comparison, Func, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::elementwise("eq", |f, call| compare(f, call, Comparison::Eq)),
    OpDef::elementwise("ne", |f, call| compare(f, call, Comparison::Ne)),
    OpDef::elementwise("lt", |f, call| compare(f, call, Comparison::Lt)),
    OpDef::elementwise("le", |f, call| compare(f, call, Comparison::Le)),
    OpDef::elementwise("gt", |f, call| compare(f, call, Comparison::Gt)),
    OpDef::elementwise("ge", |f, call| compare(f, call, Comparison::Ge)),
    OpDef::elementwise("isnan", |f, call| {
        let x = call.tensor("self")?;
        Ok(f.is_nan(x)?.into())
    }),
    OpDef::elementwise("isinf", isinf),
    OpDef::elementwise("isposinf", |f, call| is_infinity(f, call, f64::INFINITY)),
    OpDef::elementwise("isneginf", |f, call| is_infinity(f, call, f64::NEG_INFINITY)),
    OpDef::elementwise("logical_not", |f, call| {
        let truth = f.convert(call.tensor("self")?, DType::Bool)?;
        Ok(f.not(&truth)?.into())
    }),
    OpDef::elementwise("logical_and", |f, call| logical(f, call, Binary::And)),
    OpDef::elementwise("logical_or", |f, call| logical(f, call, Binary::Or)),
    OpDef::elementwise("logical_xor", |f, call| logical(f, call, Binary::Xor)),
    OpDef::elementwise("bitwise_not", |f, call| {
        let x = call.tensor("self")?;
        ensure(!x.dtype().is_inexact(), || not_implemented("bitwise_not", x.dtype()))?;
        Ok(f.not(x)?.into())
    }),
    OpDef::elementwise("bitwise_and", |f, call| bitwise(f, call, Binary::And)),
    OpDef::elementwise("bitwise_or", |f, call| bitwise(f, call, Binary::Or)),
    OpDef::elementwise("bitwise_xor", |f, call| bitwise(f, call, Binary::Xor)),
    OpDef::elementwise("bitwise_left_shift", |f, call| shift(f, call, Binary::ShiftLeft)),
    OpDef::elementwise("bitwise_right_shift", |f, call| {
        shift(f, call, Binary::ShiftRightArithmetic)
    }),
    OpDef::elementwise("__lshift__", |f, call| shift(f, call, Binary::ShiftLeft)),
    OpDef::elementwise("__rshift__", |f, call| shift(f, call, Binary::ShiftRightArithmetic)),
];

fn two<'a>(call: &'a Call) -> Result<[&'a Operand; 2]> {
    Ok([call.tensor("self")?, call.tensor("other")?])
}

fn not_implemented(name: &str, dtype: DType) -> Error {
    Error::not_implemented(format!("\"{name}\" not implemented for {dtype}"))
}

fn compare(f: &mut Func, call: &Call, direction: Comparison) -> Result<Outputs> {
    predicate(f, call, &two(call)?, |f, x| f.compare(direction, &x[0], &x[1]))
}

fn isinf(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let infinite = |f: &mut Func, x: &Value| -> Result<Value> {
        let high = f.compare_const(Comparison::Eq, x, f64::INFINITY)?;
        let low = f.compare_const(Comparison::Eq, x, f64::NEG_INFINITY)?;
        f.or(&high, &low)
    };
    Ok(if x.dtype().is_complex() {
        let (real, imaginary) = (f.real(x)?, f.imag(x)?);
        let (real, imaginary) = (infinite(f, &real)?, infinite(f, &imaginary)?);
        f.or(&real, &imaginary)?
    } else if x.dtype().is_float() {
        infinite(f, x)?
    } else {
        f.constant(DType::Bool, x.dims(), false)
    }
    .into())
}

fn is_infinity(f: &mut Func, call: &Call, infinity: f64) -> Result<Outputs> {
    let x = call.tensor("self")?;
    ensure(!x.dtype().is_complex(), || {
        Error::runtime("isposinf and isneginf do not support complex inputs.")
    })?;
    Ok(if x.dtype().is_float() {
        f.compare_const(Comparison::Eq, x, infinity)?
    } else {
        f.constant(DType::Bool, x.dims(), false)
    }
    .into())
}

fn logical(f: &mut Func, call: &Call, op: Binary) -> Result<Outputs> {
    let operands = two(call)?;
    let (left, right) = (
        f.convert(operands[0], DType::Bool)?,
        f.convert(operands[1], DType::Bool)?,
    );
    let (left, right) = f.broadcast_pair(&left, &right)?;
    Ok(f.binary(op, &left, &right)?.into())
}

fn bitwise(f: &mut Func, call: &Call, op: Binary) -> Result<Outputs> {
    let operands = two(call)?;
    let dtype = call.result_type(&operands)?;
    ensure(!dtype.is_inexact(), || not_implemented("bitwise operation", dtype))?;
    pointwise(f, call, &operands, Promotion::Default, |f, x| {
        f.binary(op, &x[0], &x[1])
    })
}

/// Shifts by the width or more, or by a negative number: 0, or the sign for a right shift (as on the CPU).
fn shift(f: &mut Func, call: &Call, op: Binary) -> Result<Outputs> {
    let operands = two(call)?;
    let dtype = call.result_type(&operands)?;
    ensure(dtype.is_integer(), || not_implemented("shift", dtype))?;
    pointwise(f, call, &operands, Promotion::Default, |f, x| {
        let width = 8 * dtype.bytes() as i64;
        let op = if op == Binary::ShiftRightArithmetic && dtype.is_unsigned() {
            Binary::ShiftRightLogical
        } else {
            op
        };
        let shifted = f.binary(op, &x[0], &x[1])?;
        let too_far = f.compare_const(Comparison::Ge, &x[1], width)?;
        let too_far = if dtype.is_unsigned() {
            too_far
        } else {
            let negative = f.compare_const(Comparison::Lt, &x[1], 0i64)?;
            f.or(&too_far, &negative)?
        };
        let beyond = if op == Binary::ShiftRightArithmetic {
            f.binary_const(op, &x[0], width - 1)?
        } else {
            f.full_like(&x[0], 0i64)
        };
        f.select(&too_far, &beyond, &shifted)
    })
}
