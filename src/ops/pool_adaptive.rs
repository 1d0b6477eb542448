//! Adaptive pooling: window `o` of an axis of `size` covers `⌊o·size/output⌋ .. ⌈(o+1)·size/output⌉`.

use super::axis_map::{AxisMap, take};
use super::pool::{Axis, require};
use super::pool_avg::{spread_sums, window_sums};
use super::pool_max::{first_wins, position_dtype, scatter_planes};
use super::spatial;
use super::{Call, Layout, OpDef, Outputs};
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::shape::numel;
use crate::stablehlo::{Func, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("_adaptive_avg_pool2d", |f, call| average(f, call, 2)).layout(Layout::LikeFirst),
    OpDef::new("_adaptive_avg_pool3d", |f, call| average(f, call, 3)),
    OpDef::new("_adaptive_avg_pool2d_backward", |f, call| average_backward(f, call, 2)).layout(Layout::LikeFirst),
    OpDef::new("_adaptive_avg_pool3d_backward", |f, call| average_backward(f, call, 3)),
    OpDef::new("adaptive_max_pool2d", |f, call| maximum(f, call, 2)).layout(Layout::LikeFirst),
    OpDef::new("adaptive_max_pool3d", |f, call| maximum(f, call, 3)),
    OpDef::new("adaptive_max_pool2d_backward", |f, call| maximum_backward(f, call, 2)).layout(Layout::LikeFirst),
    OpDef::new("adaptive_max_pool3d_backward", |f, call| maximum_backward(f, call, 3)),
];

/// Start and end of each window of an axis.
fn windows(size: i64, output: i64) -> Vec<(i64, i64)> {
    (0..output)
        .map(|window| (window * size / output, ((window + 1) * size + output - 1) / output))
        .collect()
}

/// Windows of equal size that tile the axis.
fn uniform(size: i64, output: i64) -> Option<Axis> {
    (output > 0 && size % output == 0).then(|| {
        let kernel = size / output;
        Axis {
            size,
            kernel,
            stride: kernel,
            padding: 0,
            dilation: 1,
            output,
        }
    })
}

fn sums(size: i64, output: i64) -> AxisMap {
    AxisMap {
        input: size,
        rows: windows(size, output)
            .into_iter()
            .map(|(start, end)| (start..end).map(|index| (index, 1.0)).collect())
            .collect(),
    }
}

/// Divides by the number of elements of the windows: `x [… , output]` per axis in turn.
fn divide(f: &mut Func, x: &Value, position: usize, size: i64) -> Result<Value> {
    let counts: Vec<f64> = windows(size, x.dim(position))
        .iter()
        .map(|(start, end)| (end - start) as f64)
        .collect();
    let counts = spatial::floats_along(f, x.dtype(), &counts, x.dims(), position)?;
    f.div(x, &counts)
}

fn check_rank(x: &Value, rank: usize, name: &str) -> Result<()> {
    ensure(x.rank() == rank + 1 || x.rank() == rank + 2, || {
        Error::runtime(format!(
            "{name}(): Expected {}D or {}D tensor, but got {:?}",
            rank + 1,
            rank + 2,
            x.dims()
        ))
    })?;
    check_non_batch(x, name, "input")
}

fn check_non_batch(x: &Value, name: &str, what: &str) -> Result<()> {
    (1..x.rank()).try_for_each(|axis| {
        ensure(x.dim(axis) > 0, || {
            Error::runtime(format!(
                "{name}(): Expected {what} to have non-zero size for non-batch dimensions, but {what} has sizes {:?} with dimension {axis} being empty",
                x.dims()
            ))
        })
    })
}

fn output_size(call: &Call, rank: usize, name: &str) -> Result<Vec<i64>> {
    let output = call.ints("output_size")?;
    ensure(output.len() == rank, || {
        Error::runtime(format!("{name}: output_size must be {rank}"))
    })?;
    ensure(output.iter().all(|&size| size >= 0), || {
        Error::runtime(format!(
            "{name}: elements of output_size must be greater than or equal to 0 but received {output:?}"
        ))
    })?;
    Ok(output)
}

