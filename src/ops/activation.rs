//! Activations and their gradients.

use super::call::{Call, Outputs};
use super::common::{Promotion, pointwise};
use super::table::OpDef;
use crate::error::{Error, Result, ensure};
use crate::stablehlo::{Binary, Comparison, Func, Unary, Value};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};

pub(super) const OPS: &[OpDef] = &[
    OpDef::elementwise("relu", relu),
    OpDef::elementwise("threshold", threshold),
    OpDef::elementwise("threshold_backward", threshold_backward),
    OpDef::elementwise("gelu", gelu),
    OpDef::elementwise("gelu_backward", gelu_backward),
    OpDef::elementwise("silu", |f, call| {
        unary(f, call, |f, x| {
            let gate = f.unary(Unary::Logistic, x)?;
            f.mul(x, &gate)
        })
    }),
    OpDef::elementwise("silu_backward", silu_backward),
    OpDef::elementwise("mish", |f, call| {
        unary(f, call, |f, x| {
            let soft = softplus_of(f, x)?;
            let gate = f.unary(Unary::Tanh, &soft)?;
            f.mul(x, &gate)
        })
    }),
    OpDef::elementwise("mish_backward", mish_backward),
    OpDef::elementwise("elu", elu),
    OpDef::elementwise("elu_backward", elu_backward),
    OpDef::elementwise("leaky_relu", leaky_relu),
    OpDef::elementwise("leaky_relu_backward", leaky_relu_backward),
    OpDef::elementwise("hardtanh", hardtanh),
    OpDef::elementwise("hardtanh_backward", hardtanh_backward),
    OpDef::elementwise("hardswish", |f, call| {
        unary(f, call, |f, x| {
            let gate = hard_gate(f, x)?;
            f.mul(x, &gate)
        })
    }),
    OpDef::elementwise("hardswish_backward", hardswish_backward),
    OpDef::elementwise("hardsigmoid", |f, call| unary(f, call, hard_gate)),
    OpDef::elementwise("hardsigmoid_backward", hardsigmoid_backward),
    OpDef::elementwise("softplus", softplus),
    OpDef::elementwise("softplus_backward", softplus_backward),
    OpDef::elementwise("softshrink", |f, call| shrink(f, call, true)),
    OpDef::elementwise("softshrink_backward", |f, call| shrink_backward(f, call, "grad_output")),
    OpDef::elementwise("hardshrink", |f, call| shrink(f, call, false)),
    OpDef::elementwise("hardshrink_backward", |f, call| shrink_backward(f, call, "grad_out")),
    OpDef::elementwise("log_sigmoid_forward", log_sigmoid_forward),
    OpDef::elementwise("log_sigmoid_backward", log_sigmoid_backward),
    OpDef::elementwise("sigmoid_backward", |f, call| {
        from_output(f, call, |f, y| {
            let one = f.full_like(y, 1i64);
            let rest = f.sub(&one, y)?;
            f.mul(y, &rest)
        })
    }),
    OpDef::elementwise("tanh_backward", |f, call| {
        from_output(f, call, |f, y| {
            let square = f.mul(y, y)?;
            let one = f.full_like(y, 1i64);
            f.sub(&one, &square)
        })
    }),
    OpDef::elementwise("logit_backward", logit_backward),
    OpDef::new("glu", glu),
    OpDef::new("glu_backward", glu_backward),
    OpDef::elementwise("_prelu_kernel", prelu),
    OpDef::elementwise("_prelu_kernel_backward", prelu_backward),
    OpDef::new("rrelu_with_noise", rrelu_with_noise)
        .random()
        .writes(&["noise"]),
    OpDef::elementwise("rrelu_with_noise_backward", rrelu_with_noise_backward),
];

fn unary(f: &mut Func, call: &Call, body: impl FnOnce(&mut Func, &Value) -> Result<Value>) -> Result<Outputs> {
    let x = call.tensor("self")?;
    ensure(x.dtype().is_inexact(), || {
        Error::not_implemented(format!("this activation is not implemented for {}", x.dtype()))
    })?;
    pointwise(f, call, &[x], Promotion::Default, |f, x| body(f, &x[0]))
}

/// `gradient · body(x)`; `body` is the activation's derivative.
fn gradient(
    f: &mut Func,
    call: &Call,
    gradient: &str,
    input: &str,
    body: impl FnOnce(&mut Func, &Value) -> Result<Value>,
) -> Result<Outputs> {
    pointwise(
        f,
        call,
        &[call.tensor(gradient)?, call.tensor(input)?],
        Promotion::Default,
        |f, x| {
            let derivative = body(f, &x[1])?;
            f.mul(&x[0], &derivative)
        },
    )
}

