//! Average pooling over two or three axes and its backward: a sum along one axis after the other, then the division.

use super::pool::{self, Axis, Windows, require};
use super::spatial;
use super::{Call, Layout, OpDef, Outputs};
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::stablehlo::{Func, Monoid, Value, Window};

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("avg_pool2d", |f, call| avg_pool(f, call, 2)).layout(Layout::LikeFirst),
    OpDef::new("avg_pool3d", |f, call| avg_pool(f, call, 3)).layout(Layout::LikeFirst),
    OpDef::new("avg_pool2d_backward", |f, call| avg_pool_backward(f, call, 2)).layout(Layout::LikeFirst),
    OpDef::new("avg_pool3d_backward", |f, call| avg_pool_backward(f, call, 3)).layout(Layout::LikeFirst),
];

/// Length of a window up to which the additions are written out one by one.
const WRITTEN_OUT: i64 = 16;

fn supported(dtype: DType) -> bool {
    dtype.is_float() || dtype == DType::I64
}

/// `Σ over each window of one axis`: `[…, size, …] → […, output, …]`.
pub fn window_sums(f: &mut Func, x: &Value, position: usize, axis: &Axis) -> Result<Value> {
    let (mut low, mut high, none) = (vec![0; x.rank()], vec![0; x.rank()], vec![0; x.rank()]);
    if axis.output == 1 && axis.padding == 0 && axis.kernel == axis.size && axis.dilation == 1 {
        return f.reduce_keep(x, Monoid::Add, &[position]);
    }
    if axis.kernel > WRITTEN_OUT {
        let mut window = Window {
            size: vec![1; x.rank()],
            stride: vec![1; x.rank()],
            base_dilation: vec![1; x.rank()],
            dilation: vec![1; x.rank()],
            padding: vec![(0, 0); x.rank()],
        };
        window.size[position] = axis.kernel;
        window.stride[position] = axis.stride;
        window.dilation[position] = axis.dilation;
        window.padding[position] = (axis.padding, axis.high());
        return f.reduce_window(x, Monoid::Add, &window);
    }
    (low[position], high[position]) = (axis.padding, axis.high());
    let zero = f.constant(x.dtype(), &[], 0i64);
    let padded = if axis.padding == 0 && axis.high() == 0 {
        x.clone()
    } else {
        f.pad(x, &zero, &low, &high, &none)?
    };
    let mut total: Option<Value> = None;
    for tap in 0..axis.kernel {
        let (mut start, mut limit, mut stride) = (none.clone(), padded.dims().to_vec(), vec![1; x.rank()]);
        start[position] = tap * axis.dilation;
        limit[position] = start[position] + (axis.output - 1) * axis.stride + 1;
        stride[position] = axis.stride;
        let value = f.slice(&padded, &start, &limit, &stride)?;
        total = Some(match total {
            None => value,
            Some(before) => f.add(&before, &value)?,
        });
    }
    total.ok_or_else(|| Error::runtime("kernel size should be greater than zero"))
}

/// The transpose of [`window_sums`]: `[…, output, …] → […, size, …]`, each position the sum over the windows that hold it.
pub fn spread_sums(f: &mut Func, x: &Value, position: usize, axis: &Axis) -> Result<Value> {
    if axis.disjoint() && axis.stride == axis.kernel && axis.padding == 0 && axis.output * axis.kernel <= axis.size {
        // Every position lies in one window, those behind the last in none: `repeat_windows` fills them with zeros.
        return along(f, x, position, |f, moved| {
            pool::repeat_windows(f, &Windows { axes: vec![*axis] }, moved)
        });
    }
    if axis.kernel > WRITTEN_OUT || axis.stride > WRITTEN_OUT {
        let reach = (axis.kernel - 1) * axis.dilation;
        let extent = (axis.output - 1) * axis.stride + 1;
        let mut window = Window {
            size: vec![1; x.rank()],
            stride: vec![1; x.rank()],
            base_dilation: vec![1; x.rank()],
            dilation: vec![1; x.rank()],
            padding: vec![(0, 0); x.rank()],
        };
        let low = reach - axis.padding;
        window.size[position] = axis.kernel;
        window.base_dilation[position] = axis.stride;
        window.dilation[position] = axis.dilation;
        window.padding[position] = (low, axis.size + reach - extent - low);
        return f.reduce_window(x, Monoid::Add, &window);
    }
    along(f, x, position, |f, moved| {
        let windows = Windows { axes: vec![*axis] };
        let zero = f.constant(moved.dtype(), &[], 0i64);
        let padded = pool::padded_windows(f, &windows, moved, &zero)?;
        let lead = moved.dims()[..moved.rank() - 1].to_vec();
        pool::gather_windows(f, &windows, &lead, moved.dtype(), |f, place| {
            spatial::strided(f, &padded, place.start, place.sizes, &[1])
        })
    })
}

