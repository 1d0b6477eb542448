//! Sums, products, means, counts and the logical reductions.

use super::call::{Call, Operand, Outputs};
use super::common::{not_implemented_for, scalar_type};
use super::table::OpDef;
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::stablehlo::{Binary, Func, Monoid, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("sum", sum),
    OpDef::new("nansum", nansum),
    OpDef::new("mean", mean),
    OpDef::new("prod", prod),
    OpDef::new("any", any),
    OpDef::new("all", all),
    OpDef::new("count_nonzero", count_nonzero),
    OpDef::new("trace", trace),
];

/// Which axes go, and whether they stay as size 1.
#[derive(Clone, Debug)]
pub(super) struct Axes {
    pub axes: Vec<usize>,
    pub keep: bool,
}

impl Axes {
    /// From the arguments `dim` (one axis, a list, or absent: all) and `keepdim`.
    pub fn of(call: &Call, x: &Value) -> Result<Self> {
        Ok(Self {
            axes: call.axes("dim", x.rank())?,
            keep: call.flag("keepdim")?,
        })
    }

    /// Every axis of `x`.
    pub fn all(x: &Value) -> Self {
        Self {
            axes: (0..x.rank()).collect(),
            keep: false,
        }
    }

    /// Number of elements that make one result element.
    pub fn count(&self, x: &Value) -> i64 {
        self.axes.iter().map(|&axis| x.dim(axis)).product()
    }

    pub fn reduce(&self, f: &mut Func, x: &Value, monoid: Monoid) -> Result<Value> {
        match (self.axes.is_empty(), self.keep) {
            (true, _) => Ok(x.clone()),
            (_, true) => f.reduce_keep(x, monoid, &self.axes),
            (_, false) => f.reduce(x, monoid, &self.axes),
        }
    }

    /// As `reduce`, with the axes kept whatever `keep` says.
    pub fn reduce_keep(&self, f: &mut Func, x: &Value, monoid: Monoid) -> Result<Value> {
        if self.axes.is_empty() {
            Ok(x.clone())
        } else {
            f.reduce_keep(x, monoid, &self.axes)
        }
    }

    /// A result that has the axes as size 1, as `keep` wants it.
    pub fn finish(&self, f: &mut Func, kept: &Value) -> Result<Value> {
        if self.keep || self.axes.is_empty() {
            Ok(kept.clone())
        } else {
            f.squeeze(kept, &self.axes)
        }
    }

    /// PyTorch's error for reductions without a neutral element over nothing.
    pub fn ensure_not_empty(&self, x: &Value, name: &str) -> Result<()> {
        match self.axes.iter().find(|&&axis| x.dim(axis) == 0) {
            None => Ok(()),
            Some(axis) => Err(Error::index(format!(
                "{name}: Expected reduction dim {axis} to have non-zero size."
            ))),
        }
    }
}

/// `x` in the dtype in which it is added up: first the asked one (PyTorch converts the input, not the result), then its opmath type.
fn widened(f: &mut Func, x: &Value, dtype: DType) -> Result<Value> {
    let x = f.convert(x, dtype)?;
    f.convert(&x, dtype.opmath())
}

/// The dtype of a sum or product: integers and bool become int64.
fn accumulated(call: &Call, x: &Operand) -> Result<DType> {
    let own = if x.dtype().is_inexact() { x.dtype() } else { DType::I64 };
    Ok(call.dtype_opt("dtype")?.unwrap_or(own))
}

/// `[d0 … dn]` → the axes in `dim` removed (size 1 with `keepdim`); absent or empty `dim` means all.
fn sum(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let dtype = accumulated(call, x)?;
    total(f, call, x, dtype)
}

fn total(f: &mut Func, call: &Call, x: &Value, dtype: DType) -> Result<Outputs> {
    let axes = Axes::of(call, x)?;
    let wide = match counter(x.dtype(), dtype, axes.count(x)) {
        Some(counter) => f.convert(x, counter)?,
        None => widened(f, x, dtype)?,
    };
    let monoid = if dtype.is_bool() { Monoid::Or } else { Monoid::Add };
    let total = axes.reduce(f, &wide, monoid)?;
    Ok(f.convert(&total, dtype)?.into())
}

/// int32 for sums that it holds: of `count` bools or narrow integers. XLA:CPU adds them up three times as fast as int64.
fn counter(from: DType, to: DType, count: i64) -> Option<DType> {
    let largest = match from {
        DType::Bool => 1,
        DType::U8 | DType::I8 => 1 << 8,
        DType::I16 | DType::U16 => 1 << 16,
        _ => return None,
    };
    (to == DType::I64 && count < (1 << 31) / largest).then_some(DType::I32)
}