fn from_output(f: &mut Func, call: &Call, body: impl FnOnce(&mut Func, &Value) -> Result<Value>) -> Result<Outputs> {
    pointwise(
        f,
        call,
        &[call.tensor("grad_output")?, call.tensor("output")?],
        Promotion::Default,
        |f, x| {
            let derivative = body(f, &x[1])?;
            if derivative.dtype().is_complex() {
                let (real, imaginary) = (f.real(&derivative)?, f.imag(&derivative)?);
                let imaginary = f.neg(&imaginary)?;
                let conjugate = f.complex(&real, &imaginary)?;
                return f.mul(&x[0], &conjugate);
            }
            f.mul(&x[0], &derivative)
        },
    )
}

/// An operand number in the dtype and dims of `x`; `default` when the overload lacks it.
fn number(f: &mut Func, call: &Call, name: &str, x: &Value, default: f64) -> Result<Value> {
    match call.tensor_opt(name) {
        None => Ok(f.full_like(x, default)),
        Some(number) => {
            let number = f.convert(number, x.dtype())?;
            f.broadcast_to(&number, x.dims())
        }
    }
}

/// `max(x, 0)`; NaN stays.
fn relu(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    ensure(!x.dtype().is_bool(), || {
        Error::runtime("Boolean inputs not supported for relu")
    })?;
    ensure(!x.dtype().is_complex(), || {
        Error::runtime("relu is not defined for complex tensors")
    })?;
    Ok(f.binary_const(Binary::Maximum, x, 0i64)?.into())
}

fn threshold(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let (limit, value) = (number(f, call, "threshold", x, 0.0)?, number(f, call, "value", x, 0.0)?);
    let below = f.compare(Comparison::Le, x, &limit)?;
    Ok(f.select(&below, &value, x)?.into())
}

/// The gradient where `self > threshold`, else 0.
fn threshold_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    pointwise(
        f,
        call,
        &[call.tensor("grad_output")?, call.tensor("self")?],
        Promotion::Default,
        |f, x| {
            let limit = number(f, call, "threshold", &x[1], 0.0)?;
            let below = f.compare(Comparison::Le, &x[1], &limit)?;
            let zero = f.full_like(&x[0], 0i64);
            f.select(&below, &zero, &x[0])
        },
    )
}

fn is_tanh(call: &Call) -> Result<bool> {
    match call.text_opt("approximate").unwrap_or("none") {
        "none" => Ok(false),
        "tanh" => Ok(true),
        other => Err(Error::runtime(format!(
            "approximate argument must be either none or tanh, got {other}"
        ))),
    }
}

/// √(2/π), and the cubic term's factor of the tanh form (Hendrycks and Gimpel 2016).
const TANH_SCALE: f64 = SQRT_2 * FRAC_2_SQRT_PI * 0.5;
const TANH_CUBIC: f64 = 0.044715;

/// `tanh(√(2/π) (x + 0.044715 x³))`
fn tanh_inner(f: &mut Func, x: &Value) -> Result<Value> {
    let square = f.mul(x, x)?;
    let cubic = f.binary_const(Binary::Multiply, &square, TANH_CUBIC)?;
    let factor = f.binary_const(Binary::Add, &cubic, 1i64)?;
    let inner = f.mul(x, &factor)?;
    let inner = f.binary_const(Binary::Multiply, &inner, TANH_SCALE)?;
    f.unary(Unary::Tanh, &inner)
}

fn gelu(f: &mut Func, call: &Call) -> Result<Outputs> {
    let tanh = is_tanh(call)?;
    unary(f, call, |f, x| {
        let bend = if tanh {
            tanh_inner(f, x)?
        } else {
            let scaled = f.binary_const(Binary::Multiply, x, FRAC_1_SQRT_2)?;
            f.unary(Unary::Erf, &scaled)?
        };
        let lifted = f.binary_const(Binary::Add, &bend, 1i64)?;
        let half = f.binary_const(Binary::Multiply, x, 0.5f64)?;
        f.mul(&half, &lifted)
    })
}