/// `[…, H, W] → […, output_size]`
fn average(f: &mut Func, call: &Call, rank: usize) -> Result<Outputs> {
    let name = if rank == 2 {
        "adaptive_avg_pool2d"
    } else {
        "adaptive_avg_pool3d"
    };
    let x = call.tensor("self")?;
    let output = output_size(call, rank, name)?;
    check_rank(x, rank, name)?;
    require(
        x.dtype(),
        if rank == 2 { name } else { "adaptive_avg_pool3d_cpu" },
        DType::is_float,
    )?;
    let lead = x.rank() - rank;
    let mut result = f.convert(x, x.dtype().opmath())?;
    for (index, &count) in output.iter().enumerate() {
        let (position, size) = (lead + index, x.dim(lead + index));
        result = match uniform(size, count) {
            Some(axis) => window_sums(f, &result, position, &axis)?,
            None => sums(size, count).apply(f, &result, position)?,
        };
    }
    for index in 0..rank {
        result = divide(f, &result, lead + index, x.dim(lead + index))?;
    }
    Ok(f.convert(&result, x.dtype())?.into())
}

fn average_backward(f: &mut Func, call: &Call, rank: usize) -> Result<Outputs> {
    let name = if rank == 2 {
        "adaptive_avg_pool2d_backward"
    } else {
        "adaptive_avg_pool3d_backward"
    };
    let (gradient, x) = (call.tensor("grad_output")?, call.tensor("self")?);
    check_non_batch(gradient, name, "grad_output")?;
    check_rank(x, rank, name)?;
    same_dtype(gradient, x)?;
    require(x.dtype(), name, DType::is_float)?;
    let lead = x.rank() - rank;
    let mut result = f.convert(gradient, x.dtype().opmath())?;
    for index in 0..rank {
        result = divide(f, &result, lead + index, x.dim(lead + index))?;
    }
    for index in 0..rank {
        let (position, size) = (lead + index, x.dim(lead + index));
        let count = result.dim(position);
        result = match uniform(size, count) {
            Some(axis) => spread_sums(f, &result, position, &axis)?,
            None => sums(size, count).transposed().apply(f, &result, position)?,
        };
    }
    Ok(f.convert(&result, x.dtype())?.into())
}

fn same_dtype(gradient: &Value, x: &Value) -> Result<()> {
    ensure(gradient.dtype() == x.dtype(), || {
        Error::runtime(format!(
            "expected dtype {} for `grad_output` but got dtype {}",
            x.dtype(),
            gradient.dtype()
        ))
    })
}

/// The greatest element of each window and its position in the plane. One axis after the other, the last first: of equal elements the
/// first in row-major order must win, and of NaNs the last.
fn maximum(f: &mut Func, call: &Call, rank: usize) -> Result<Outputs> {
    let name = if rank == 2 {
        "adaptive_max_pool2d"
    } else {
        "adaptive_max_pool3d"
    };
    let x = call.tensor("self")?;
    check_rank(x, rank, name)?;
    let output = output_size(call, rank, name)?;
    require(
        x.dtype(),
        if rank == 2 { name } else { "adaptive_max_pool3d_cpu" },
        DType::is_float,
    )?;
    let lead = x.rank() - rank;
    let plane = numel(&x.dims()[lead..]);
    let dtype = position_dtype(plane);
    let places = f.iota(dtype, &[plane], 0)?;
    let places = f.reshape(&places, &x.dims()[lead..])?;
    let spread: Vec<usize> = (lead..x.rank()).collect();
    let mut index = f.broadcast_in_dim(&places, x.dims(), &spread)?;
    let mut best = x.value.clone();
    for (axis, &count) in output.iter().enumerate().rev() {
        (best, index) = axis_maximum(f, &best, &index, lead + axis, count)?;
    }
    Ok(Outputs::all([best, f.convert(&index, DType::I64)?]))
}