/// As `sum`, NaN counting as 0.
fn nansum(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let dtype = accumulated(call, x)?;
    ensure(!x.dtype().is_complex(), || {
        Error::runtime("nansum does not support complex inputs")
    })?;
    let nan = f.is_nan(x)?;
    let zero = f.full_like(x, 0i64);
    let x = f.select(&nan, &zero, x)?;
    total(f, call, &x, dtype)
}

/// Sum over count; NaN for nothing.
fn mean(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let asked = call.dtype_opt("dtype")?;
    let dtype = asked.unwrap_or(x.dtype());
    ensure(dtype.is_inexact(), || {
        let which = if asked.is_some() { "Optional" } else { "Input" };
        let name = scalar_type(dtype);
        Error::runtime(format!(
            "mean(): could not infer output dtype. {which} dtype must be either a floating point or complex dtype. Got: {name}"
        ))
    })?;
    let axes = Axes::of(call, x)?;
    let wide = widened(f, x, dtype)?;
    let total = axes.reduce(f, &wide, Monoid::Add)?;
    let mean = f.binary_const(Binary::Divide, &total, axes.count(x) as f64)?;
    Ok(f.convert(&mean, dtype)?.into())
}

fn prod(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let dtype = accumulated(call, x)?;
    let axes = Axes::of(call, x)?;
    let wide = widened(f, x, dtype)?;
    let monoid = if dtype.is_bool() { Monoid::And } else { Monoid::Multiply };
    let product = axes.reduce(f, &wide, monoid)?;
    Ok(f.convert(&product, dtype)?.into())
}

fn any(f: &mut Func, call: &Call) -> Result<Outputs> {
    logical(f, call, Monoid::Or)
}

fn all(f: &mut Func, call: &Call) -> Result<Outputs> {
    logical(f, call, Monoid::And)
}

/// bool out, but uint8 for uint8. The overload with a list of dims takes an empty one at its word: nothing is reduced.
fn logical(f: &mut Func, call: &Call, monoid: Monoid) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let listed = call.ints_opt("dim")?;
    let axes = match listed {
        Some(list) if list.is_empty() => Axes {
            axes: Vec::new(),
            keep: false,
        },
        _ => Axes::of(call, x)?,
    };
    let truth = f.convert(x, DType::Bool)?;
    let result = axes.reduce(f, &truth, monoid)?;
    let dtype = if x.dtype() == DType::U8 { DType::U8 } else { DType::Bool };
    Ok(f.convert(&result, dtype)?.into())
}

/// int64 number of elements that are not 0. Counted in int32 where that is enough, which is faster.
fn count_nonzero(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let axes = Axes::of(call, x)?;
    let counter = if x.numel() <= i32::MAX.into() {
        DType::I32
    } else {
        DType::I64
    };
    let truth = f.convert(x, DType::Bool)?;
    let ones = f.convert(&truth, counter)?;
    let count = axes.reduce(f, &ones, Monoid::Add)?;
    Ok(f.convert(&count, DType::I64)?.into())
}

/// `[n, m]` → `[]`: the sum of the diagonal.
fn trace(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    ensure(x.rank() == 2, || {
        Error::runtime(format!(
            "trace: expected a matrix, but got tensor with dim {}",
            x.rank()
        ))
    })?;
    ensure(!x.dtype().is_bool(), || not_implemented_for("trace", x.dtype()))?;
    let dtype = accumulated(call, x)?;
    let diagonal = diagonal(f, x)?;
    let wide = f.convert(&diagonal, dtype.opmath())?;
    let total = f.reduce(&wide, Monoid::Add, &[0])?;
    Ok(f.convert(&total, dtype)?.into())
}

/// `[n, m]` → `[min(n, m)]`: in row-major order the diagonal's elements are `m + 1` apart.
fn diagonal(f: &mut Func, x: &Value) -> Result<Value> {
    let (rows, columns) = (x.dim(0), x.dim(1));
    let length = rows.min(columns);
    if length == 0 {
        return Ok(f.constant(x.dtype(), &[0], 0i64));
    }
    let flat = f.reshape(x, &[rows * columns])?;
    f.slice(&flat, &[0], &[(length - 1) * (columns + 1) + 1], &[columns + 1])
}
