//! Arithmetic of two and more operands.

use super::call::{Call, Operand, Outputs};
use super::common::{Promotion, pointwise};
use super::table::OpDef;
use crate::dtype::DType;
use crate::error::{Error, Kind, Result, ensure};
use crate::stablehlo::{Binary, Comparison, Func, Monoid, Unary, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::elementwise("add", |f, call| add(f, call, "self", "other", false)),
    OpDef::elementwise("sub", |f, call| add(f, call, "self", "other", true)),
    OpDef::elementwise("rsub", |f, call| add(f, call, "other", "self", true)),
    OpDef::elementwise("mul", mul),
    OpDef::elementwise("div", div),
    OpDef::elementwise("floor_divide", |f, call| rounded_division(f, call, Rounding::Floor)),
    OpDef::elementwise("remainder", remainder),
    OpDef::elementwise("fmod", fmod),
    OpDef::elementwise("pow", pow).attributes(&["exponent"]),
    OpDef::elementwise("maximum", |f, call| extremum(f, call, Binary::Maximum)),
    OpDef::elementwise("minimum", |f, call| extremum(f, call, Binary::Minimum)),
    OpDef::elementwise("fmax", |f, call| number_extremum(f, call, Binary::Maximum)),
    OpDef::elementwise("fmin", |f, call| number_extremum(f, call, Binary::Minimum)),
    OpDef::elementwise("atan2", |f, call| {
        float_binary(f, call, |f, x| f.binary(Binary::Atan2, &x[0], &x[1]))
    }),
    OpDef::elementwise("hypot", |f, call| float_binary(f, call, hypot)),
    OpDef::elementwise("copysign", |f, call| float_binary(f, call, copysign)),
    OpDef::elementwise("nextafter", nextafter),
    OpDef::elementwise("logaddexp", |f, call| float_binary(f, call, logaddexp)),
    OpDef::elementwise("logaddexp2", |f, call| float_binary(f, call, logaddexp2)),
    OpDef::elementwise("xlogy", |f, call| {
        float_binary(f, call, |f, x| x_log_y(f, &x[0], &x[1], Unary::Log))
    }),
    OpDef::elementwise("special_xlog1py", |f, call| {
        float_binary(f, call, |f, x| x_log_y(f, &x[0], &x[1], Unary::Log1p))
    }),
    OpDef::elementwise("heaviside", heaviside),
    OpDef::elementwise("lerp", lerp),
    // A foreach overload with a CPU tensor of N numbers is PyTorch's to take apart.
    OpDef::elementwise("addcmul", |f, call| addc(f, call, Binary::Multiply)).except(&["Tensor", "Tensor_out"]),
    OpDef::elementwise("addcdiv", |f, call| addc(f, call, Binary::Divide)).except(&["Tensor", "Tensor_out"]),
    OpDef::elementwise("clamp", |f, call| clamp(f, call, "min", "max")),
    OpDef::elementwise("clamp_min", |f, call| clamp(f, call, "min", "")),
    OpDef::elementwise("clamp_max", |f, call| clamp(f, call, "", "max")),
    OpDef::elementwise("where", where_),
    OpDef::elementwise("masked_fill", masked_fill),
    OpDef::elementwise("copy", copy),
    OpDef::elementwise("gcd", gcd),
    OpDef::elementwise("lcm", lcm),
];

/// `self`, then `other`: a tensor or a number.
fn two<'a>(call: &'a Call) -> Result<[&'a Operand; 2]> {
    Ok([call.tensor("self")?, call.tensor("other")?])
}

fn float_binary(f: &mut Func, call: &Call, body: impl FnOnce(&mut Func, &[Value]) -> Result<Value>) -> Result<Outputs> {
    pointwise(f, call, &two(call)?, Promotion::IntToFloat, body)
}