fn gelu_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    let tanh = is_tanh(call)?;
    gradient(f, call, "grad_output", "self", |f, x| {
        let square = f.mul(x, x)?;
        if tanh {
            // ½(1+t) + ½x(1−t²)·√(2/π)(1 + 3·0.044715 x²)
            let bend = tanh_inner(f, x)?;
            let left = f.binary_const(Binary::Add, &bend, 1i64)?;
            let bend_square = f.mul(&bend, &bend)?;
            let one = f.full_like(x, 1i64);
            let slope = f.sub(&one, &bend_square)?;
            let inner = f.binary_const(Binary::Multiply, &square, 3.0 * TANH_CUBIC)?;
            let inner = f.binary_const(Binary::Add, &inner, 1i64)?;
            let inner = f.binary_const(Binary::Multiply, &inner, TANH_SCALE)?;
            let right = f.mul(x, &slope)?;
            let right = f.mul(&right, &inner)?;
            let sum = f.add(&left, &right)?;
            return f.binary_const(Binary::Multiply, &sum, 0.5f64);
        }
        // Φ(x) + x φ(x)
        let scaled = f.binary_const(Binary::Multiply, x, FRAC_1_SQRT_2)?;
        let bend = f.unary(Unary::Erf, &scaled)?;
        let lifted = f.binary_const(Binary::Add, &bend, 1i64)?;
        let distribution = f.binary_const(Binary::Multiply, &lifted, 0.5f64)?;
        let exponent = f.binary_const(Binary::Multiply, &square, -0.5f64)?;
        let bell = f.unary(Unary::Exp, &exponent)?;
        let density = f.binary_const(Binary::Multiply, &bell, FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * 0.5)?;
        let rest = f.mul(x, &density)?;
        f.add(&distribution, &rest)
    })
}

/// σ(x)·(1 + x(1 − σ(x)))
fn silu_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    gradient(f, call, "grad_output", "self", |f, x| {
        let gate = f.unary(Unary::Logistic, x)?;
        let one = f.full_like(x, 1i64);
        let rest = f.sub(&one, &gate)?;
        let inner = f.mul(x, &rest)?;
        let inner = f.add(&one, &inner)?;
        f.mul(&gate, &inner)
    })
}

/// `log(1 + eˣ)` without overflow.
fn softplus_of(f: &mut Func, x: &Value) -> Result<Value> {
    let magnitude = f.unary(Unary::Abs, x)?;
    let negative = f.neg(&magnitude)?;
    let small = f.unary(Unary::Exp, &negative)?;
    let log = f.unary(Unary::Log1p, &small)?;
    let positive = f.binary_const(Binary::Maximum, x, 0i64)?;
    f.add(&positive, &log)
}

fn mish_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    gradient(f, call, "grad_output", "self", |f, x| {
        let soft = softplus_of(f, x)?;
        let bend = f.unary(Unary::Tanh, &soft)?;
        let gate = f.unary(Unary::Logistic, x)?;
        let square = f.mul(&bend, &bend)?;
        let one = f.full_like(x, 1i64);
        let slope = f.sub(&one, &square)?;
        let inner = f.mul(x, &gate)?;
        let inner = f.mul(&inner, &slope)?;
        f.add(&bend, &inner)
    })
}

/// `scale·x` above 0, `scale·alpha·(e^(input_scale·x) − 1)` below.
fn elu(f: &mut Func, call: &Call) -> Result<Outputs> {
    unary(f, call, |f, x| {
        let (alpha, scale) = (number(f, call, "alpha", x, 1.0)?, number(f, call, "scale", x, 1.0)?);
        let input_scale = number(f, call, "input_scale", x, 1.0)?;
        let scaled = f.mul(x, &input_scale)?;
        let curve = f.unary(Unary::Expm1, &scaled)?;
        let curve = f.mul(&alpha, &curve)?;
        let positive = f.compare_const(Comparison::Gt, x, 0i64)?;
        let result = f.select(&positive, x, &curve)?;
        f.mul(&scale, &result)
    })
}

fn elu_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    let from_result = call.flag("is_result")?;
    gradient(f, call, "grad_output", "self_or_result", |f, x| {
        let (alpha, scale) = (number(f, call, "alpha", x, 1.0)?, number(f, call, "scale", x, 1.0)?);
        let input_scale = number(f, call, "input_scale", x, 1.0)?;
        let below = if from_result {
            let negative = f.mul(&alpha, &scale)?;
            let sum = f.add(x, &negative)?;
            f.mul(&input_scale, &sum)?
        } else {
            let scaled = f.mul(x, &input_scale)?;
            let curve = f.unary(Unary::Exp, &scaled)?;
            let factor = f.mul(&input_scale, &alpha)?;
            let factor = f.mul(&factor, &scale)?;
            f.mul(&factor, &curve)?
        };
        let positive = f.compare_const(Comparison::Gt, x, 0i64)?;
        f.select(&positive, &scale, &below)
    })
}

