//! Arithmetic of one operand.

use super::call::{Call, Outputs};
use super::common::{Promotion, pointwise};
use super::pointwise::{sign_bit, truncate};
use super::table::OpDef;
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::stablehlo::{Binary, Comparison, Func, Monoid, Unary, Value};
use std::f64::consts::{LN_2, LN_10, PI};

pub(super) const OPS: &[OpDef] = &[
    OpDef::elementwise("exp", |f, call| float(f, call, Unary::Exp)),
    OpDef::elementwise("expm1", |f, call| float(f, call, Unary::Expm1)),
    OpDef::elementwise("exp2", |f, call| {
        float_with(f, call, |f, x| {
            let scaled = f.binary_const(Binary::Multiply, x, LN_2)?;
            f.unary(Unary::Exp, &scaled)
        })
    }),
    OpDef::elementwise("log", |f, call| float(f, call, Unary::Log)),
    OpDef::elementwise("log1p", |f, call| float(f, call, Unary::Log1p)),
    OpDef::elementwise("log2", |f, call| logarithm(f, call, LN_2)),
    OpDef::elementwise("log10", |f, call| logarithm(f, call, LN_10)),
    OpDef::elementwise("sqrt", |f, call| float(f, call, Unary::Sqrt)),
    OpDef::elementwise("rsqrt", |f, call| float(f, call, Unary::Rsqrt)),
    OpDef::elementwise("sin", |f, call| float(f, call, Unary::Sine)),
    OpDef::elementwise("cos", |f, call| float(f, call, Unary::Cosine)),
    OpDef::elementwise("tan", |f, call| float(f, call, Unary::Tan)),
    OpDef::elementwise("asin", |f, call| float(f, call, Unary::Asin)),
    OpDef::elementwise("acos", |f, call| float(f, call, Unary::Acos)),
    OpDef::elementwise("atan", |f, call| float(f, call, Unary::Atan)),
    OpDef::elementwise("sinh", |f, call| float(f, call, Unary::Sinh)),
    OpDef::elementwise("cosh", |f, call| float(f, call, Unary::Cosh)),
    OpDef::elementwise("tanh", |f, call| float(f, call, Unary::Tanh)),
    OpDef::elementwise("asinh", |f, call| float(f, call, Unary::Asinh)),
    OpDef::elementwise("acosh", |f, call| float(f, call, Unary::Acosh)),
    OpDef::elementwise("atanh", |f, call| float(f, call, Unary::Atanh)),
    OpDef::elementwise("erf", |f, call| float(f, call, Unary::Erf)),
    OpDef::elementwise("erfc", |f, call| float(f, call, Unary::Erfc)),
    OpDef::elementwise("erfinv", |f, call| float(f, call, Unary::ErfInv)),
    OpDef::elementwise("lgamma", |f, call| float(f, call, Unary::Lgamma)),
    OpDef::elementwise("digamma", digamma),
    OpDef::elementwise("polygamma", polygamma),
    OpDef::elementwise("special_zeta", zeta),
    OpDef::elementwise("sigmoid", |f, call| float(f, call, Unary::Logistic)),
    OpDef::elementwise("special_i1e", |f, call| float(f, call, Unary::BesselI1e)),
    OpDef::elementwise("special_ndtri", ndtri),
    OpDef::elementwise("special_log_ndtr", log_ndtr),
    OpDef::elementwise("special_entr", entr),
    OpDef::elementwise("sinc", sinc),
    OpDef::elementwise("logit", logit),
    OpDef::elementwise("reciprocal", |f, call| {
        float_with(f, call, |f, x| {
            let one = f.full_like(x, 1i64);
            f.div(&one, x)
        })
    }),
    OpDef::elementwise("abs", abs),
    OpDef::elementwise("neg", neg),
    OpDef::elementwise("sign", sign),
    OpDef::elementwise("sgn", sgn),
    OpDef::elementwise("signbit", signbit),
    OpDef::elementwise("floor", |f, call| rounding(f, call, |f, x| f.unary(Unary::Floor, x))),
    OpDef::elementwise("ceil", |f, call| rounding(f, call, |f, x| f.unary(Unary::Ceil, x))),
    OpDef::elementwise("trunc", |f, call| rounding(f, call, truncate)),
    OpDef::elementwise("frac", |f, call| {
        rounding(f, call, |f, x| {
            let whole = truncate(f, x)?;
            f.sub(x, &whole)
        })
    }),
    OpDef::elementwise("round", round),
    OpDef::elementwise("nan_to_num", nan_to_num),
    OpDef::elementwise("deg2rad", |f, call| {
        float_with(f, call, |f, x| f.binary_const(Binary::Multiply, x, PI / 180.0))
    }),
    OpDef::elementwise("rad2deg", |f, call| {
        float_with(f, call, |f, x| f.binary_const(Binary::Multiply, x, 180.0 / PI))
    }),
    OpDef::elementwise("frexp", frexp),
];

