//! Operators that put elements elsewhere: concatenation, padding, flips, filling.

use super::call::{Call, Operand, Outputs};
use super::table::{Layout, OpDef};
use crate::error::{Error, Result, ensure};
use crate::promote;
use crate::shape::wrap_axis;
use crate::stablehlo::{Comparison, Func, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("cat", cat).layout(Layout::LikeFirst),
    OpDef::new("stack", stack),
    OpDef::new("constant_pad_nd", constant_pad_nd),
    OpDef::new("flip", flip),
    OpDef::new("roll", roll),
    OpDef::new("repeat", repeat),
    OpDef::new("fill", fill),
    OpDef::new("zero", zero),
    OpDef::new("slice_backward", slice_backward),
    OpDef::new("select_backward", select_backward),
    OpDef::new("diagonal_backward", diagonal_backward),
    OpDef::new("diag_embed", diag_embed),
];

/// The tensors in their common dtype.
fn promoted(f: &mut Func, call: &Call, tensors: &[&Operand]) -> Result<Vec<Value>> {
    let dtype = promote::result_type(tensors.iter().map(|tensor| tensor.promotion()), call.default_dtype)?;
    tensors.iter().map(|tensor| f.convert(tensor, dtype)).collect()
}

/// Empty 1-d tensors are passed over, as PyTorch does for old programs.
fn cat(f: &mut Func, call: &Call) -> Result<Outputs> {
    let tensors = call.tensors("tensors")?;
    ensure(!tensors.is_empty(), || {
        Error::value("torch.cat(): expected a non-empty list of Tensors")
    })?;
    for (position, tensor) in tensors.iter().enumerate() {
        ensure(tensor.rank() > 0, || {
            Error::runtime(format!(
                "zero-dimensional tensor (at position {position}) cannot be concatenated"
            ))
        })?;
    }
    let values = promoted(f, call, &tensors)?;
    let kept: Vec<Value> = values.iter().filter(|value| value.dims() != [0]).cloned().collect();
    let Some(first) = kept.first() else {
        return Ok(values[0].clone().into());
    };
    let axis = call.axis("dim", first.rank())?;
    for (position, value) in kept.iter().enumerate() {
        ensure(value.rank() == first.rank(), || {
            Error::runtime(format!(
                "Tensors must have same number of dimensions: got {} and {}",
                first.rank(),
                value.rank()
            ))
        })?;
        for other in (0..first.rank()).filter(|&other| other != axis) {
            ensure(value.dim(other) == first.dim(other), || {
                Error::runtime(format!(
                    "Sizes of tensors must match except in dimension {axis}. Expected size {} but got size {} for tensor number {position} in the list.",
                    first.dim(other),
                    value.dim(other)
                ))
            })?;
        }
    }
    Ok(f.concatenate(&kept, axis)?.into())
}

fn stack(f: &mut Func, call: &Call) -> Result<Outputs> {
    let tensors = call.tensors("tensors")?;
    let first = *tensors
        .first()
        .ok_or_else(|| Error::runtime("stack expects a non-empty TensorList"))?;
    let axis = wrap_axis(call.int("dim")?, first.rank() + 1)?;
    for (position, tensor) in tensors.iter().enumerate() {
        ensure(tensor.dims() == first.dims(), || {
            Error::runtime(format!(
                "stack expects each tensor to be equal size, but got {:?} at entry 0 and {:?} at entry {position}",
                first.dims(),
                tensor.dims()
            ))
        })?;
    }
    let values: Vec<Value> = promoted(f, call, &tensors)?
        .iter()
        .map(|value| f.unsqueeze(value, &[axis]))
        .collect::<Result<_>>()?;
    Ok(f.concatenate(&values, axis)?.into())
}