fn leaky_relu(f: &mut Func, call: &Call) -> Result<Outputs> {
    unary(f, call, |f, x| {
        let slope = number(f, call, "negative_slope", x, 0.01)?;
        let below = f.mul(x, &slope)?;
        let positive = f.compare_const(Comparison::Gt, x, 0i64)?;
        f.select(&positive, x, &below)
    })
}

fn leaky_relu_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    gradient(f, call, "grad_output", "self", |f, x| {
        let slope = number(f, call, "negative_slope", x, 0.01)?;
        let one = f.full_like(x, 1i64);
        let positive = f.compare_const(Comparison::Gt, x, 0i64)?;
        f.select(&positive, &one, &slope)
    })
}

fn hardtanh(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    ensure(!x.dtype().is_bool(), || {
        Error::runtime("Bool inputs not supported for hardtanh")
    })?;
    let (low, high) = (
        number(f, call, "min_val", x, -1.0)?,
        number(f, call, "max_val", x, 1.0)?,
    );
    Ok(f.clamp(&low, x, &high)?.into())
}

fn hardtanh_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    gradient(f, call, "grad_output", "self", |f, x| {
        let (low, high) = (
            number(f, call, "min_val", x, -1.0)?,
            number(f, call, "max_val", x, 1.0)?,
        );
        let (above, below) = (
            f.compare(Comparison::Gt, x, &low)?,
            f.compare(Comparison::Lt, x, &high)?,
        );
        let inside = f.and(&above, &below)?;
        f.convert(&inside, x.dtype())
    })
}

/// `clamp(x + 3, 0, 6) / 6`
fn hard_gate(f: &mut Func, x: &Value) -> Result<Value> {
    let shifted = f.binary_const(Binary::Add, x, 3i64)?;
    let (low, high) = (f.constant(x.dtype(), &[], 0i64), f.constant(x.dtype(), &[], 6i64));
    let clamped = f.clamp(&low, &shifted, &high)?;
    f.binary_const(Binary::Divide, &clamped, 6i64)
}

/// 0 below −3, 1 above 3, x/3 + ½ between.
fn hardswish_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    gradient(f, call, "grad_output", "self", |f, x| {
        let third = f.binary_const(Binary::Divide, x, 3i64)?;
        let slope = f.binary_const(Binary::Add, &third, 0.5f64)?;
        let (zero, one) = (f.full_like(x, 0i64), f.full_like(x, 1i64));
        let low = f.compare_const(Comparison::Le, x, -3i64)?;
        let high = f.compare_const(Comparison::Ge, x, 3i64)?;
        let result = f.select(&high, &one, &slope)?;
        f.select(&low, &zero, &result)
    })
}

fn hardsigmoid_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    gradient(f, call, "grad_output", "self", |f, x| {
        let (above, below) = (
            f.compare_const(Comparison::Gt, x, -3i64)?,
            f.compare_const(Comparison::Lt, x, 3i64)?,
        );
        let inside = f.and(&above, &below)?;
        let (zero, slope) = (f.full_like(x, 0i64), f.full_like(x, 1.0 / 6.0));
        f.select(&inside, &slope, &zero)
    })
}

/// `log(1 + e^(βx)) / β`, x itself where βx > threshold.
fn softplus(f: &mut Func, call: &Call) -> Result<Outputs> {
    unary(f, call, |f, x| {
        let (beta, limit) = (number(f, call, "beta", x, 1.0)?, number(f, call, "threshold", x, 20.0)?);
        let scaled = f.mul(x, &beta)?;
        let soft = softplus_of(f, &scaled)?;
        let soft = f.div(&soft, &beta)?;
        let beyond = f.compare(Comparison::Gt, &scaled, &limit)?;
        f.select(&beyond, x, &soft)
    })
}

fn softplus_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    gradient(f, call, "grad_output", "self", |f, x| {
        let (beta, limit) = (number(f, call, "beta", x, 1.0)?, number(f, call, "threshold", x, 20.0)?);
        let scaled = f.mul(x, &beta)?;
        let gate = f.unary(Unary::Logistic, &scaled)?;
        let beyond = f.compare(Comparison::Gt, &scaled, &limit)?;
        let one = f.full_like(x, 1i64);
        f.select(&beyond, &one, &gate)
    })
}