fn float(f: &mut Func, call: &Call, op: Unary) -> Result<Outputs> {
    float_with(f, call, |f, x| f.unary(op, x))
}

/// Integers and bool are computed as the default float dtype.
fn float_with(f: &mut Func, call: &Call, body: impl FnOnce(&mut Func, &Value) -> Result<Value>) -> Result<Outputs> {
    pointwise(f, call, &[call.tensor("self")?], Promotion::IntToFloat, |f, x| {
        body(f, &x[0])
    })
}

/// Integers stay as they are.
fn rounding(f: &mut Func, call: &Call, body: impl FnOnce(&mut Func, &Value) -> Result<Value>) -> Result<Outputs> {
    let x = call.tensor("self")?;
    ensure(!x.dtype().is_complex(), || {
        Error::runtime("rounding is not supported for complex inputs")
    })?;
    ensure(!x.dtype().is_bool(), || {
        Error::not_implemented("rounding is not implemented for 'Bool'")
    })?;
    if x.dtype().is_integer() {
        return Ok(x.value.clone().into());
    }
    pointwise(f, call, &[x], Promotion::Default, |f, x| body(f, &x[0]))
}

fn logarithm(f: &mut Func, call: &Call, base: f64) -> Result<Outputs> {
    float_with(f, call, |f, x| {
        let log = f.unary(Unary::Log, x)?;
        if x.dtype().is_complex() {
            let divisor = f.full_like(&log, base);
            return f.div(&log, &divisor);
        }
        f.binary_const(Binary::Divide, &log, base)
    })
}

/// ψ(0) is -inf with the zero's sign inverted; negative integers give NaN (ATen's `calc_digamma`).
fn digamma(f: &mut Func, call: &Call) -> Result<Outputs> {
    float_with(f, call, |f, x| {
        let value = f.unary(Unary::Digamma, x)?;
        let is_zero = f.compare_const(Comparison::Eq, x, 0i64)?;
        let infinity = f.full_like(x, f64::INFINITY);
        let flipped = f.neg(x)?;
        let pole = super::pointwise::copysign(f, &[infinity, flipped])?;
        f.select(&is_zero, &pole, &value)
    })
}

/// `n` counts derivatives of ψ.
fn polygamma(f: &mut Func, call: &Call) -> Result<Outputs> {
    let order = call.int("n")?;
    ensure(order >= 0, || {
        Error::runtime("polygamma(n, x) does not support negative n.")
    })?;
    if order == 0 {
        return digamma(f, call);
    }
    if order == 1 {
        return float_with(f, call, trigamma);
    }
    float_with(f, call, |f, x| {
        // (−1)^(n+1) n! ζ(n + 1, x), with x brought above 1 by ζ(s, x) = x^(−s) + ζ(s, x + 1): the compiler's ζ is for positive x.
        let exponent = f.full_like(x, -(order + 1));
        let axes: Vec<usize> = (0..x.rank()).collect();
        let (zero, steps) = (f.full_like(x, 0i64), f.constant(DType::I32, &[], 0i64));
        let shifted = f.while_loop(
            &[x.clone(), zero, exponent, steps],
            |f, carried| {
                let below = f.compare_const(Comparison::Lt, &carried[0], 1i64)?;
                let any = f.reduce(&below, Monoid::Or, &axes)?;
                let more = f.compare_const(Comparison::Lt, &carried[3], MOST_STEPS)?;
                f.and(&any, &more)
            },
            |f, carried| {
                let below = f.compare_const(Comparison::Lt, &carried[0], 1i64)?;
                let term = f.binary(Binary::Power, &carried[0], &carried[2])?;
                let sum = f.add(&carried[1], &term)?;
                let next = f.binary_const(Binary::Add, &carried[0], 1i64)?;
                Ok(vec![
                    f.select(&below, &next, &carried[0])?,
                    f.select(&below, &sum, &carried[1])?,
                    carried[2].clone(),
                    f.binary_const(Binary::Add, &carried[3], 1i64)?,
                ])
            },
        )?;
        let order_value = f.full_like(x, order + 1);
        let rest = f.binary(Binary::Zeta, &order_value, &shifted[0])?;
        let zeta = f.add(&shifted[1], &rest)?;
        let factorial: f64 = (1..=order.min(200)).map(|factor| factor as f64).product();
        f.binary_const(
            Binary::Multiply,
            &zeta,
            if order % 2 == 1 { factorial } else { -factorial },
        )
    })
}

