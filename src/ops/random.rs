//! Random fills: Philox bits, made into the wanted distribution inside the program.

use super::call::{Call, Outputs};
use super::table::OpDef;
use crate::dtype::DType;
use crate::error::{Error, Kind, Result, ensure};
use crate::stablehlo::{Binary, Comparison, Func, Monoid, Unary, Value};
use std::f64::consts::PI;

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("uniform", uniform).random().operands(&["from", "to"]),
    OpDef::new("normal", normal).random().operands(&["mean", "std"]),
    OpDef::new("normal_functional", normal)
        .random()
        .operands(&["mean", "std"]),
    OpDef::new("log_normal", log_normal).random().operands(&["mean", "std"]),
    OpDef::new("cauchy", cauchy).random().operands(&["median", "sigma"]),
    OpDef::new("exponential", exponential).random().operands(&["lambd"]),
    OpDef::new("geometric", geometric).random().operands(&["p"]),
    OpDef::new("bernoulli", bernoulli).random().operands(&["p"]),
    OpDef::new("random", random).random(),
    OpDef::new("native_dropout", native_dropout).random(),
    OpDef::new("native_dropout_backward", native_dropout_backward),
    OpDef::new("multinomial", multinomial).random(),
];

/// Uniform in [0, 1) with as many random bits as the dtype's mantissa holds (53 or 24; fewer for the 16-bit floats).
fn unit(f: &mut Func, call: &Call, dtype: DType, dims: &[i64]) -> Result<Value> {
    let (bits_dtype, wide, digits) = match dtype {
        DType::F64 => (DType::U64, DType::F64, 53),
        DType::F16 => (DType::U32, DType::F32, 11),
        DType::BF16 => (DType::U32, DType::F32, 8),
        _ => (DType::U32, DType::F32, 24),
    };
    let bits = call.random_bits(f, bits_dtype, dims)?;
    let bits = f.binary_const(Binary::ShiftRightLogical, &bits, 8 * bits_dtype.bytes() as i64 - digits)?;
    let whole = f.convert(&bits, wide)?;
    f.binary_const(Binary::Multiply, &whole, 1.0 / (1u64 << digits) as f64)
}

/// As `unit`, in float32 or float64 with full digits, never 0: for logarithms.
fn open_unit(f: &mut Func, call: &Call, dtype: DType, dims: &[i64]) -> Result<Value> {
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let unit = unit(f, call, wide, dims)?;
    let one = f.full_like(&unit, 1i64);
    f.sub(&one, &unit)
}

/// A number or tensor argument in the dtype and dims of `like`.
fn parameter(f: &mut Func, call: &Call, name: &str, like: &Value) -> Result<Option<Value>> {
    match call.tensor_opt(name) {
        None => Ok(None),
        Some(value) => {
            let value = f.convert(value, like.dtype())?;
            f.broadcast_to(&value, like.dims()).map(Some)
        }
    }
}

fn all(f: &mut Func, condition: &Value) -> Result<Value> {
    let axes: Vec<usize> = (0..condition.rank()).collect();
    f.reduce(condition, Monoid::And, &axes)
}

fn float_self<'a>(call: &'a Call, name: &str) -> Result<&'a super::call::Operand> {
    let x = call.tensor("self")?;
    ensure(
        x.dtype().is_float() || x.dtype().is_complex() && name == "normal",
        || Error::not_implemented(format!("\"{name}\" not implemented for {}", x.dtype())),
    )?;
    Ok(x)
}