/// `left ± alpha · right`. Bool tensors add by `or` and do not subtract, as in PyTorch.
fn add(f: &mut Func, call: &Call, left: &str, right: &str, subtract: bool) -> Result<Outputs> {
    let operands = [call.tensor(left)?, call.tensor(right)?];
    let alpha = call.tensor_opt("alpha");
    let dtype = call.result_type(&operands)?;
    if subtract {
        let bools = operands
            .iter()
            .filter(|operand| operand.dtype().is_bool() && operand.category != crate::promote::Category::Number)
            .count();
        ensure(bools == 0 || !dtype.is_bool(), || {
            Error::runtime(
                "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead.",
            )
        })?;
    }
    if let Some(alpha) = alpha {
        ensure(dtype.is_inexact() || !alpha.dtype().is_inexact(), || {
            Error::runtime("For integral input tensors, argument alpha must not be a floating point number.")
        })?;
        ensure(dtype.is_complex() || !alpha.dtype().is_complex(), || {
            Error::runtime("For non-complex input tensors, argument alpha must not be a complex number.")
        })?;
        ensure(dtype.is_bool() || !alpha.dtype().is_bool(), || {
            Error::runtime("Boolean alpha only supported for Boolean results.")
        })?;
    }
    pointwise(f, call, &operands, Promotion::Default, |f, x| {
        let right = match alpha {
            Some(alpha) => {
                let alpha = f.convert(alpha, x[1].dtype())?;
                let alpha = f.broadcast_to(&alpha, x[1].dims())?;
                if x[1].dtype().is_bool() {
                    f.and(&x[1], &alpha)?
                } else {
                    f.mul(&x[1], &alpha)?
                }
            }
            None => x[1].clone(),
        };
        match (x[0].dtype().is_bool(), subtract) {
            (true, false) => f.or(&x[0], &right),
            (true, true) => f.binary(Binary::Xor, &x[0], &right),
            (false, false) => f.add(&x[0], &right),
            (false, true) => f.sub(&x[0], &right),
        }
    })
}

fn mul(f: &mut Func, call: &Call) -> Result<Outputs> {
    pointwise(f, call, &two(call)?, Promotion::Default, |f, x| {
        if x[0].dtype().is_bool() {
            f.and(&x[0], &x[1])
        } else {
            f.mul(&x[0], &x[1])
        }
    })
}

#[derive(Clone, Copy)]
enum Rounding {
    Truncate,
    Floor,
}

fn div(f: &mut Func, call: &Call) -> Result<Outputs> {
    match call.text_opt("rounding_mode") {
        None => float_binary(f, call, |f, x| f.div(&x[0], &x[1])),
        Some("trunc") => rounded_division(f, call, Rounding::Truncate),
        Some("floor") => rounded_division(f, call, Rounding::Floor),
        Some(other) => Err(Error::runtime(format!(
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{other}'"
        ))),
    }
}

/// Raises when an integer divisor is zero, as the CPU does (asynchronously: where the host next waits).
fn check_divisor(f: &mut Func, divisor: &Value) -> Result<()> {
    let nonzero = f.compare_const(Comparison::Ne, divisor, 0i64)?;
    let axes: Vec<usize> = (0..nonzero.rank()).collect();
    let ok = f.reduce(&nonzero, Monoid::And, &axes)?;
    f.check(&ok, Kind::Runtime, "ZeroDivisionError")
}

/// A divisor that the program can divide by whatever it holds: zeros become ones.
fn safe_divisor(f: &mut Func, divisor: &Value) -> Result<Value> {
    check_divisor(f, divisor)?;
    let zero = f.compare_const(Comparison::Eq, divisor, 0i64)?;
    let one = f.full_like(divisor, 1i64);
    f.select(&zero, &one, divisor)
}

fn rounded_division(f: &mut Func, call: &Call, rounding: Rounding) -> Result<Outputs> {
    let operands = two(call)?;
    let dtype = call.result_type(&operands)?;
    ensure(!dtype.is_complex(), || {
        Error::not_implemented(format!("div with a rounding mode is not defined for {dtype}"))
    })?;
    ensure(!dtype.is_bool(), || {
        Error::not_implemented("\"div\" not implemented for 'Bool'")
    })?;
    pointwise(f, call, &operands, Promotion::Default, |f, x| {
        if !dtype.is_integer() {
            return match rounding {
                Rounding::Truncate => {
                    let quotient = f.div(&x[0], &x[1])?;
                    truncate(f, &quotient)
                }
                Rounding::Floor => float_floor_division(f, &x[0], &x[1]),
            };
        }
        let divisor = safe_divisor(f, &x[1])?;
        let quotient = f.div(&x[0], &divisor)?;
        match rounding {
            Rounding::Truncate => Ok(quotient),
            Rounding::Floor => {
                let remainder = f.binary(Binary::Remainder, &x[0], &divisor)?;
                let apart = signs_differ(f, &remainder, &divisor)?;
                let below = f.binary_const(Binary::Subtract, &quotient, 1i64)?;
                f.select(&apart, &below, &quotient)
            }
        }
    })
}