/// Applies `body` with `position` as the last axis.
fn along(
    f: &mut Func,
    x: &Value,
    position: usize,
    body: impl FnOnce(&mut Func, &Value) -> Result<Value>,
) -> Result<Value> {
    let last = x.rank() - 1;
    let mut order: Vec<usize> = (0..x.rank()).collect();
    order.swap(position, last);
    let moved = f.transpose(x, &order)?;
    let result = body(f, &moved)?;
    f.transpose(&result, &order)
}

/// Per axis and window, the factor of the divisor: positions within plane and padding (`include`), or within the plane.
fn counts(axis: &Axis, include: bool) -> Vec<i64> {
    (0..axis.output)
        .map(|window| {
            let start = window * axis.stride - axis.padding;
            let end = (start + axis.kernel).min(axis.size + axis.padding);
            if include {
                end - start
            } else {
                end.min(axis.size) - start.max(0)
            }
        })
        .collect()
}

/// Divides sums (or gradients) `[…, …output]` by the number of elements of their windows.
fn divide(f: &mut Func, call: &Call, x: &Value, windows: &Windows) -> Result<Value> {
    let divisor = call.int_opt("divisor_override")?;
    if let Some(divisor) = divisor {
        let divisor = f.full_like(x, divisor);
        return f.div(x, &divisor);
    }
    let include = call.flag("count_include_pad")?;
    let lead = x.rank() - windows.axes.len();
    let mut total: Option<Value> = None;
    for (index, axis) in windows.axes.iter().enumerate() {
        let numbers = counts(axis, include);
        let line = if x.dtype().is_float() {
            let numbers: Vec<f64> = numbers.iter().map(|&number| number as f64).collect();
            spatial::floats_along(f, x.dtype(), &numbers, x.dims(), lead + index)?
        } else {
            spatial::ints_along(f, x.dtype(), &numbers, x.dims(), lead + index)?
        };
        total = Some(match total {
            None => line,
            Some(before) => f.mul(&before, &line)?,
        });
    }
    match total {
        Some(total) => f.div(x, &total),
        None => Ok(x.clone()),
    }
}

fn arguments(call: &Call, x: &Value, rank: usize) -> Result<Windows> {
    let name = if rank == 2 { "avg_pool2d" } else { "avg_pool3d" };
    let windows = pool::windows(call, x, name, rank)?;
    ensure(call.int_opt("divisor_override")? != Some(0), || {
        Error::runtime("divisor must be not zero")
    })?;
    let smaller = |axis: &Axis| axis.size < axis.kernel;
    ensure(rank == 2 || !windows.axes.iter().any(smaller), || {
        Error::runtime(format!(
            "input image {:?} (T, H, W) smaller than kernel size {:?}",
            windows.field(|axis| axis.size),
            windows.field(|axis| axis.kernel)
        ))
    })?;
    Ok(windows)
}

/// `[…, H, W] → […, H', W']`
fn avg_pool(f: &mut Func, call: &Call, rank: usize) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let windows = arguments(call, x, rank)?;
    require(
        x.dtype(),
        if rank == 2 {
            "avg_pool2d"
        } else {
            "avg_pool3d_out_frame"
        },
        supported,
    )?;
    let mut total = f.convert(x, x.dtype().opmath())?;
    let lead = x.rank() - rank;
    for (index, axis) in windows.axes.iter().enumerate() {
        total = window_sums(f, &total, lead + index, axis)?;
    }
    let mean = divide(f, call, &total, &windows)?;
    Ok(f.convert(&mean, x.dtype())?.into())
}

fn avg_pool_backward(f: &mut Func, call: &Call, rank: usize) -> Result<Outputs> {
    let (gradient, x) = (call.tensor("grad_output")?, call.tensor("self")?);
    let windows = arguments(call, x, rank)?;
    require(
        x.dtype(),
        if rank == 2 {
            "avg_pool2d_backward"
        } else {
            "avg_pool3d_backward_out_frame"
        },
        supported,
    )?;
    pool::check_gradient(gradient, x, &windows)?;
    let wide = f.convert(gradient, x.dtype().opmath())?;
    let mut total = divide(f, call, &wide, &windows)?;
    let lead = x.rank() - rank;
    for (index, axis) in windows.axes.iter().enumerate().rev() {
        total = spread_sums(f, &total, lead + index, axis)?;
    }
    Ok(f.convert(&total, x.dtype())?.into())
}