/// Arguments below minus this many are beyond the series: their values are of no use in float32 anyway.
const MOST_STEPS: i64 = 10_000;

/// ψ′ as ATen computes it: reflection below ½, six steps up, then the asymptotic series.
fn trigamma(f: &mut Func, x: &Value) -> Result<Value> {
    let one = f.full_like(x, 1i64);
    let reflect = f.compare_const(Comparison::Lt, x, 0.5f64)?;
    let mirrored = f.sub(&one, x)?;
    let mut x_up = f.select(&reflect, &mirrored, x)?;
    let angle = f.binary_const(Binary::Multiply, x, PI)?;
    let sine = f.unary(Unary::Sine, &angle)?;
    let square = f.mul(&sine, &sine)?;
    let pi_square = f.full_like(x, PI * PI);
    let reflection = f.div(&pi_square, &square)?;
    let mut sum = f.full_like(x, 0i64);
    for _ in 0..6 {
        let square = f.mul(&x_up, &x_up)?;
        let term = f.div(&one, &square)?;
        sum = f.add(&sum, &term)?;
        x_up = f.add(&x_up, &one)?;
    }
    let square = f.mul(&x_up, &x_up)?;
    let inverse = f.div(&one, &square)?;
    // 1 + 1/(2x) + (1/6 − (1/30 − 1/(42 x²))/x²)/x², over x
    let mut series = f.full_like(x, 1.0 / 42.0);
    for coefficient in [1.0 / 30.0, 1.0 / 6.0] {
        let scaled = f.mul(&inverse, &series)?;
        let coefficient = f.full_like(x, coefficient);
        series = f.sub(&coefficient, &scaled)?;
    }
    let series = f.mul(&inverse, &series)?;
    let doubled = f.binary_const(Binary::Multiply, &x_up, 2i64)?;
    let half = f.div(&one, &doubled)?;
    let series = f.add(&series, &half)?;
    let series = f.add(&series, &one)?;
    let tail = f.div(&series, &x_up)?;
    let sum = f.add(&sum, &tail)?;
    let below = f.sub(&reflection, &sum)?;
    f.select(&reflect, &below, &sum)
}

fn zeta(f: &mut Func, call: &Call) -> Result<Outputs> {
    pointwise(
        f,
        call,
        &[call.tensor("self")?, call.tensor("other")?],
        Promotion::IntToFloat,
        |f, x| f.binary(Binary::Zeta, &x[0], &x[1]),
    )
}

/// √2 · erf⁻¹(2p − 1).
fn ndtri(f: &mut Func, call: &Call) -> Result<Outputs> {
    float_with(f, call, |f, x| {
        let doubled = f.binary_const(Binary::Multiply, x, 2i64)?;
        let centred = f.binary_const(Binary::Subtract, &doubled, 1i64)?;
        let inverse = f.unary(Unary::ErfInv, &centred)?;
        f.binary_const(Binary::Multiply, &inverse, std::f64::consts::SQRT_2)
    })
}

/// log of the normal distribution function: by erfc, which keeps the lower tail while it is not subnormal.
fn log_ndtr(f: &mut Func, call: &Call) -> Result<Outputs> {
    float_with(f, call, |f, x| {
        let scaled = f.binary_const(Binary::Multiply, x, -std::f64::consts::FRAC_1_SQRT_2)?;
        let tail = f.unary(Unary::Erfc, &scaled)?;
        let half = f.binary_const(Binary::Multiply, &tail, 0.5f64)?;
        f.unary(Unary::Log, &half)
    })
}