/// Whether a remainder is not zero and its sign is not the divisor's.
fn signs_differ(f: &mut Func, remainder: &Value, divisor: &Value) -> Result<Value> {
    let nonzero = f.compare_const(Comparison::Ne, remainder, 0i64)?;
    let left = f.compare_const(Comparison::Lt, remainder, 0i64)?;
    let right = f.compare_const(Comparison::Lt, divisor, 0i64)?;
    let differ = f.compare(Comparison::Ne, &left, &right)?;
    f.and(&nonzero, &differ)
}

/// Python's floor division as `c10::div_floor_floating` computes it: by way of the remainder, exact near integers.
fn float_floor_division(f: &mut Func, a: &Value, b: &Value) -> Result<Value> {
    let quotient = f.div(a, b)?;
    let remainder = f.binary(Binary::Remainder, a, b)?;
    let difference = f.sub(a, &remainder)?;
    let exact = f.div(&difference, b)?;
    let apart = signs_differ(f, &remainder, b)?;
    let below = f.binary_const(Binary::Subtract, &exact, 1i64)?;
    let exact = f.select(&apart, &below, &exact)?;
    let floor = f.unary(Unary::Floor, &exact)?;
    let gap = f.sub(&exact, &floor)?;
    let up = f.compare_const(Comparison::Gt, &gap, 0.5f64)?;
    let next = f.binary_const(Binary::Add, &floor, 1i64)?;
    let rounded = f.select(&up, &next, &floor)?;
    let zero_value = f.full_like(&quotient, 0i64);
    let signed_zero = copysign(f, &[zero_value, quotient.clone()])?;
    let is_zero = f.compare_const(Comparison::Eq, &exact, 0i64)?;
    let result = f.select(&is_zero, &signed_zero, &rounded)?;
    // Division by zero: the plain quotient (infinity or NaN).
    let by_zero = f.compare_const(Comparison::Eq, b, 0i64)?;
    f.select(&by_zero, &quotient, &result)
}

/// Towards zero.
pub(super) fn truncate(f: &mut Func, x: &Value) -> Result<Value> {
    let (floor, ceil) = (f.unary(Unary::Floor, x)?, f.unary(Unary::Ceil, x)?);
    let negative = f.compare_const(Comparison::Lt, x, 0i64)?;
    f.select(&negative, &ceil, &floor)
}

/// The remainder with the divisor's sign.
fn remainder(f: &mut Func, call: &Call) -> Result<Outputs> {
    pointwise(f, call, &two(call)?, Promotion::Default, |f, x| {
        let divisor = if x[1].dtype().is_integer() {
            safe_divisor(f, &x[1])?
        } else {
            x[1].clone()
        };
        let remainder = f.binary(Binary::Remainder, &x[0], &divisor)?;
        let apart = signs_differ(f, &remainder, &divisor)?;
        let moved = f.add(&remainder, &divisor)?;
        f.select(&apart, &moved, &remainder)
    })
}

/// The remainder with the dividend's sign.
fn fmod(f: &mut Func, call: &Call) -> Result<Outputs> {
    pointwise(f, call, &two(call)?, Promotion::Default, |f, x| {
        let divisor = if x[1].dtype().is_integer() {
            safe_divisor(f, &x[1])?
        } else {
            x[1].clone()
        };
        f.binary(Binary::Remainder, &x[0], &divisor)
    })
}