/// Zero in ±lambd; soft: the rest moves towards zero by lambd.
fn shrink(f: &mut Func, call: &Call, soft: bool) -> Result<Outputs> {
    unary(f, call, |f, x| {
        let limit = number(f, call, "lambd", x, 0.5)?;
        let negative_limit = f.neg(&limit)?;
        let (above, below) = (
            f.compare(Comparison::Gt, x, &limit)?,
            f.compare(Comparison::Lt, x, &negative_limit)?,
        );
        let (high, low) = if soft {
            (f.sub(x, &limit)?, f.add(x, &limit)?)
        } else {
            (x.clone(), x.clone())
        };
        let zero = f.full_like(x, 0i64);
        let result = f.select(&below, &low, &zero)?;
        let result = f.select(&above, &high, &result)?;
        let nan = f.is_nan(x)?;
        f.select(&nan, x, &result)
    })
}

fn shrink_backward(f: &mut Func, call: &Call, name: &str) -> Result<Outputs> {
    pointwise(
        f,
        call,
        &[call.tensor(name)?, call.tensor("self")?],
        Promotion::Default,
        |f, x| {
            let limit = number(f, call, "lambd", &x[1], 0.5)?;
            let magnitude = f.unary(Unary::Abs, &x[1])?;
            let inside = f.compare(Comparison::Le, &magnitude, &limit)?;
            let zero = f.full_like(&x[0], 0i64);
            f.select(&inside, &zero, &x[0])
        },
    )
}

/// Second result: `e^(−|x|)`, which the CPU's gradient reads.
fn log_sigmoid_forward(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let wide = f.convert(x, x.dtype().opmath())?;
    let negative = f.neg(&wide)?;
    let soft = softplus_of(f, &negative)?;
    let result = f.neg(&soft)?;
    let magnitude = f.unary(Unary::Abs, &wide)?;
    let magnitude = f.neg(&magnitude)?;
    let buffer = f.unary(Unary::Exp, &magnitude)?;
    Ok(Outputs::all([
        f.convert(&result, x.dtype())?,
        f.convert(&buffer, x.dtype())?,
    ]))
}

/// σ(−x)
fn log_sigmoid_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    gradient(f, call, "grad_output", "self", |f, x| {
        let negative = f.neg(x)?;
        f.unary(Unary::Logistic, &negative)
    })
}

/// 1 / (x (1 − x)); outside of eps..1 − eps: 0, or NaN without eps.
fn logit_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    let eps = call.float_opt("eps")?.filter(|&eps| eps >= 0.0);
    pointwise(
        f,
        call,
        &[call.tensor("grad_output")?, call.tensor("self")?],
        Promotion::Default,
        |f, x| {
            let one = f.full_like(&x[1], 1i64);
            let rest = f.sub(&one, &x[1])?;
            let product = f.mul(&x[1], &rest)?;
            let result = f.div(&x[0], &product)?;
            let low = f.compare_const(Comparison::Lt, &x[1], eps.unwrap_or(0.0))?;
            let high = f.compare_const(Comparison::Gt, &x[1], 1.0 - eps.unwrap_or(0.0))?;
            let outside = f.or(&low, &high)?;
            let other = f.full_like(&x[0], if eps.is_some() { 0.0 } else { f64::NAN });
            f.select(&outside, &other, &result)
        },
    )
}

/// The halves of `x` along an axis.
fn halves(f: &mut Func, x: &Value, axis: usize) -> Result<(Value, Value)> {
    let size = x.dims().get(axis).copied().unwrap_or(1);
    ensure(x.rank() > 0 && size % 2 == 0, || {
        Error::runtime(format!(
            "Halving dimension must be even, but dimension {axis} is size {size}"
        ))
    })?;
    Ok((
        f.slice_axis(x, axis, 0, size / 2)?,
        f.slice_axis(x, axis, size / 2, size)?,
    ))
}

/// `[…, 2n, …] → […, n, …]`: first half · σ(second half).
fn glu(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let axis = call.axis("dim", x.rank())?;
    let wide = f.convert(x, x.dtype().opmath())?;
    let (value, gate) = halves(f, &wide, axis)?;
    let gate = f.unary(Unary::Logistic, &gate)?;
    let result = f.mul(&value, &gate)?;
    Ok(f.convert(&result, x.dtype())?.into())
}