/// −x · log x, 0 at 0, −inf below.
fn entr(f: &mut Func, call: &Call) -> Result<Outputs> {
    float_with(f, call, |f, x| {
        let log = f.unary(Unary::Log, x)?;
        let product = f.mul(x, &log)?;
        let value = f.neg(&product)?;
        let zero = f.full_like(x, 0i64);
        let is_zero = f.compare(Comparison::Eq, x, &zero)?;
        let value = f.select(&is_zero, &zero, &value)?;
        let below = f.compare(Comparison::Lt, x, &zero)?;
        let minus = f.full_like(x, f64::NEG_INFINITY);
        f.select(&below, &minus, &value)
    })
}

/// sin(πx) / (πx), 1 at 0.
fn sinc(f: &mut Func, call: &Call) -> Result<Outputs> {
    float_with(f, call, |f, x| {
        let scaled = f.binary_const(Binary::Multiply, x, PI)?;
        let sine = f.unary(Unary::Sine, &scaled)?;
        let ratio = f.div(&sine, &scaled)?;
        let is_zero = f.compare_const(Comparison::Eq, x, 0i64)?;
        let one = f.full_like(x, 1i64);
        f.select(&is_zero, &one, &ratio)
    })
}

/// log(x / (1 − x)) with x clamped to `eps..1 − eps` when given.
fn logit(f: &mut Func, call: &Call) -> Result<Outputs> {
    let eps = call.float_opt("eps")?;
    float_with(f, call, |f, x| {
        let x = match eps {
            Some(eps) if eps >= 0.0 => {
                let (low, high) = (f.constant(x.dtype(), &[], eps), f.constant(x.dtype(), &[], 1.0 - eps));
                f.clamp(&low, x, &high)?
            }
            _ => x.clone(),
        };
        let one = f.full_like(&x, 1i64);
        let rest = f.sub(&one, &x)?;
        let odds = f.div(&x, &rest)?;
        f.unary(Unary::Log, &odds)
    })
}

/// Complex in, real out.
fn abs(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let wide = f.convert(x, x.dtype().opmath())?;
    let result = f.unary(Unary::Abs, &wide)?;
    Ok(f.convert(&result, x.dtype().real())?.into())
}

fn neg(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    ensure(!x.dtype().is_bool(), || {
        Error::runtime(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.",
        )
    })?;
    Ok(f.neg(x)?.into())
}

fn sign(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    ensure(!x.dtype().is_complex(), || {
        Error::runtime(
            "Unlike NumPy, torch.sign doesn't support complex numbers. To compute the sign of a complex number, use torch.sgn() instead.",
        )
    })?;
    sign_of(f, x)
}

fn sgn(f: &mut Func, call: &Call) -> Result<Outputs> {
    sign_of(f, call.tensor("self")?)
}

fn sign_of(f: &mut Func, x: &Value) -> Result<Outputs> {
    if x.dtype().is_bool() {
        return Ok(x.clone().into());
    }
    if x.dtype().is_float() {
        // sign(NaN) is 0 in PyTorch
        let (above, below) = (
            f.compare_const(Comparison::Gt, x, 0i64)?,
            f.compare_const(Comparison::Lt, x, 0i64)?,
        );
        let (above, below) = (f.convert(&above, x.dtype())?, f.convert(&below, x.dtype())?);
        return Ok(f.sub(&above, &below)?.into());
    }
    Ok(f.unary(Unary::Sign, x)?.into())
}

fn signbit(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    ensure(!x.dtype().is_complex(), || {
        Error::runtime("signbit is not implemented for complex tensors.")
    })?;
    if x.dtype().is_bool() {
        return Ok(f.constant(DType::Bool, x.dims(), false).into());
    }
    Ok(sign_bit(f, x)?.into())
}