/// `self ^ exponent`. A number as exponent is an attribute, so that the usual ones become products and roots.
fn pow(f: &mut Func, call: &Call) -> Result<Outputs> {
    use crate::stablehlo::Literal;
    if let Ok(Some(exponent)) = call.scalar_opt("exponent") {
        let base = call.tensor("self")?;
        let value = match exponent {
            Literal::Bool(value) => f.constant(DType::Bool, &[], value),
            Literal::Int(value) => f.constant(DType::I64, &[], value),
            Literal::Float(value) => f.constant(DType::F64, &[], value),
            Literal::Complex(..) => f.constant(DType::C128, &[], exponent),
        };
        let number = Operand::number(value);
        let dtype = call.result_type(&[base, &number])?;
        if dtype.is_integer() {
            let negative = matches!(exponent, Literal::Int(value) if value < 0);
            ensure(!negative, || {
                Error::runtime("Integers to negative integer powers are not allowed.")
            })?;
        }
        let small = match exponent {
            Literal::Int(value) => Some(value as f64),
            Literal::Float(value) => Some(value),
            _ => None,
        };
        return pointwise(f, call, &[base, &number], Promotion::Default, |f, x| match small {
            Some(2.0) => f.mul(&x[0], &x[0]),
            Some(3.0) => {
                let square = f.mul(&x[0], &x[0])?;
                f.mul(&square, &x[0])
            }
            Some(1.0) => Ok(x[0].clone()),
            Some(0.0) => Ok(f.full_like(&x[0], 1i64)),
            Some(0.5) if dtype.is_inexact() => f.unary(Unary::Sqrt, &x[0]),
            Some(-0.5) if dtype.is_float() => f.unary(Unary::Rsqrt, &x[0]),
            Some(-1.0) if dtype.is_inexact() => {
                let one = f.full_like(&x[0], 1i64);
                f.div(&one, &x[0])
            }
            Some(-2.0) if dtype.is_float() => {
                let square = f.mul(&x[0], &x[0])?;
                let one = f.full_like(&square, 1i64);
                f.div(&one, &square)
            }
            _ => power(f, &x[0], &x[1]),
        });
    }
    let operands = [call.tensor("self")?, call.tensor("exponent")?];
    pointwise(f, call, &operands, Promotion::Default, |f, x| power(f, &x[0], &x[1]))
}

fn power(f: &mut Func, base: &Value, exponent: &Value) -> Result<Value> {
    if base.dtype().is_bool() {
        // 0^0 = 1: base or not exponent
        let not = f.not(exponent)?;
        return f.or(base, &not);
    }
    if base.dtype().is_integer() && !base.dtype().is_unsigned() {
        // A negative exponent gives 0, but for ±1 (as on the CPU): XLA's integer power does not define it.
        let negative = f.compare_const(Comparison::Lt, exponent, 0i64)?;
        let zero = f.full_like(exponent, 0i64);
        let usable = f.select(&negative, &zero, exponent)?;
        let power = f.binary(Binary::Power, base, &usable)?;
        let one = f.full_like(base, 1i64);
        let is_one = f.compare(Comparison::Eq, base, &one)?;
        let is_minus_one = f.compare_const(Comparison::Eq, base, -1i64)?;
        let odd = f.binary_const(Binary::And, exponent, 1i64)?;
        let odd = f.compare_const(Comparison::Ne, &odd, 0i64)?;
        let minus_one = f.full_like(base, -1i64);
        let alternating = f.select(&odd, &minus_one, &one)?;
        let inverse = f.select(&is_minus_one, &alternating, &zero)?;
        let inverse = f.select(&is_one, &one, &inverse)?;
        return f.select(&negative, &inverse, &power);
    }
    f.binary(Binary::Power, base, exponent)
}

/// NaN in either gives NaN.
fn extremum(f: &mut Func, call: &Call, op: Binary) -> Result<Outputs> {
    pointwise(f, call, &two(call)?, Promotion::Default, |f, x| {
        f.binary(op, &x[0], &x[1])
    })
}

/// NaN only where both are.
fn number_extremum(f: &mut Func, call: &Call, op: Binary) -> Result<Outputs> {
    pointwise(f, call, &two(call)?, Promotion::Default, |f, x| {
        let extremum = f.binary(op, &x[0], &x[1])?;
        let (left, right) = (f.is_nan(&x[0])?, f.is_nan(&x[1])?);
        let or_left = f.select(&right, &x[0], &extremum)?;
        f.select(&left, &x[1], &or_left)
    })
}

