//! The value of a window: what a program puts in front of an operator that reads a view.

use super::bitcast::{carrier, is_small_float, reinterpret};
use super::plan::plan;
use super::steps::Step;
use super::window::Window;
use crate::dtype::DType;
use crate::error::Result;
use crate::shape::{Dims, numel};
use crate::stablehlo::{Binary, Func, GatherDims, Value};

/// Overlapping dims up to this size are read as that many slices, longer ones by a gather, which TPUs are slow at.
const STACKED: i64 = 16;

/// The window's logical value (dims = sizes, dtype = window.dtype) from the base buffer's value.
pub fn read(f: &mut Func, base: &Value, window: &Window) -> Result<Value> {
    window.check(base.numel() as usize * base.dtype().bytes())?;
    if window.numel() == 0 {
        return Ok(f.constant(window.dtype, &window.sizes, 0));
    }
    let value = read_cast(f, base, window)?;
    flip(f, value, window)
}

/// What is stored in the window, as the window's dtype.
fn read_cast(f: &mut Func, base: &Value, window: &Window) -> Result<Value> {
    if window.dtype == base.dtype() && window.is_whole(base.ty()) {
        return f.reshape(base, &window.sizes);
    }
    if is_small_float(base.dtype()) {
        let bytes = f.bitcast(base, DType::U8)?;
        return read_cast(f, &bytes, window);
    }
    let carrier = carrier(window.dtype, base.dtype());
    if carrier != base.dtype()
        && let Some((start, limit, narrow)) = window.narrow(base.ty())
    {
        let rows = f.slice(base, &start, &limit, &vec![1; base.rank()])?;
        return read_cast(f, &rows, &narrow);
    }
    if let Some((parts, imaginary)) = window.part_of(base.dtype()) {
        let part = if imaginary { f.imag(base)? } else { f.real(base)? };
        return read_steps(f, &part, &parts);
    }
    let x = reinterpret(f, base, carrier)?;
    let value = read_steps(f, &x, window)?;
    reinterpret(f, &value, window.dtype)
}

/// The value with the window's conjugate and negative bits applied; its own inverse.
pub(super) fn flip(f: &mut Func, value: Value, window: &Window) -> Result<Value> {
    let value = if window.neg { f.neg(&value)? } else { value };
    if !(window.conj && value.dtype().is_complex()) {
        return Ok(value);
    }
    let (real, imag) = (f.real(&value)?, f.imag(&value)?);
    let imag = f.neg(&imag)?;
    f.complex(&real, &imag)
}

fn read_steps(f: &mut Func, x: &Value, window: &Window) -> Result<Value> {
    let mut value = x.clone();
    for step in plan(x.dims(), window) {
        value = forward(f, &value, &step)?;
    }
    Ok(value)
}

/// What `step` makes of `x`.
pub(super) fn forward(f: &mut Func, x: &Value, step: &Step) -> Result<Value> {
    match step {
        Step::Slice { start, limit, stride } => f.slice(x, start, limit, stride),
        Step::Pad { high } => {
            let zero = f.constant(x.dtype(), &[], 0);
            let none = vec![0; x.rank()];
            f.pad(x, &zero, &none, high, &none)
        }
        Step::Reshape(dims) => f.reshape(x, dims),
        Step::Transpose(permutation) => f.transpose(x, permutation),
        Step::Broadcast { dims, axes } => f.broadcast_in_dim(x, dims, axes),
        Step::Take { axis, start, dims } => match dims[..] {
            [outer, inner] if outer.0.min(inner.0) <= STACKED => stack(f, x, *axis, *start, outer, inner),
            _ => gather(f, x, *axis, *start, dims),
        },
    }
}

fn gather(f: &mut Func, x: &Value, axis: usize, start: i64, dims: &[(i64, i64)]) -> Result<Value> {
    let indices = positions(f, x.dim(axis), start, dims)?;
    let mut slice_sizes = x.dims().to_vec();
    slice_sizes[axis] = 1;
    let gather = GatherDims {
        offset_dims: (0..x.rank()).filter(|&other| other != axis).collect(),
        collapsed_slice_dims: vec![axis],
        start_index_map: vec![axis],
        index_vector_dim: 1,
        ..GatherDims::default()
    };
    f.gather(x, &indices, &gather, &slice_sizes, false)
}

/// Two overlapping dims (`unfold`) as slices side by side, one for each index of the shorter dim.
fn stack(f: &mut Func, x: &Value, axis: usize, first: i64, outer: (i64, i64), inner: (i64, i64)) -> Result<Value> {
    let outer_is_short = outer.0 <= inner.0;
    let (short, long) = if outer_is_short { (outer, inner) } else { (inner, outer) };
    let mut dims = Dims::from_slice(x.dims());
    dims[axis] = long.0;
    dims.insert(axis + usize::from(!outer_is_short), 1);
    let (mut start, mut limit, mut stride) = (vec![0; x.rank()], x.dims().to_vec(), vec![1; x.rank()]);
    stride[axis] = long.1;
    let mut slices = Vec::new();
    for index in 0..short.0 {
        start[axis] = first + index * short.1;
        limit[axis] = start[axis] + (long.0 - 1) * long.1 + 1;
        let slice = f.slice(x, &start, &limit, &stride)?;
        slices.push(f.reshape(&slice, &dims)?);
    }
    let stacked = f.concatenate(&slices, axis + usize::from(!outer_is_short))?;
    let mut flat = Dims::from_slice(x.dims());
    flat[axis] = outer.0 * inner.0;
    f.reshape(&stacked, &flat)
}

/// `start + Σ stride · index` over all indices of the `(size, stride)` dims in row-major order: `[n, 1]`, each less than `limit`.
pub(super) fn positions(f: &mut Func, limit: i64, start: i64, dims: &[(i64, i64)]) -> Result<Value> {
    let dtype = if limit <= i64::from(i32::MAX) {
        DType::I32
    } else {
        DType::I64
    };
    let sizes: Vec<i64> = dims.iter().map(|dim| dim.0).collect();
    let mut sum = f.constant(dtype, &sizes, start);
    for (axis, &(_, stride)) in dims.iter().enumerate() {
        let index = f.iota(dtype, &sizes, axis)?;
        let scaled = f.binary_const(Binary::Multiply, &index, stride)?;
        sum = f.add(&sum, &scaled)?;
    }
    f.reshape(&sum, &[numel(&sizes), 1])
}