/// Half to even; `decimals` places.
fn round(f: &mut Func, call: &Call) -> Result<Outputs> {
    let decimals = call.int_opt("decimals")?.unwrap_or(0);
    rounding(f, call, |f, x| {
        if decimals == 0 {
            return f.unary(Unary::RoundNearestEven, x);
        }
        let scale = 10f64.powi(decimals.unsigned_abs().min(400) as i32);
        let (there, back) = if decimals > 0 {
            (Binary::Multiply, Binary::Divide)
        } else {
            (Binary::Divide, Binary::Multiply)
        };
        let scaled = f.binary_const(there, x, scale)?;
        let rounded = f.unary(Unary::RoundNearestEven, &scaled)?;
        f.binary_const(back, &rounded, scale)
    })
}

/// NaN → `nan` (0), ±infinity → `posinf`/`neginf` (the dtype's extremes).
fn nan_to_num(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    if !x.dtype().is_inexact() {
        return Ok(x.value.clone().into());
    }
    let part = x.dtype().real();
    let largest = match part {
        DType::F64 => f64::MAX,
        DType::F16 => 65504.0,
        DType::BF16 => half::bf16::MAX.to_f64(),
        _ => f32::MAX as f64,
    };
    let nan = call.float_opt("nan")?.unwrap_or(0.0);
    let high = call.float_opt("posinf")?.unwrap_or(largest);
    let low = call.float_opt("neginf")?.unwrap_or(-largest);
    let replace = |f: &mut Func, x: &Value| -> Result<Value> {
        let (nan, high, low) = (f.full_like(x, nan), f.full_like(x, high), f.full_like(x, low));
        let is_high = f.compare_const(Comparison::Eq, x, f64::INFINITY)?;
        let is_low = f.compare_const(Comparison::Eq, x, f64::NEG_INFINITY)?;
        let is_nan = f.is_nan(x)?;
        let result = f.select(&is_high, &high, x)?;
        let result = f.select(&is_low, &low, &result)?;
        f.select(&is_nan, &nan, &result)
    };
    if x.dtype().is_complex() {
        let (real, imaginary) = (f.real(x)?, f.imag(x)?);
        let (real, imaginary) = (replace(f, &real)?, replace(f, &imaginary)?);
        return Ok(f.complex(&real, &imaginary)?.into());
    }
    Ok(replace(f, x)?.into())
}

/// Mantissa in ±[0.5, 1) and int32 exponent; zeros, infinities and NaN have exponent 0.
fn frexp(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    ensure(x.dtype().is_float(), || {
        Error::runtime("torch.frexp() only supports floating-point dtypes")
    })?;
    // float64 holds every narrower float, subnormals too, as a normal number; its own subnormals are scaled up.
    let wide = f.convert(x, DType::F64)?;
    let magnitude = f.unary(Unary::Abs, &wide)?;
    let tiny = f.compare_const(Comparison::Lt, &magnitude, f64::MIN_POSITIVE)?;
    let scaled = f.binary_const(Binary::Multiply, &wide, (1u64 << 54) as f64)?;
    let normal = f.select(&tiny, &scaled, &wide)?;
    let bits = f.bitcast(&normal, DType::I64)?;
    let exponent = f.binary_const(Binary::ShiftRightLogical, &bits, 52i64)?;
    let exponent = f.binary_const(Binary::And, &exponent, 0x7ffi64)?;
    let exponent = f.binary_const(Binary::Subtract, &exponent, 1022i64)?;
    let shifted = f.binary_const(Binary::Subtract, &exponent, 54i64)?;
    let exponent = f.select(&tiny, &shifted, &exponent)?;
    let mantissa = f.binary_const(Binary::And, &bits, !(0x7ffi64 << 52))?;
    let mantissa = f.binary_const(Binary::Or, &mantissa, 1022i64 << 52)?;
    let mantissa = f.bitcast(&mantissa, DType::F64)?;
    let finite = f.is_finite(&wide)?;
    let nonzero = f.compare_const(Comparison::Ne, &wide, 0i64)?;
    let plain = f.and(&finite, &nonzero)?;
    let mantissa = f.select(&plain, &mantissa, &wide)?;
    let zero = f.full_like(&exponent, 0i64);
    let exponent = f.select(&plain, &exponent, &zero)?;
    Ok(Outputs::all([
        f.convert(&mantissa, x.dtype())?,
        f.convert(&exponent, DType::I32)?,
    ]))
}