/// `max · sqrt(1 + (min / max)²)`: no overflow where the result has none.
fn hypot(f: &mut Func, x: &[Value]) -> Result<Value> {
    let (a, b) = (f.unary(Unary::Abs, &x[0])?, f.unary(Unary::Abs, &x[1])?);
    let (large, small) = (f.max(&a, &b)?, f.min(&a, &b)?);
    let zero = f.compare_const(Comparison::Eq, &large, 0i64)?;
    let one = f.full_like(&large, 1i64);
    let divisor = f.select(&zero, &one, &large)?;
    let ratio = f.div(&small, &divisor)?;
    let square = f.mul(&ratio, &ratio)?;
    let sum = f.add(&square, &one)?;
    let root = f.unary(Unary::Sqrt, &sum)?;
    let result = f.mul(&large, &root)?;
    let infinite = f.compare_const(Comparison::Eq, &large, f64::INFINITY)?;
    f.select(&infinite, &large, &result)
}

/// The first operand's magnitude with the second's sign bit.
pub(super) fn copysign(f: &mut Func, x: &[Value]) -> Result<Value> {
    let magnitude = f.unary(Unary::Abs, &x[0])?;
    let negative = sign_bit(f, &x[1])?;
    let minus = f.neg(&magnitude)?;
    f.select(&negative, &minus, &magnitude)
}

/// True where the sign bit is set, for -0 and NaN too.
pub(super) fn sign_bit(f: &mut Func, x: &Value) -> Result<Value> {
    let bits = match x.dtype() {
        DType::F64 => DType::I64,
        DType::F32 => DType::I32,
        DType::F16 | DType::BF16 => DType::I16,
        _ => return f.compare_const(Comparison::Lt, x, 0i64),
    };
    let bits = f.bitcast(x, bits)?;
    f.compare_const(Comparison::Lt, &bits, 0i64)
}

/// In the operands' own type: the neighbour depends on it.
fn nextafter(f: &mut Func, call: &Call) -> Result<Outputs> {
    let operands = two(call)?;
    let dtype = call.result_type(&operands)?;
    let values = super::common::broadcast_all(f, &[&operands[0].value, &operands[1].value], dtype)?;
    Ok(f.binary(Binary::NextAfter, &values[0], &values[1])?.into())
}

/// `log(eᵃ + eᵇ)` by `max + log1p(e^(min − max))`.
fn logaddexp(f: &mut Func, x: &[Value]) -> Result<Value> {
    log_add(f, x, 1.0)
}

fn logaddexp2(f: &mut Func, x: &[Value]) -> Result<Value> {
    log_add(f, x, std::f64::consts::LN_2)
}

/// In base `e^scale`.
fn log_add(f: &mut Func, x: &[Value], scale: f64) -> Result<Value> {
    let (large, small) = (f.max(&x[0], &x[1])?, f.min(&x[0], &x[1])?);
    let difference = f.sub(&small, &large)?;
    let scaled = f.binary_const(Binary::Multiply, &difference, scale)?;
    let power = f.unary(Unary::Exp, &scaled)?;
    let rest = f.unary(Unary::Log1p, &power)?;
    let rest = f.binary_const(Binary::Divide, &rest, scale)?;
    let sum = f.add(&large, &rest)?;
    // Equal infinities have no difference.
    let equal = f.compare(Comparison::Eq, &x[0], &x[1])?;
    let magnitude = f.unary(Unary::Abs, &large)?;
    let infinite = f.compare_const(Comparison::Eq, &magnitude, f64::INFINITY)?;
    let settled = f.and(&equal, &infinite)?;
    f.select(&settled, &large, &sum)
}

/// `x · log(y)`, 0 where x is 0 (unless y is NaN).
fn x_log_y(f: &mut Func, x: &Value, y: &Value, log: Unary) -> Result<Value> {
    let log = f.unary(log, y)?;
    let product = f.mul(x, &log)?;
    let is_zero = f.compare_const(Comparison::Eq, x, 0i64)?;
    let zero = f.full_like(x, 0i64);
    let result = f.select(&is_zero, &zero, &product)?;
    let nan = f.is_nan(y)?;
    f.select(&nan, y, &result)
}