fn uniform(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = float_self(call, "uniform")?;
    let unit = unit(f, call, x.dtype(), x.dims())?;
    let from = parameter(f, call, "from", &unit)?;
    let to = parameter(f, call, "to", &unit)?;
    let (Some(from), Some(to)) = (from, to) else {
        return Ok(f.convert(&unit, x.dtype())?.into());
    };
    let (low, high) = (call.tensor("from")?, call.tensor("to")?);
    let ordered = f.compare(Comparison::Le, low, high)?;
    f.check(
        &ordered,
        Kind::Runtime,
        "uniform_ expects to return a [from, to) range, but found from > to",
    )?;
    let span = f.sub(&to, &from)?;
    let scaled = f.mul(&unit, &span)?;
    let value = f.add(&scaled, &from)?;
    // Rounding may reach the excluded end.
    let reached = f.compare(Comparison::Ge, &value, &to)?;
    let value = f.select(&reached, &from, &value)?;
    Ok(f.convert(&value, x.dtype())?.into())
}

/// Box and Muller's transform on half as many pairs.
fn standard_normal(f: &mut Func, call: &Call, dtype: DType, dims: &[i64]) -> Result<Value> {
    let count = crate::shape::numel(dims);
    let half = (count + 1) / 2;
    let radius = open_unit(f, call, dtype, &[half])?;
    let angle = unit(f, call, radius.dtype(), &[half])?;
    let log = f.unary(Unary::Log, &radius)?;
    let square = f.binary_const(Binary::Multiply, &log, -2i64)?;
    let radius = f.unary(Unary::Sqrt, &square)?;
    let angle = f.binary_const(Binary::Multiply, &angle, 2.0 * PI)?;
    let (cosine, sine) = (f.unary(Unary::Cosine, &angle)?, f.unary(Unary::Sine, &angle)?);
    let (first, second) = (f.mul(&radius, &cosine)?, f.mul(&radius, &sine)?);
    let both = f.concatenate(&[first, second], 0)?;
    let cut = f.slice_axis(&both, 0, 0, count)?;
    f.reshape(&cut, dims)
}

/// All overloads: `normal_` (self, numbers), and those with tensors of means and deviations, whose common shape the result has.
fn normal(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (dtype, dims) = match call.tensor_opt("self") {
        Some(_) => {
            let x = float_self(call, "normal")?;
            (x.dtype(), x.ty().dims.clone())
        }
        None => {
            let (mean, std) = (call.tensor("mean")?, call.tensor("std")?);
            let dtype = if mean.category == crate::promote::Category::Number {
                std.dtype()
            } else {
                mean.dtype()
            };
            (dtype, crate::shape::broadcast(mean.dims(), std.dims())?)
        }
    };
    if dtype.is_complex() {
        // Half of the variance in each part.
        let (real, imaginary) = (
            standard_normal(f, call, dtype.real(), &dims)?,
            standard_normal(f, call, dtype.real(), &dims)?,
        );
        let halved = f.complex(&real, &imaginary)?;
        let scale = f.full_like(&halved, std::f64::consts::FRAC_1_SQRT_2);
        let value = f.mul(&halved, &scale)?;
        let value = scale_and_shift(f, call, &value)?;
        return Ok(value.into());
    }
    let value = standard_normal(f, call, dtype, &dims)?;
    let value = scale_and_shift(f, call, &value)?;
    Ok(f.convert(&value, dtype)?.into())
}

fn scale_and_shift(f: &mut Func, call: &Call, value: &Value) -> Result<Value> {
    let mut value = value.clone();
    if let Some(std) = call.tensor_opt("std") {
        let real = f.real(std)?;
        let fine = f.compare_const(Comparison::Ge, &real, 0i64)?;
        let ok = all(f, &fine)?;
        f.check(&ok, Kind::Runtime, "normal expects all elements of std >= 0.0")?;
    }
    if let Some(std) = parameter(f, call, "std", &value)? {
        value = f.mul(&value, &std)?;
    }
    if let Some(mean) = parameter(f, call, "mean", &value)? {
        value = f.add(&value, &mean)?;
    }
    Ok(value)
}

fn log_normal(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = float_self(call, "log_normal")?;
    let value = standard_normal(f, call, x.dtype(), x.dims())?;
    let value = scale_and_shift(f, call, &value)?;
    let value = f.unary(Unary::Exp, &value)?;
    Ok(f.convert(&value, x.dtype())?.into())
}