fn glu_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (gradient, x) = (call.tensor("grad_output")?, call.tensor("self")?);
    let axis = call.axis("dim", x.rank())?;
    let (wide, gradient) = (
        f.convert(x, x.dtype().opmath())?,
        f.convert(gradient, x.dtype().opmath())?,
    );
    let (value, gate) = halves(f, &wide, axis)?;
    let gate = f.unary(Unary::Logistic, &gate)?;
    let first = f.mul(&gradient, &gate)?;
    let one = f.full_like(&gate, 1i64);
    let rest = f.sub(&one, &gate)?;
    let second = f.mul(&first, &rest)?;
    let second = f.mul(&second, &value)?;
    let result = f.concatenate(&[first, second], axis)?;
    Ok(f.convert(&result, x.dtype())?.into())
}

fn prelu(f: &mut Func, call: &Call) -> Result<Outputs> {
    pointwise(
        f,
        call,
        &[call.tensor("self")?, call.tensor("weight")?],
        Promotion::Default,
        |f, x| {
            let below = f.mul(&x[0], &x[1])?;
            let positive = f.compare_const(Comparison::Gt, &x[0], 0i64)?;
            f.select(&positive, &x[0], &below)
        },
    )
}

/// Gradients of `self` and (unreduced) of `weight`.
fn prelu_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (gradient, x, weight) = (
        call.tensor("grad_output")?,
        call.tensor("self")?,
        call.tensor("weight")?,
    );
    let values = super::common::broadcast_all(f, &[&gradient.value, &x.value, &weight.value], x.dtype().opmath())?;
    let [gradient, wide, weight] = values.as_slice() else {
        return Err(Error::runtime("three operands expected"));
    };
    let positive = f.compare_const(Comparison::Gt, wide, 0i64)?;
    let scaled = f.mul(gradient, weight)?;
    let input = f.select(&positive, gradient, &scaled)?;
    let slope = f.mul(gradient, wide)?;
    let zero = f.full_like(&slope, 0i64);
    let slope = f.select(&positive, &zero, &slope)?;
    Ok(Outputs::all([
        f.convert(&input, x.dtype())?,
        f.convert(&slope, x.dtype())?,
    ]))
}

/// Training draws each negative element's slope from lower..upper and leaves it in `noise` (1 elsewhere); evaluation uses the mean slope.
fn rrelu_with_noise(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let wide = f.convert(x, x.dtype().opmath())?;
    let (low, high) = (
        number(f, call, "lower", &wide, 0.125)?,
        number(f, call, "upper", &wide, 1.0 / 3.0)?,
    );
    let negative = f.compare_const(Comparison::Le, &wide, 0i64)?;
    let one = f.full_like(&wide, 1i64);
    if !call.flag("training")? {
        let sum = f.add(&low, &high)?;
        let slope = f.binary_const(Binary::Multiply, &sum, 0.5f64)?;
        let factor = f.select(&negative, &slope, &one)?;
        let result = f.mul(&wide, &factor)?;
        return Ok(Outputs(vec![Some(f.convert(&result, x.dtype())?), None]));
    }
    let bits = call.random_bits(f, crate::dtype::DType::U32, x.dims())?;
    let bits = f.binary_const(Binary::ShiftRightLogical, &bits, 8i64)?;
    let uniform = f.convert(&bits, wide.dtype())?;
    let uniform = f.binary_const(Binary::Multiply, &uniform, 1.0 / (1u64 << 24) as f64)?;
    let span = f.sub(&high, &low)?;
    let step = f.mul(&uniform, &span)?;
    let slope = f.add(&low, &step)?;
    let noise = f.select(&negative, &slope, &one)?;
    let result = f.mul(&wide, &noise)?;
    Ok(Outputs::all([
        f.convert(&result, x.dtype())?,
        f.convert(&noise, x.dtype())?,
    ]))
}

fn rrelu_with_noise_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    let operands = [call.tensor("grad_output")?, call.tensor("self")?, call.tensor("noise")?];
    let training = call.flag("training")?;
    pointwise(f, call, &operands, Promotion::Default, |f, x| {
        let factor = if training {
            x[2].clone()
        } else {
            let (low, high) = (
                number(f, call, "lower", &x[1], 0.125)?,
                number(f, call, "upper", &x[1], 1.0 / 3.0)?,
            );
            let sum = f.add(&low, &high)?;
            let slope = f.binary_const(Binary::Multiply, &sum, 0.5f64)?;
            let positive = f.compare_const(Comparison::Gt, &x[1], 0i64)?;
            let one = f.full_like(&x[1], 1i64);
            f.select(&positive, &one, &slope)?
        };
        f.mul(&x[0], &factor)
    })
}
