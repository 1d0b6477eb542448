//! Order statistics: the k-th smallest, the median, the most frequent value.

use super::call::{Call, Outputs};
use super::common::not_implemented_for;
use super::extremum::{Extremum, first_true};
use super::reduction::Axes;
use super::scan::scan;
use super::sort::{positions_along, sort_with_positions};
use super::table::OpDef;
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::stablehlo::{Binary, Comparison, Func, Monoid, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("kthvalue", kthvalue),
    OpDef::new("median", |f, call| median(f, call, Nan::Wins)),
    OpDef::new("nanmedian", |f, call| median(f, call, Nan::Ignored)),
    OpDef::new("mode", mode),
];

/// The axis `dim` as a reduction over it: no axis for a 0-d tensor.
fn one_axis(call: &Call, x: &Value, name: &str) -> Result<Axes> {
    let axis = call.axis("dim", x.rank())?;
    let axes = Axes {
        axes: if x.rank() == 0 { Vec::new() } else { vec![axis] },
        keep: call.flag("keepdim")?,
    };
    axes.ensure_not_empty(x, name)?;
    Ok(axes)
}

/// The only element of a 0-d tensor, at position 0.
fn itself(f: &mut Func, x: &Value) -> Outputs {
    let position = f.constant(DType::I64, x.dims(), 0i64);
    Outputs::all([x.clone(), position])
}

/// The `k`-th smallest along `dim` (from 1) and its position.
fn kthvalue(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    ensure(!x.dtype().is_complex() && !x.dtype().is_bool(), || {
        not_implemented_for("kthvalue_cpu", x.dtype())
    })?;
    let axes = one_axis(call, x, "kthvalue()")?;
    let k = call.int("k")?;
    let (axis, size) = axes.axes.first().map_or((0, 1), |&axis| (axis, x.dim(axis)));
    ensure(1 <= k && k <= size, || {
        Error::runtime(format!(
            "kthvalue(): selected number k out of range for dimension {axis}"
        ))
    })?;
    if axes.axes.is_empty() {
        return Ok(itself(f, x));
    }
    let (values, positions) = sort_with_positions(f, x, axis, false)?;
    let value = f.slice_axis(&values, axis, k - 1, k)?;
    let position = f.slice_axis(&positions, axis, k - 1, k)?;
    Ok(Outputs::all([axes.finish(f, &value)?, axes.finish(f, &position)?]))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nan {
    /// A NaN anywhere is the median.
    Wins,
    Ignored,
}

/// The lower median, over everything (value only) or along `dim` (with its position).
fn median(f: &mut Func, call: &Call, nan: Nan) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let with_position = call.has("dim");
    ensure(!x.dtype().is_complex() && !x.dtype().is_bool(), || {
        not_implemented_for(if with_position { "median_out" } else { "median_cpu" }, x.dtype())
    })?;
    if with_position {
        let axes = one_axis(call, x, "median()")?;
        if axes.axes.is_empty() {
            return Ok(itself(f, x));
        }
        let (value, position) = median_along(f, x, &axes, nan)?;
        return Ok(Outputs::all([value, position]));
    }
    if x.numel() == 0 {
        let undefined = if x.dtype().is_float() {
            f.constant(x.dtype(), &[], f64::NAN)
        } else {
            f.lowest(x.dtype())?
        };
        return Ok(undefined.into());
    }
    let flat = f.reshape(x, &[x.numel()])?;
    let (value, _) = median_along(f, &flat, &Axes::all(&flat), nan)?;
    Ok(value.into())
}

/// Over exactly one axis, not empty.
fn median_along(f: &mut Func, x: &Value, axes: &Axes, nan: Nan) -> Result<(Value, Value)> {
    let axis = axes.axes.first().copied().unwrap_or(0);
    let size = x.dim(axis);
    let (values, positions) = sort_with_positions(f, x, axis, false)?;
    let middle = (size - 1) / 2;
    let (value, position) = match nan {
        _ if !x.dtype().is_float() => middle_of(f, &values, &positions, axis, middle)?,
        Nan::Wins => {
            let (value, position) = middle_of(f, &values, &positions, axis, middle)?;
            // NaN are last: there is one just when the last is.
            let last = f.slice_axis(&values, axis, size - 1, size)?;
            let found = f.is_nan(&last)?;
            let unordered = f.is_nan(x)?;
            let first = first_true(f, &unordered, axis)?;
            (f.select(&found, &last, &value)?, f.select(&found, &first, &position)?)
        }
        Nan::Ignored => {
            let unordered = f.is_nan(&values)?;
            let ordered = f.not(&unordered)?;
            let ones = f.convert(&ordered, DType::I64)?;
            let count = f.reduce_keep(&ones, Monoid::Add, &[axis])?;
            let middle = f.binary_const(Binary::Subtract, &count, 1i64)?;
            let middle = f.binary_const(Binary::Maximum, &middle, 0i64)?;
            let middle = f.binary_const(Binary::ShiftRightLogical, &middle, 1i64)?;
            (pick(f, &values, &middle, axis)?, pick(f, &positions, &middle, axis)?)
        }
    };
    Ok((axes.finish(f, &value)?, axes.finish(f, &position)?))
}