/// median + σ tan(π(u − ½))
fn cauchy(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = float_self(call, "cauchy")?;
    let unit = open_unit(f, call, x.dtype(), x.dims())?;
    let centred = f.binary_const(Binary::Subtract, &unit, 0.5f64)?;
    let angle = f.binary_const(Binary::Multiply, &centred, PI)?;
    let mut value = f.unary(Unary::Tan, &angle)?;
    if let Some(sigma) = parameter(f, call, "sigma", &value)? {
        value = f.mul(&value, &sigma)?;
    }
    if let Some(median) = parameter(f, call, "median", &value)? {
        value = f.add(&value, &median)?;
    }
    Ok(f.convert(&value, x.dtype())?.into())
}

/// −log(u) / λ
fn exponential(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = float_self(call, "exponential")?;
    let unit = open_unit(f, call, x.dtype(), x.dims())?;
    let log = f.unary(Unary::Log, &unit)?;
    let mut value = f.neg(&log)?;
    // u = 1 would give 0, which PyTorch excludes.
    let smallest = if value.dtype() == DType::F64 {
        f64::EPSILON / 2.0
    } else {
        f32::EPSILON as f64 / 2.0
    };
    value = f.binary_const(Binary::Maximum, &value, smallest)?;
    if let Some(rate) = call.tensor_opt("lambd") {
        let ok = f.compare_const(Comparison::Gt, rate, 0i64)?;
        f.check(&ok, Kind::Runtime, "exponential_ expects lambda > 0.0")?;
    }
    if let Some(rate) = parameter(f, call, "lambd", &value)? {
        value = f.div(&value, &rate)?;
    }
    Ok(f.convert(&value, x.dtype())?.into())
}

/// ⌈log(u) / log(1 − p)⌉
fn geometric(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let unit = open_unit(f, call, x.dtype(), x.dims())?;
    let p = call.tensor("p")?;
    let (low, high) = (
        f.compare_const(Comparison::Gt, p, 0i64)?,
        f.compare_const(Comparison::Lt, p, 1i64)?,
    );
    let ok = f.and(&low, &high)?;
    f.check(&ok, Kind::Runtime, "geometric_ expects p to be in (0, 1)")?;
    let p = parameter(f, call, "p", &unit)?.ok_or_else(|| Error::runtime("geometric_ expects p"))?;
    let negative = f.neg(&p)?;
    let (above, below) = (f.unary(Unary::Log, &unit)?, f.unary(Unary::Log1p, &negative)?);
    let ratio = f.div(&above, &below)?;
    let value = f.unary(Unary::Ceil, &ratio)?;
    let value = f.binary_const(Binary::Maximum, &value, 1i64)?;
    Ok(f.convert(&value, x.dtype())?.into())
}

/// True with probability `p` (an argument), or `self` where the overload has no `p`.
fn bernoulli(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let probability = call.tensor_opt("p").unwrap_or(x);
    let wide = if probability.dtype() == DType::F64 && probability.rank() > 0 {
        DType::F64
    } else {
        DType::F32
    };
    let unit = unit(f, call, wide, x.dims())?;
    let (low, high) = (
        f.compare_const(Comparison::Ge, probability, 0i64)?,
        f.compare_const(Comparison::Le, probability, 1i64)?,
    );
    let inside = f.and(&low, &high)?;
    let ok = all(f, &inside)?;
    f.check(
        &ok,
        Kind::Runtime,
        "bernoulli expects all values of p to be in the range 0 <= p <= 1",
    )?;
    let probability = f.convert(probability, wide)?;
    let probability = f.broadcast_to(&probability, x.dims())?;
    let drawn = f.compare(Comparison::Lt, &unit, &probability)?;
    Ok(f.convert(&drawn, x.dtype())?.into())
}

