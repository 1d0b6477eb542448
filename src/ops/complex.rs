//! Complex numbers: making them, their parts and angles.

use super::call::{Call, Outputs};
use super::common::broadcast_all;
use super::pointwise::sign_bit;
use super::table::OpDef;
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::stablehlo::{Binary, Func, Unary, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::elementwise("complex", complex),
    OpDef::elementwise("polar", polar),
    OpDef::elementwise("angle", angle),
    OpDef::elementwise("conj_physical", conj_physical),
    OpDef::elementwise("_conj_physical", conj_physical),
];

/// Two operands of one float dtype (float32 or float64; float16 has no complex type here).
fn parts(f: &mut Func, call: &Call, first: &str, second: &str) -> Result<[Value; 2]> {
    let (first, second) = (call.tensor(first)?, call.tensor(second)?);
    ensure(matches!(first.dtype(), DType::F32 | DType::F64), || {
        Error::runtime(format!(
            "Expected both inputs to be Half, Float or Double tensors but got {} and {}",
            first.dtype().name(),
            second.dtype().name()
        ))
    })?;
    ensure(first.dtype() == second.dtype(), || {
        Error::runtime(format!(
            "Expected object of scalar type {} but got scalar type {} for second argument",
            first.dtype().name(),
            second.dtype().name()
        ))
    })?;
    let values = broadcast_all(f, &[&first.value, &second.value], first.dtype())?;
    Ok([values[0].clone(), values[1].clone()])
}

fn complex(f: &mut Func, call: &Call) -> Result<Outputs> {
    let [real, imaginary] = parts(f, call, "real", "imag")?;
    Ok(f.complex(&real, &imaginary)?.into())
}

/// `abs · (cos angle + i sin angle)`
fn polar(f: &mut Func, call: &Call) -> Result<Outputs> {
    let [magnitude, angle] = parts(f, call, "abs", "angle")?;
    let (cosine, sine) = (f.unary(Unary::Cosine, &angle)?, f.unary(Unary::Sine, &angle)?);
    let (real, imaginary) = (f.mul(&magnitude, &cosine)?, f.mul(&magnitude, &sine)?);
    Ok(f.complex(&real, &imaginary)?.into())
}

/// Of a real number: 0, or π when it is negative; NaN stays.
fn angle(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    if x.dtype().is_complex() {
        let (real, imaginary) = (f.real(x)?, f.imag(x)?);
        return Ok(f.binary(Binary::Atan2, &imaginary, &real)?.into());
    }
    let dtype = if x.dtype().is_float() {
        x.dtype()
    } else {
        call.default_dtype
    };
    let value = f.convert(x, dtype)?;
    let negative = sign_bit(f, &value)?;
    let negative = {
        let below = f.compare_const(crate::stablehlo::Comparison::Lt, &value, 0i64)?;
        f.and(&negative, &below)?
    };
    let (zero, half_turn) = (f.full_like(&value, 0i64), f.full_like(&value, std::f64::consts::PI));
    let result = f.select(&negative, &half_turn, &zero)?;
    let nan = f.is_nan(&value)?;
    Ok(f.select(&nan, &value, &result)?.into())
}

fn conj_physical(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    if !x.dtype().is_complex() {
        return Ok(x.value.clone().into());
    }
    let (real, imaginary) = (f.real(x)?, f.imag(x)?);
    let imaginary = f.neg(&imaginary)?;
    Ok(f.complex(&real, &imaginary)?.into())
}
