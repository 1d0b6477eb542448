//! Tensors from numbers: ranges, the identity, permutations. The size comes from the numbers, the dtype from the `out` tensor, which PyTorch's
//! own factories make.

use super::call::{Call, Outputs};
use super::table::OpDef;
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::stablehlo::{Binary, Comparison, Func, Literal, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("arange", |f, call| range(f, call, false)).attributes(&["start", "end", "step"]),
    OpDef::new("range", |f, call| range(f, call, true)).attributes(&["start", "end", "step"]),
    OpDef::new("linspace", linspace)
        .attributes(&["start", "end"])
        .except(TENSOR_BOUNDS),
    OpDef::new("logspace", logspace)
        .attributes(&["start", "end"])
        .except(TENSOR_BOUNDS),
    OpDef::new("eye", eye),
    OpDef::new("randperm", randperm).random(),
];

/// Overloads whose bounds are 0-d tensors: PyTorch reads them on the host and calls the others.
const TENSOR_BOUNDS: &[&str] = &[
    "Tensor_Tensor",
    "Tensor_Scalar",
    "Scalar_Tensor",
    "Tensor_Tensor_out",
    "Tensor_Scalar_out",
    "Scalar_Tensor_out",
];

fn float_of(literal: Literal) -> f64 {
    match literal {
        Literal::Bool(value) => value as u8 as f64,
        Literal::Int(value) => value as f64,
        Literal::Float(value) | Literal::Complex(value, _) => value,
    }
}

/// `start, start + step, …` up to `end`, inclusive for `range`.
fn range(f: &mut Func, call: &Call, inclusive: bool) -> Result<Outputs> {
    let dtype = call.tensor("out")?.dtype();
    let start = call.scalar_opt("start")?.unwrap_or(Literal::Int(0));
    let (end, step) = (call.scalar("end")?, call.scalar_opt("step")?.unwrap_or(Literal::Int(1)));
    let (from, to, by) = (float_of(start), float_of(end), float_of(step));
    ensure(by != 0.0, || Error::runtime("step must be nonzero"))?;
    ensure(from.is_finite() && to.is_finite(), || {
        Error::runtime(format!("unsupported range: {from} -> {to}"))
    })?;
    ensure(by > 0.0 && to >= from || by < 0.0 && to <= from, || {
        Error::runtime("upper bound and lower bound inconsistent with step sign")
    })?;
    let count = match (start, end, step) {
        // Exact beyond 2^53.
        (Literal::Int(start), Literal::Int(end), Literal::Int(step)) if !inclusive => {
            let span = i128::from(end) - i128::from(start);
            let step = i128::from(step);
            ((span + step - step.signum()) / step) as i64
        }
        _ if inclusive => ((to - from) / by).floor() as i64 + 1,
        _ => ((to - from) / by).ceil() as i64,
    };
    // Integers count in int64, floats in float64: one rounding at the end.
    let wide = if dtype.is_inexact() { DType::F64 } else { DType::I64 };
    let positions = f.iota(wide, &[count], 0)?;
    let scaled = f.binary_const(Binary::Multiply, &positions, step)?;
    let values = f.binary_const(Binary::Add, &scaled, start)?;
    Ok(f.convert(&values, dtype)?.into())
}

/// `steps` values from `start` to `end`, both exact, symmetric about the middle as ATen computes them.
fn spaced(f: &mut Func, call: &Call, wide: DType) -> Result<Value> {
    let (start, end) = (float_of(call.scalar("start")?), float_of(call.scalar("end")?));
    let steps = call.int("steps")?;
    ensure(steps >= 0, || Error::runtime("number of steps must be non-negative"))?;
    if steps == 1 {
        return Ok(f.constant(wide, &[1], start));
    }
    let step = (end - start) / (steps - 1) as f64;
    let positions = f.iota(wide, &[steps], 0)?;
    let up = f.binary_const(Binary::Multiply, &positions, step)?;
    let up = f.binary_const(Binary::Add, &up, start)?;
    let last = f.full_like(&positions, steps - 1);
    let left = f.sub(&last, &positions)?;
    let down = f.binary_const(Binary::Multiply, &left, step)?;
    let top = f.full_like(&positions, end);
    let down = f.sub(&top, &down)?;
    let lower = f.compare_const(Comparison::Lt, &positions, steps / 2)?;
    f.select(&lower, &up, &down)
}

fn linspace(f: &mut Func, call: &Call) -> Result<Outputs> {
    let dtype = call.tensor("out")?.dtype();
    let values = spaced(f, call, DType::F64)?;
    Ok(f.convert(&values, dtype)?.into())
}

fn logspace(f: &mut Func, call: &Call) -> Result<Outputs> {
    let dtype = call.tensor("out")?.dtype();
    let base = call.float("base")?;
    let exponents = spaced(f, call, DType::F64)?;
    let base = f.full_like(&exponents, base);
    let values = f.binary(Binary::Power, &base, &exponents)?;
    Ok(f.convert(&values, dtype)?.into())
}

fn eye(f: &mut Func, call: &Call) -> Result<Outputs> {
    let dtype = call.tensor("out")?.dtype();
    let rows = call.int("n")?;
    let columns = call.int_opt("m")?.unwrap_or(rows);
    ensure(rows >= 0, || {
        Error::runtime(format!("n must be greater or equal to 0, got {rows}"))
    })?;
    ensure(columns >= 0, || {
        Error::runtime(format!("m must be greater or equal to 0, got {columns}"))
    })?;
    let (row, column) = (
        f.iota(DType::I32, &[rows, columns], 0)?,
        f.iota(DType::I32, &[rows, columns], 1)?,
    );
    let diagonal = f.compare(Comparison::Eq, &row, &column)?;
    Ok(f.convert(&diagonal, dtype)?.into())
}

/// The order that sorts random 64-bit keys.
fn randperm(f: &mut Func, call: &Call) -> Result<Outputs> {
    let dtype = call.tensor("out")?.dtype();
    let count = call.int("n")?;
    ensure(count >= 0, || {
        Error::runtime(format!("n must be non-negative, got {count}"))
    })?;
    let keys = call.random_bits(f, DType::U64, &[count])?;
    let positions = f.iota(DType::I64, &[count], 0)?;
    let sorted = f.sort(&[keys, positions], 0, true, |f, left, right| {
        f.compare(Comparison::Lt, &left[0], &right[0])
    })?;
    Ok(f.convert(&sorted[1], dtype)?.into())
}