/// Integers: `random_()` over the dtype's non-negative range (floats: up to 2^mantissa), `random_(to)`, `random_(from, to)`.
fn random(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let dtype = x.dtype();
    let digits = match dtype {
        DType::F64 => 53,
        DType::F32 => 24,
        DType::F16 => 11,
        DType::BF16 => 8,
        DType::Bool => 1,
        _ if dtype.is_unsigned() => 8 * dtype.bytes() as u32,
        _ => 8 * dtype.bytes() as u32 - 1,
    };
    ensure(!dtype.is_complex(), || {
        Error::not_implemented(format!("\"random_\" not implemented for {dtype}"))
    })?;
    let inclusive_top: i128 = if dtype.is_float() {
        1i128 << digits
    } else {
        (1i128 << digits) - 1
    };
    let bits = call.random_bits(f, DType::U64, x.dims())?;
    let (from, count): (i128, i128) = if call.has("to") || call.has("from") {
        let from = call.int_opt("from")?.unwrap_or(0) as i128;
        let to = match call.int_opt("to")? {
            Some(to) => to as i128,
            None => inclusive_top + 1,
        };
        ensure(from < to, || {
            Error::runtime(format!(
                "random_ expects 'from' to be less than 'to', but got from={from} >= to={to}"
            ))
        })?;
        ensure(to - 1 <= inclusive_top, || {
            Error::runtime(format!("to - 1 is out of bounds for {}", dtype.name()))
        })?;
        let bottom = if dtype.is_unsigned() || dtype.is_bool() {
            0
        } else {
            -inclusive_top - 1
        };
        ensure(from >= bottom, || {
            Error::runtime(format!("from is out of bounds for {}", dtype.name()))
        })?;
        (from, to - from)
    } else {
        (0, inclusive_top + 1)
    };
    // 64 random bits modulo the count: the bias is below 2^-32 for ranges of up to 2^32.
    let chosen = if count > u64::MAX as i128 {
        bits
    } else {
        f.binary_const(Binary::Remainder, &bits, count as u64 as i64)?
    };
    if dtype.is_float() {
        let signed = f.convert(&chosen, DType::I64)?;
        let moved = f.binary_const(Binary::Add, &signed, from as i64)?;
        return Ok(f.convert(&moved, dtype)?.into());
    }
    let signed = f.convert(&chosen, DType::I64)?;
    let moved = f.binary_const(Binary::Add, &signed, from as i64)?;
    Ok(f.convert(&moved, dtype)?.into())
}

/// Results: `self · mask / (1 − p)` and the mask. `train` False: `self` and all true.
fn native_dropout(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (x, p) = (call.tensor("input")?, call.float("p")?);
    ensure((0.0..=1.0).contains(&p), || {
        Error::runtime(format!("dropout probability has to be between 0 and 1, but got {p}"))
    })?;
    let train = !call.has("train") || call.flag("train")?;
    if !train || p == 0.0 {
        let mask = f.constant(DType::Bool, x.dims(), true);
        return Ok(Outputs::all([x.value.clone(), mask]));
    }
    let wide = x.dtype().opmath();
    let unit = unit(f, call, DType::F32, x.dims())?;
    let mask = f.compare_const(Comparison::Lt, &unit, 1.0 - p)?;
    let value = f.convert(x, wide)?;
    let scaled = if p == 1.0 {
        f.full_like(&value, 0i64)
    } else {
        f.binary_const(Binary::Multiply, &value, 1.0 / (1.0 - p))?
    };
    let zero = f.full_like(&scaled, 0i64);
    let result = f.select(&mask, &scaled, &zero)?;
    Ok(Outputs::all([f.convert(&result, x.dtype())?, mask]))
}