/// 0, `values` or 1 where `self` is negative, zero or positive; NaN stays NaN.
fn heaviside(f: &mut Func, call: &Call) -> Result<Outputs> {
    pointwise(
        f,
        call,
        &[call.tensor("self")?, call.tensor("values")?],
        Promotion::Default,
        |f, operands| {
            let (x, values) = (&operands[0], &operands[1]);
            let (zero, one) = (f.full_like(x, 0i64), f.full_like(x, 1i64));
            let positive = f.compare(Comparison::Gt, x, &zero)?;
            let is_zero = f.compare(Comparison::Eq, x, &zero)?;
            let outside = f.select(&positive, &one, &zero)?;
            let result = f.select(&is_zero, values, &outside)?;
            let nan = f.is_nan(x)?;
            f.select(&nan, x, &result)
        },
    )
}

/// `start + weight · (end − start)`, from the nearer end, as ATen's `lerp`.
fn lerp(f: &mut Func, call: &Call) -> Result<Outputs> {
    let operands = [call.tensor("self")?, call.tensor("end")?, call.tensor("weight")?];
    pointwise(f, call, &operands, Promotion::Default, |f, x| {
        let (start, end, weight) = (&x[0], &x[1], &x[2]);
        let span = f.sub(end, start)?;
        let step = f.mul(weight, &span)?;
        let from_start = f.add(start, &step)?;
        if weight.dtype().is_complex() {
            return Ok(from_start);
        }
        let rest = f.binary_const(Binary::Subtract, weight, 1i64)?;
        let back = f.mul(&rest, &span)?;
        let from_end = f.add(end, &back)?;
        let magnitude = f.unary(Unary::Abs, weight)?;
        let near = f.compare_const(Comparison::Lt, &magnitude, 0.5f64)?;
        f.select(&near, &from_start, &from_end)
    })
}

/// `self + value · (tensor1 op tensor2)`.
fn addc(f: &mut Func, call: &Call, op: Binary) -> Result<Outputs> {
    let operands = [call.tensor("self")?, call.tensor("tensor1")?, call.tensor("tensor2")?];
    let value = call.tensor_opt("value");
    ensure(
        op != Binary::Divide || call.result_type(&operands[1..])?.is_inexact(),
        || {
            Error::runtime(
                "Integer division with addcdiv is no longer supported, and in a future release addcdiv will perform a true division of tensor1 and tensor2.",
            )
        },
    )?;
    pointwise(f, call, &operands, Promotion::Default, |f, x| {
        let (left, right) = (&x[1], &x[2]);
        let scaled = match value {
            Some(value) => {
                let value = f.convert(value, left.dtype())?;
                let value = f.broadcast_to(&value, left.dims())?;
                f.mul(&value, left)?
            }
            None => left.clone(),
        };
        let term = f.binary(op, &scaled, right)?;
        f.add(&x[0], &term)
    })
}

/// Bounds may be numbers or tensors, either may be absent; NaN bounds and values give NaN.
fn clamp(f: &mut Func, call: &Call, low: &str, high: &str) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let (low, high) = (call.tensor_opt(low), call.tensor_opt(high));
    ensure(low.is_some() || high.is_some(), || {
        Error::runtime("torch.clamp: At least one of 'min' or 'max' must not be None")
    })?;
    let operands: Vec<&Operand> = [Some(x), low, high].into_iter().flatten().collect();
    ensure(operands.iter().all(|operand| !operand.dtype().is_complex()), || {
        Error::runtime("clamp is not supported for complex types")
    })?;
    pointwise(f, call, &operands, Promotion::Default, |f, values| {
        let mut result = values[0].clone();
        let mut bounds = values[1..].iter();
        if low.is_some()
            && let Some(bound) = bounds.next()
        {
            result = f.max(&result, bound)?;
        }
        if high.is_some()
            && let Some(bound) = bounds.next()
        {
            result = f.min(&result, bound)?;
        }
        Ok(result)
    })
}