fn middle_of(f: &mut Func, values: &Value, positions: &Value, axis: usize, middle: i64) -> Result<(Value, Value)> {
    Ok((
        f.slice_axis(values, axis, middle, middle + 1)?,
        f.slice_axis(positions, axis, middle, middle + 1)?,
    ))
}

/// `x [… n …]`, `at [… 1 …]` int64 → the element of each row at its place, `[… 1 …]`: a masked sum, since a gather is slower.
fn pick(f: &mut Func, x: &Value, at: &Value, axis: usize) -> Result<Value> {
    let positions = f.iota(DType::I64, x.dims(), axis)?;
    let at = f.broadcast_to(at, x.dims())?;
    let here = f.compare(Comparison::Eq, &positions, &at)?;
    let zero = f.full_like(x, 0i64);
    let only = f.select(&here, x, &zero)?;
    f.reduce_keep(&only, Monoid::Add, &[axis])
}

/// The most frequent value along `dim`, the smallest of equally frequent ones, and the last position of it.
fn mode(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    ensure(!x.dtype().is_complex(), || not_implemented_for("mode_cpu", x.dtype()))?;
    let axes = one_axis(call, x, "mode()")?;
    let Some(&axis) = axes.axes.first() else {
        return Ok(itself(f, x));
    };
    if x.numel() == 0 {
        let values = axes.reduce(f, x, Extremum::Largest.monoid(x.dtype()))?;
        let positions = f.constant(DType::I64, values.dims(), 0i64);
        return Ok(Outputs::all([values, positions]));
    }
    let size = x.dim(axis);
    let (values, positions) = sort_with_positions(f, x, axis, false)?;
    // A run starts where a value differs from the one before (NaN differs from NaN, as on the CPU), and at the front.
    let previous = f.slice_axis(&values, axis, 0, size - 1)?;
    let next = f.slice_axis(&values, axis, 1, size)?;
    let changed = f.compare(Comparison::Ne, &next, &previous)?;
    let no = f.constant(DType::Bool, &[], false);
    let mut low = vec![0; x.rank()];
    low[axis] = 1;
    let none = vec![0; x.rank()];
    let starts = f.pad(&changed, &no, &low, &none, &none)?;
    let along = positions_along(f, x.dims(), axis)?;
    let zero = f.full_like(&along, 0i64);
    let start = f.select(&starts, &along, &zero)?;
    let start = scan(f, &start, Monoid::Maximum, axis)?;
    // How many of the run came up to here: largest at the end of the longest run, whose first is the smallest value's.
    let length = f.sub(&along, &start)?;
    let longest = f.reduce_keep(&length, Monoid::Maximum, &[axis])?;
    let spread = f.broadcast_to(&longest, x.dims())?;
    let hit = f.compare(Comparison::Eq, &length, &spread)?;
    let place = first_true(f, &hit, axis)?;
    let position = pick(f, &positions, &place, axis)?;
    let value = if x.dtype().is_bool() {
        let bytes = f.convert(&values, DType::U8)?;
        let byte = pick(f, &bytes, &place, axis)?;
        f.convert(&byte, DType::Bool)?
    } else {
        pick(f, &values, &place, axis)?
    };
    // The CPU sorts NaN to the front here: the first one is the mode when nothing occurs twice.
    let unordered = f.is_nan(x)?;
    let first_nan = first_true(f, &unordered, axis)?;
    let found = f.compare_const(Comparison::Lt, &first_nan, size)?;
    let single = f.compare_const(Comparison::Eq, &longest, 0i64)?;
    let nan_wins = f.and(&found, &single)?;
    let position = f.select(&nan_wins, &first_nan, &position)?;
    let value = if x.dtype().is_float() {
        let nan = f.constant(x.dtype(), value.dims(), f64::NAN);
        f.select(&nan_wins, &nan, &value)?
    } else {
        value
    };
    Ok(Outputs::all([axes.finish(f, &value)?, axes.finish(f, &position)?]))
}