fn native_dropout_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (gradient, mask) = (call.tensor("grad_output")?, call.tensor("mask")?);
    let wide = f.convert(gradient, gradient.dtype().opmath())?;
    let scaled = f.binary_const(Binary::Multiply, &wide, call.float("scale")?)?;
    let zero = f.full_like(&scaled, 0i64);
    let mask = f.convert(mask, DType::Bool)?;
    let result = f.select(&mask, &scaled, &zero)?;
    Ok(f.convert(&result, gradient.dtype())?.into())
}

/// `self [N, C]` (or `[C]`) of weights → `[N, num_samples]` positions. Without replacement: the largest of w / Exp(1); with it: the inverse of the
/// cumulative weights.
fn multinomial(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let (samples, replacement) = (call.int("num_samples")?, call.flag("replacement")?);
    ensure(x.dtype().is_float(), || {
        Error::runtime(format!(
            "multinomial only supports floating-point dtypes for input, got: {}",
            x.dtype().name()
        ))
    })?;
    ensure(matches!(x.rank(), 1 | 2), || {
        Error::runtime("prob_dist must be 1 or 2 dim")
    })?;
    ensure(samples > 0, || Error::runtime("cannot sample n_sample <= 0 samples"))?;
    let classes = x.dim(x.rank() - 1);
    ensure(replacement || samples <= classes, || {
        Error::runtime("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    })?;
    let wide = if x.dtype() == DType::F64 {
        DType::F64
    } else {
        DType::F32
    };
    let weights = f.convert(x, wide)?;
    let finite = f.is_finite(&weights)?;
    let positive = f.compare_const(Comparison::Ge, &weights, 0i64)?;
    let fine = f.and(&finite, &positive)?;
    let ok = all(f, &fine)?;
    f.check(
        &ok,
        Kind::Runtime,
        "probability tensor contains either `inf`, `nan` or element < 0",
    )?;
    let rows = if x.rank() == 2 { x.dim(0) } else { 1 };
    let weights = f.reshape(&weights, &[rows, classes])?;
    let result = if replacement {
        let mut cumulative = weights.clone();
        let mut shift = 1;
        while shift < classes {
            let head = f.slice_axis(&cumulative, 1, 0, classes - shift)?;
            let zero = f.constant(wide, &[], 0i64);
            let moved = f.pad(&head, &zero, &[0, shift], &[0, 0], &[0, 0])?;
            cumulative = f.add(&cumulative, &moved)?;
            shift *= 2;
        }
        let total = f.slice_axis(&cumulative, 1, classes - 1, classes)?;
        let unit = unit(f, call, wide, &[rows, samples])?;
        let total = f.broadcast_to(&total, &[rows, samples])?;
        let drawn = f.mul(&unit, &total)?;
        let drawn = f.broadcast_in_dim(&drawn, &[rows, samples, classes], &[0, 1])?;
        let steps = f.broadcast_in_dim(&cumulative, &[rows, samples, classes], &[0, 2])?;
        let passed = f.compare(Comparison::Ge, &drawn, &steps)?;
        let passed = f.convert(&passed, DType::I64)?;
        let position = f.reduce(&passed, Monoid::Add, &[2])?;
        f.binary_const(Binary::Minimum, &position, classes - 1)?
    } else {
        let unit = open_unit(f, call, wide, &[rows, classes])?;
        let log = f.unary(Unary::Log, &unit)?;
        let waiting = f.neg(&log)?;
        let waiting = f.binary_const(Binary::Maximum, &waiting, f32::MIN_POSITIVE as f64)?;
        let keys = f.div(&weights, &waiting)?;
        let positions = f.iota(DType::I64, &[rows, classes], 1)?;
        let sorted = f.sort(&[keys, positions], 1, true, |f, left, right| {
            f.compare(Comparison::Gt, &left[0], &right[0])
        })?;
        f.slice_axis(&sorted[1], 1, 0, samples)?
    };
    let dims: Vec<i64> = if x.rank() == 2 {
        vec![rows, samples]
    } else {
        vec![samples]
    };
    Ok(f.reshape(&result, &dims)?.into())
}