fn where_(f: &mut Func, call: &Call) -> Result<Outputs> {
    let condition = call.tensor("condition")?;
    ensure(matches!(condition.dtype(), DType::Bool | DType::U8), || {
        Error::runtime(format!(
            "where expected condition to be a boolean tensor, but got a tensor with dtype {}",
            condition.dtype().name()
        ))
    })?;
    let operands = two(call)?;
    let dtype = call.result_type(&operands)?;
    let (left, right) = (f.convert(operands[0], dtype)?, f.convert(operands[1], dtype)?);
    let condition = f.convert(condition, DType::Bool)?;
    let (left, right) = f.broadcast_pair(&left, &right)?;
    let (condition, left) = f.broadcast_pair(&condition, &left)?;
    let right = f.broadcast_to(&right, left.dims())?;
    Ok(f.select(&condition, &left, &right)?.into())
}

/// `value` (0-d) where `mask`, in `self`'s dtype.
fn masked_fill(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (x, mask, value) = (call.tensor("self")?, call.tensor("mask")?, call.tensor("value")?);
    ensure(mask.dtype().is_bool(), || {
        Error::runtime(format!(
            "masked_fill only supports boolean masks, but got mask with dtype {}",
            mask.dtype().name()
        ))
    })?;
    ensure(value.rank() == 0, || {
        Error::runtime(format!(
            "masked_fill only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
            value.rank()
        ))
    })?;
    ensure(
        crate::promote::can_cast(value.dtype(), x.dtype())
            || value.category == crate::promote::Category::Number && !value.dtype().is_complex(),
        || {
            Error::runtime(format!(
                "value cannot be converted to type {} without overflow",
                x.dtype().name()
            ))
        },
    )?;
    let value = f.convert(value, x.dtype())?;
    let (mask, x) = f.broadcast_pair(mask, x)?;
    let value = f.broadcast_to(&value, x.dims())?;
    Ok(f.select(&mask, &value, &x)?.into())
}

/// `src` as `self` has it: dtype and dims.
fn copy(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (target, source) = (call.tensor("self")?, call.tensor("src")?);
    let converted = f.convert(source, target.dtype())?;
    ensure(
        crate::shape::broadcast(converted.dims(), target.dims()).is_ok_and(|dims| dims.as_slice() == target.dims()),
        || {
            Error::runtime(format!(
                "The expanded size of the tensor {:?} must match the existing size {:?} at every non-singleton dimension",
                target.dims(),
                converted.dims()
            ))
        },
    )?;
    Ok(f.broadcast_to(&converted, target.dims())?.into())
}

/// Euclid's algorithm on all elements at once, until every remainder is zero.
fn greatest_divisor(f: &mut Func, a: &Value, b: &Value) -> Result<Value> {
    let (a, b) = (f.unary(Unary::Abs, a)?, f.unary(Unary::Abs, b)?);
    let axes: Vec<usize> = (0..a.rank()).collect();
    let results = f.while_loop(
        &[a, b],
        |f, carried| {
            let nonzero = f.compare_const(Comparison::Ne, &carried[1], 0i64)?;
            f.reduce(&nonzero, Monoid::Or, &axes)
        },
        |f, carried| {
            let done = f.compare_const(Comparison::Eq, &carried[1], 0i64)?;
            let one = f.full_like(&carried[1], 1i64);
            let divisor = f.select(&done, &one, &carried[1])?;
            let remainder = f.binary(Binary::Remainder, &carried[0], &divisor)?;
            let next = f.select(&done, &carried[0], &carried[1])?;
            let zero = f.full_like(&carried[1], 0i64);
            let rest = f.select(&done, &zero, &remainder)?;
            Ok(vec![next, rest])
        },
    )?;
    Ok(results[0].clone())
}

fn gcd(f: &mut Func, call: &Call) -> Result<Outputs> {
    pointwise(f, call, &two(call)?, Promotion::Default, |f, x| {
        greatest_divisor(f, &x[0], &x[1])
    })
}

fn lcm(f: &mut Func, call: &Call) -> Result<Outputs> {
    pointwise(f, call, &two(call)?, Promotion::Default, |f, x| {
        let divisor = greatest_divisor(f, &x[0], &x[1])?;
        let zero = f.compare_const(Comparison::Eq, &divisor, 0i64)?;
        let one = f.full_like(&divisor, 1i64);
        let divisor = f.select(&zero, &one, &divisor)?;
        let part = f.div(&x[0], &divisor)?;
        let product = f.mul(&part, &x[1])?;
        f.unary(Unary::Abs, &product)
    })
}
