//! Elementwise operations.

use crate::dtype::{Class, DType};
use crate::error::{Error, Result, ensure};
use crate::stablehlo::{Binary, Comparison, TensorType, Unary};

fn dtype_error(name: &str, dtype: DType) -> Error {
    Error::not_implemented(format!("{name} is not defined for {dtype}"))
}

pub fn unary(op: Unary, x: &TensorType) -> Result<TensorType> {
    use Unary::*;
    let class = x.dtype.class();
    let allowed = match op {
        Not => class <= Class::Integer,
        PopulationCount | CountLeadingZeros => class == Class::Integer,
        Abs | Sign => class >= Class::Integer,
        Negate => class >= Class::Integer,
        Floor | Ceil | RoundNearestEven | RoundNearestAfz | Cbrt | Erf | Erfc | ErfInv | Lgamma | Digamma
        | BesselI1e => class == Class::Float,
        _ => class >= Class::Float,
    };
    ensure(allowed, || dtype_error(op.name(), x.dtype))?;
    Ok(if op == Abs {
        x.with_dtype(x.dtype.real())
    } else {
        x.clone()
    })
}

pub fn binary(op: Binary, left: &TensorType, right: &TensorType) -> Result<TensorType> {
    use Binary::*;
    ensure(left == right, || {
        Error::runtime(format!("{} wants equal types, got {left} and {right}", op.name()))
    })?;
    let class = left.dtype.class();
    let allowed = match op {
        And | Or | Xor => class <= Class::Integer,
        ShiftLeft | ShiftRightArithmetic | ShiftRightLogical => class == Class::Integer,
        Add | Multiply | Maximum | Minimum => op == Add || op == Multiply || class != Class::Complex,
        Subtract | Divide | Power => class >= Class::Integer,
        Remainder => matches!(class, Class::Integer | Class::Float),
        Atan2 => class >= Class::Float,
        Polygamma | Zeta | NextAfter => class == Class::Float,
    };
    ensure(allowed, || dtype_error(op.name(), left.dtype))?;
    Ok(left.clone())
}

pub fn compare(direction: Comparison, left: &TensorType, right: &TensorType) -> Result<TensorType> {
    ensure(left == right, || {
        Error::runtime(format!("compare wants equal types, got {left} and {right}"))
    })?;
    let equality = matches!(direction, Comparison::Eq | Comparison::Ne);
    ensure(equality || !left.dtype.is_complex(), || {
        dtype_error("the order of complex numbers", left.dtype)
    })?;
    Ok(left.with_dtype(DType::Bool))
}

pub fn select(condition: &TensorType, on_true: &TensorType, on_false: &TensorType) -> Result<TensorType> {
    ensure(on_true == on_false, || {
        Error::runtime(format!("select wants equal types, got {on_true} and {on_false}"))
    })?;
    ensure(
        condition.dtype == DType::Bool && (condition.rank() == 0 || condition.dims == on_true.dims),
        || {
            Error::runtime(format!(
                "select's condition must be bool and 0-d or of dims {:?}, got {condition}",
                on_true.dims
            ))
        },
    )?;
    Ok(on_true.clone())
}

pub fn clamp(low: &TensorType, x: &TensorType, high: &TensorType) -> Result<TensorType> {
    for bound in [low, high] {
        ensure(
            bound.dtype == x.dtype && (bound.rank() == 0 || bound.dims == x.dims),
            || {
                Error::runtime(format!(
                    "clamp's bounds must be 0-d or of the operand's type {x}, got {bound}"
                ))
            },
        )?;
    }
    Ok(x.clone())
}