/// Window length up to which the comparisons are written out one by one.
const WRITTEN_OUT: i64 = 32;

/// One axis of [`maximum`]. Shorter windows repeat their last element: that changes nothing.
fn axis_maximum(f: &mut Func, x: &Value, index: &Value, position: usize, output: i64) -> Result<(Value, Value)> {
    let spans = windows(x.dim(position), output);
    let longest = spans.iter().map(|(start, end)| end - start).max().unwrap_or(0);
    if longest > WRITTEN_OUT {
        let all: Vec<i64> = spans
            .iter()
            .flat_map(|&(start, end)| (0..longest).map(move |step| (start + step).min(end - 1)))
            .collect();
        let mut dims = x.dims().to_vec();
        dims[position] = output;
        dims.insert(position + 1, longest);
        let values = take(f, x, position, &all)?;
        let values = f.reshape(&values, &dims)?;
        let places = take(f, index, position, &all)?;
        let places = f.reshape(&places, &dims)?;
        let lowest = f.lowest(x.dtype())?;
        let beyond = f.highest(index.dtype())?;
        let results = f.reduce_with(
            &[values, places],
            &[lowest, beyond],
            &[position + 1],
            |f, before, next| {
                let wins = first_wins(f, (&next[0], &next[1]), (&before[0], &before[1]))?;
                Ok(vec![
                    f.select(&wins, &next[0], &before[0])?,
                    f.select(&wins, &next[1], &before[1])?,
                ])
            },
        )?;
        return match <[Value; 2]>::try_from(results) {
            Ok([values, places]) => Ok((values, places)),
            Err(_) => Err(Error::runtime("a reduction of two operands has two results")),
        };
    }
    let pick = |step: i64| -> Vec<i64> { spans.iter().map(|(start, end)| (start + step).min(end - 1)).collect() };
    let mut best = take(f, x, position, &pick(0))?;
    let mut places = take(f, index, position, &pick(0))?;
    for step in 1..longest {
        let value = take(f, x, position, &pick(step))?;
        let place = take(f, index, position, &pick(step))?;
        let wins = first_wins(f, (&value, &place), (&best, &places))?;
        best = f.select(&wins, &value, &best)?;
        places = f.select(&wins, &place, &places)?;
    }
    Ok((best, places))
}

fn maximum_backward(f: &mut Func, call: &Call, rank: usize) -> Result<Outputs> {
    let name = if rank == 2 {
        "adaptive_max_pool2d_backward"
    } else {
        "adaptive_max_pool3d_backward"
    };
    let (gradient, x, indices) = (
        call.tensor("grad_output")?,
        call.tensor("self")?,
        call.tensor("indices")?,
    );
    check_non_batch(gradient, name, "grad_output")?;
    ensure(gradient.rank() == rank + 1 || gradient.rank() == rank + 2, || {
        Error::runtime(format!(
            "{name}(): Expected {}D or {}D grad_output, but got: {:?}",
            rank + 1,
            rank + 2,
            gradient.dims()
        ))
    })?;
    same_dtype(gradient, x)?;
    require(x.dtype(), name, DType::is_float)?;
    ensure(gradient.dims() == indices.dims(), || {
        Error::runtime(format!(
            "expected sizes {:?} for `indices` but got sizes {:?}",
            gradient.dims(),
            indices.dims()
        ))
    })?;
    let plane = numel(&x.dims()[x.rank() - rank..]);
    let wide = f.convert(gradient, x.dtype().opmath())?;
    let indices = f.convert(indices, position_dtype(plane))?;
    let flat = scatter_planes(f, &wide, &indices, rank, plane, true)?;
    let result = f.reshape(&flat, x.dims())?;
    Ok(f.convert(&result, x.dtype())?.into())
}
