//! What convolution, pooling and padding share: arguments with one number per spatial axis, slices and pads of the trailing axes,
//! constants along one axis, and the target that forms are chosen for.

use super::Call;
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::stablehlo::{Func, Value};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Which compiler takes the programs. Only forms of equal results are chosen by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// XLA's CPU backend: fast and slow forms differ a thousandfold.
    XlaCpu,
    /// A TPU's or another accelerator's compiler, which picks its own forms.
    Accelerator,
}

static ACCELERATOR: AtomicBool = AtomicBool::new(false);

/// Called once the PJRT client is there, with its platform name.
pub fn set_platform(name: &str) {
    ACCELERATOR.store(!name.eq_ignore_ascii_case("cpu"), Relaxed);
}

pub fn target() -> Target {
    if ACCELERATOR.load(Relaxed) {
        Target::Accelerator
    } else {
        Target::XlaCpu
    }
}

/// An argument of `rank` integers; a single one stands for all.
pub fn tuple(call: &Call, name: &str, rank: usize) -> Result<Vec<i64>> {
    let list = call.ints_opt(name)?.unwrap_or_default();
    match list.len() {
        1 => Ok(vec![list[0]; rank]),
        length if length == rank => Ok(list),
        _ => Err(Error::runtime(format!(
            "{name} must either be a single int, or a tuple of {rank} ints, got {list:?}"
        ))),
    }
}

/// All index tuples below `sizes`, row-major.
pub fn positions(sizes: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![Vec::new()];
    for &size in sizes {
        all = all
            .into_iter()
            .flat_map(|prefix| (0..size).map(move |next| [prefix.as_slice(), &[next]].concat()))
            .collect();
    }
    all
}

/// From the last `starts.len()` axes: `sizes` elements from `starts` on, by `strides`.
pub fn strided(f: &mut Func, x: &Value, starts: &[i64], sizes: &[i64], strides: &[i64]) -> Result<Value> {
    let lead = x.rank() - starts.len();
    let mut start = vec![0; lead];
    let mut limit = x.dims()[..lead].to_vec();
    let mut stride = vec![1; lead];
    for axis in 0..starts.len() {
        start.push(starts[axis]);
        limit.push(
            starts[axis]
                + if sizes[axis] == 0 {
                    0
                } else {
                    (sizes[axis] - 1) * strides[axis] + 1
                },
        );
        stride.push(strides[axis]);
    }
    if start.iter().all(|&start| start == 0) && limit == x.dims() && stride.iter().all(|&stride| stride == 1) {
        return Ok(x.clone());
    }
    f.slice(x, &start, &limit, &stride)
}

/// Pads the last axes with `value` (0-d); the value itself when nothing is to be done.
pub fn pad(f: &mut Func, x: &Value, value: &Value, low: &[i64], high: &[i64], interior: &[i64]) -> Result<Value> {
    if [low, high, interior]
        .iter()
        .all(|list| list.iter().all(|&size| size == 0))
    {
        return Ok(x.clone());
    }
    let lead = x.rank() - low.len();
    let full = |list: &[i64]| [vec![0; lead].as_slice(), list].concat();
    f.pad(x, value, &full(low), &full(high), &full(interior))
}

pub fn pad_zero(f: &mut Func, x: &Value, low: &[i64], high: &[i64], interior: &[i64]) -> Result<Value> {
    let zero = f.constant(x.dtype(), &[], 0i64);
    pad(f, x, &zero, low, high, interior)
}

/// Values of equal type side by side on a new axis.
pub fn stack(f: &mut Func, values: &[Value], axis: usize) -> Result<Value> {
    let values = values
        .iter()
        .map(|value| f.unsqueeze(value, &[axis]))
        .collect::<Result<Vec<_>>>()?;
    if let [one] = values.as_slice() {
        return Ok(one.clone());
    }
    f.concatenate(&values, axis)
}

/// An integer constant of `dims` that varies along `axis` only; one number when they are all equal.
pub fn ints_along(f: &mut Func, dtype: DType, values: &[i64], dims: &[i64], axis: usize) -> Result<Value> {
    if let Some(&first) = values.first()
        && values.iter().all(|&value| value == first)
    {
        return Ok(f.constant(dtype, dims, first));
    }
    let line = f.constant_ints(dtype, values);
    f.broadcast_in_dim(&line, dims, &[axis])
}

/// As [`ints_along`], for floats.
pub fn floats_along(f: &mut Func, dtype: DType, values: &[f64], dims: &[i64], axis: usize) -> Result<Value> {
    if let Some(&first) = values.first()
        && values.iter().all(|&value| value == first)
    {
        return Ok(f.constant(dtype, dims, first));
    }
    let line = f.constant_floats(dtype, values);
    f.broadcast_in_dim(&line, dims, &[axis])
}

/// A bool constant of `dims` that varies along `axis` only.
pub fn mask_along(f: &mut Func, values: &[bool], dims: &[i64], axis: usize) -> Result<Value> {
    let numbers: Vec<i64> = values.iter().map(|&value| value.into()).collect();
    let numbers = ints_along(f, DType::I32, &numbers, dims, axis)?;
    f.convert(&numbers, DType::Bool)
}

/// `value` is a 1-d parameter of length `dim(axis)`: spread over `dims`.
pub fn spread_along(f: &mut Func, value: &Value, dims: &[i64], axis: usize) -> Result<Value> {
    f.broadcast_in_dim(value, dims, &[axis])
}

/// `check_dim_size`'s error when an axis of a gradient is not what the forward's shapes say.
pub fn check_dim(x: &Value, rank: usize, axis: usize, size: i64) -> Result<()> {
    ensure(x.rank() == rank && x.dim(axis) == size, || {
        let got = if axis < x.rank() { x.dim(axis) } else { 0 };
        Error::runtime(format!(
            "Expected a tensor of dimension {rank} and tensor.size[{axis}] == {size} but got: dimension {} and tensor.size[{axis}] = {got}",
            x.rank()
        ))
    })
}

/// All dims at once.
pub fn check_dims(x: &Value, dims: &[i64]) -> Result<()> {
    (0..dims.len()).try_for_each(|axis| check_dim(x, dims.len(), axis, dims[axis]))
}