/// `pad` lists (low, high) from the last axis on; negative crops.
fn constant_pad_nd(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (x, pad) = (call.tensor("self")?, call.ints("pad")?);
    ensure(pad.len() % 2 == 0, || {
        Error::runtime(format!(
            "Length of pad must be even but instead it equals {}",
            pad.len()
        ))
    })?;
    ensure(pad.len() / 2 <= x.rank(), || {
        Error::runtime(format!(
            "Length of pad should be no more than twice the number of dimensions of the input. Pad length is {} while the input has {} dimensions.",
            pad.len(),
            x.rank()
        ))
    })?;
    let (mut low, mut high) = (vec![0; x.rank()], vec![0; x.rank()]);
    for (back, pair) in pad.chunks_exact(2).enumerate() {
        let axis = x.rank() - 1 - back;
        (low[axis], high[axis]) = (pair[0], pair[1]);
        ensure(x.dim(axis).saturating_add(pair[0]).saturating_add(pair[1]) >= 0, || {
            Error::runtime(format!(
                "The input size {}, plus negative padding {} and {} resulted in a negative output size, which is invalid. Check dimension {axis} of your input.",
                x.dim(axis),
                pair[0],
                pair[1]
            ))
        })?;
    }
    let value = match call.tensor_opt("value") {
        Some(value) => f.convert(value, x.dtype())?,
        None => f.constant(x.dtype(), &[], 0i64),
    };
    let interior = vec![0; x.rank()];
    Ok(f.pad(x, &value, &low, &high, &interior)?.into())
}

fn flip(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let axes = match call.ints("dims")?.as_slice() {
        [] => Vec::new(),
        _ => call.axes("dims", x.rank())?,
    };
    Ok(f.reverse(x, &axes)?.into())
}

fn roll(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let (shifts, dims) = (call.ints("shifts")?, call.ints_opt("dims")?.unwrap_or_default());
    ensure(!shifts.is_empty(), || Error::runtime("`shifts` required"))?;
    if dims.is_empty() {
        ensure(shifts.len() == 1, || {
            Error::runtime(format!(
                "shifts and dimensions must align. shifts: {}, dims:0",
                shifts.len()
            ))
        })?;
        let flat = f.reshape(x, &[x.numel()])?;
        let rolled = roll_axis(f, &flat, 0, shifts[0])?;
        return Ok(f.reshape(&rolled, x.dims())?.into());
    }
    ensure(shifts.len() == dims.len(), || {
        Error::runtime(format!(
            "shifts and dimensions must align. shifts: {}, dims:{}",
            shifts.len(),
            dims.len()
        ))
    })?;
    let mut result = x.value.clone();
    for (&shift, &axis) in shifts.iter().zip(&dims) {
        let axis = wrap_axis(axis, x.rank())?;
        if x.rank() > 0 {
            result = roll_axis(f, &result, axis, shift)?;
        }
    }
    Ok(result.into())
}

fn roll_axis(f: &mut Func, x: &Value, axis: usize, shift: i64) -> Result<Value> {
    let size = x.dim(axis);
    let shift = if size == 0 { 0 } else { shift.rem_euclid(size) };
    if shift == 0 {
        return Ok(x.clone());
    }
    let (head, tail) = (
        f.slice_axis(x, axis, 0, size - shift)?,
        f.slice_axis(x, axis, size - shift, size)?,
    );
    f.concatenate(&[tail, head], axis)
}

/// Tiles: axes of size 1 are put in front of each axis and stretched.
fn repeat(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (x, repeats) = (call.tensor("self")?, call.ints("repeats")?);
    ensure(repeats.len() >= x.rank(), || {
        Error::runtime("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    })?;
    ensure(repeats.iter().all(|&count| count >= 0), || {
        Error::runtime(format!("Repeats must be non-negative, got {repeats:?}"))
    })?;
    let new = repeats.len() - x.rank();
    let (mut split, mut result, mut axes) = (Vec::new(), Vec::new(), Vec::new());
    for (axis, &count) in repeats.iter().enumerate() {
        let size = if axis < new { 1 } else { x.dim(axis - new) };
        split.extend([count, size]);
        result.push(count * size);
        if axis >= new {
            axes.push(2 * axis + 1);
        }
    }
    let tiled = f.broadcast_in_dim(x, &split, &axes)?;
    Ok(f.reshape(&tiled, &result)?.into())
}

/// `value` (a number or 0-d tensor) in `self`'s dtype everywhere.
fn fill(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (x, value) = (call.tensor("self")?, call.tensor("value")?);
    ensure(value.rank() == 0, || {
        Error::runtime(format!(
            "fill_ only supports 0-dimension value tensor but got tensor with {} dimensions.",
            value.rank()
        ))
    })?;
    ensure(!value.dtype().is_complex() || x.dtype().is_complex(), || {
        Error::runtime("value cannot be converted to a real type without overflow")
    })?;
    let value = f.convert(value, x.dtype())?;
    Ok(f.broadcast_to(&value, x.dims())?.into())
}

fn zero(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    Ok(f.full_like(x, 0i64).into())
}

/// The gradient put back where the slice came from, zeros elsewhere.
fn slice_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (gradient, sizes) = (call.tensor("grad_output")?, call.ints("input_sizes")?);
    let axis = call.axis("dim", sizes.len())?;
    let (size, step) = (sizes[axis], call.int("step")?);
    let start = call.int("start")?;
    let start = if start < 0 { start + size } else { start }.clamp(0, size);
    let count = gradient.dim(axis);
    let (mut low, mut high, mut interior) = (vec![0; sizes.len()], vec![0; sizes.len()], vec![0; sizes.len()]);
    let covered = if count == 0 { 0 } else { (count - 1) * step + 1 };
    (low[axis], high[axis], interior[axis]) = (start, size - start - covered, step - 1);
    let zero = f.constant(gradient.dtype(), &[], 0i64);
    Ok(f.pad(gradient, &zero, &low, &high, &interior)?.into())
}

fn select_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (gradient, sizes) = (call.tensor("grad_output")?, call.ints("input_sizes")?);
    let axis = call.axis("dim", sizes.len())?;
    let index = call.int("index")?;
    let index = if index < 0 { index + sizes[axis] } else { index };
    let raised = f.unsqueeze(gradient, &[axis])?;
    let (mut low, mut high) = (vec![0; sizes.len()], vec![0; sizes.len()]);
    (low[axis], high[axis]) = (index, sizes[axis] - index - 1);
    let zero = f.constant(gradient.dtype(), &[], 0i64);
    Ok(f.pad(&raised, &zero, &low, &high, &vec![0; sizes.len()])?.into())
}

/// `x [.., n]` on the diagonal of two axes of `sizes`, zeros elsewhere; the last axis runs along the diagonal that starts `offset` right of
/// the main one.
fn on_diagonal(f: &mut Func, x: &Value, sizes: &[i64], offset: i64, first: usize, second: usize) -> Result<Value> {
    let rank = sizes.len();
    let zeros = f.constant(x.dtype(), sizes, 0i64);
    if x.numel() == 0 {
        return Ok(zeros);
    }
    // The diagonal's element k stands at row k + down, column k + right.
    let (down, right) = if offset >= 0 { (0, offset) } else { (-offset, 0) };
    let rows = f.iota(crate::dtype::DType::I32, sizes, first)?;
    let columns = f.iota(crate::dtype::DType::I32, sizes, second)?;
    let shift = f.full_like(&rows, right - down);
    let aligned = f.add(&rows, &shift)?;
    let diagonal = f.compare(Comparison::Eq, &aligned, &columns)?;
    // `x` spread along the second axis, row k holding element k − down.
    let length = x.dim(x.rank() - 1);
    let mut low = vec![0; x.rank()];
    let mut high = vec![0; x.rank()];
    (low[x.rank() - 1], high[x.rank() - 1]) = (down, sizes[first] - down - length);
    let zero = f.constant(x.dtype(), &[], 0i64);
    let rows_of_x = f.pad(x, &zero, &low, &high, &vec![0; x.rank()])?;
    let mut axes: Vec<usize> = (0..rank).filter(|&axis| axis != first && axis != second).collect();
    axes.push(first);
    let spread = f.broadcast_in_dim(&rows_of_x, sizes, &axes)?;
    f.select(&diagonal, &spread, &zeros)
}

fn diagonal_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (gradient, sizes) = (call.tensor("grad_output")?, call.ints("input_sizes")?);
    let (first, second) = (call.axis("dim1", sizes.len())?, call.axis("dim2", sizes.len())?);
    Ok(on_diagonal(f, gradient, &sizes, call.int("offset")?, first, second)?.into())
}

fn diag_embed(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    ensure(x.rank() >= 1, || Error::runtime("diag_embed wants at least one axis"))?;
    let rank = x.rank() + 1;
    let offset = call.int("offset")?;
    let (first, second) = (call.axis("dim1", rank)?, call.axis("dim2", rank)?);
    ensure(first != second, || {
        Error::runtime(format!("diagonal dimensions cannot be identical {first}, {second}"))
    })?;
    let size = x.dim(x.rank() - 1) + offset.abs();
    let mut rest = x.dims()[..x.rank() - 1].iter();
    let sizes: Vec<i64> = (0..rank)
        .map(|axis| {
            if axis == first || axis == second {
                size
            } else {
                rest.next().copied().unwrap_or(1)
            }
        })
        .collect();
    Ok(on_diagonal(f, x, &sizes, offset, first, second)?.into())
}
