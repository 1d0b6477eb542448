//! The base after a write through a window: what a program puts behind an operator that writes to a view.

use super::bitcast::{carrier, is_small_float, reinterpret, restore};
use super::plan::plan;
use super::read::{flip, forward, positions};
use super::steps::{Step, unstrided};
use super::window::Window;
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::shape::Dims;
use crate::stablehlo::{Func, ScatterDims, TensorType, Value};

/// The base with the window's elements replaced by `value` (dims = window.sizes, dtype = window.dtype); of the base's type.
pub fn write(f: &mut Func, base: &Value, window: &Window, value: &Value) -> Result<Value> {
    window.check(base.numel() as usize * base.dtype().bytes())?;
    check_value(window, value)?;
    if window.numel() == 0 {
        return Ok(base.clone());
    }
    ensure(!window.overlaps_itself(), overlapping)?;
    let value = flip(f, value.clone(), window)?;
    write_cast(f, base, window, &value)
}

/// `write` of what is to be stored.
fn write_cast(f: &mut Func, base: &Value, window: &Window, value: &Value) -> Result<Value> {
    if window.dtype == base.dtype() && window.is_whole(base.ty()) {
        return f.reshape(value, base.dims());
    }
    if is_small_float(base.dtype()) {
        let bytes = f.bitcast(base, DType::U8)?;
        let bytes = write_cast(f, &bytes, window, value)?;
        return f.bitcast(&bytes, base.dtype());
    }
    let carrier = carrier(window.dtype, base.dtype());
    if carrier != base.dtype()
        && let Some((start, limit, narrow)) = window.narrow(base.ty())
    {
        let rows = f.slice(base, &start, &limit, &vec![1; base.rank()])?;
        let rows = write_cast(f, &rows, &narrow, value)?;
        return update(f, base, &rows, &start);
    }
    if let Some((parts, imaginary)) = window.part_of(base.dtype()) {
        let (real, imag) = (f.real(base)?, f.imag(base)?);
        return if imaginary {
            let imag = write_steps(f, &imag, &parts, value)?;
            f.complex(&real, &imag)
        } else {
            let real = write_steps(f, &real, &parts, value)?;
            f.complex(&real, &imag)
        };
    }
    let value = reinterpret(f, value, carrier)?;
    let x = reinterpret(f, base, carrier)?;
    let y = write_steps(f, &x, window, &value)?;
    restore(f, base, &y)
}

/// `x` with `value` in it from the position `start` on.
fn update(f: &mut Func, x: &Value, value: &Value, start: &[i64]) -> Result<Value> {
    let dtype = if x.dims().iter().all(|&dim| dim <= i64::from(i32::MAX)) {
        DType::I32
    } else {
        DType::I64
    };
    let starts: Vec<Value> = start.iter().map(|&at| f.constant(dtype, &[], at)).collect();
    f.dynamic_update_slice(x, value, &starts)
}

/// The buffer type that a storage gets when the window, covering it wholly (dense, any permutation), is written: its dims in storage
/// order. `None` if the window does not cover `storage_bytes`.
pub fn whole_type(window: &Window, storage_bytes: usize) -> Option<TensorType> {
    let covers = window.offset == 0
        && window.is_dense()
        && window.numel() as u64 * window.dtype.bytes() as u64 == storage_bytes as u64;
    let in_order = |order: Vec<usize>| order.iter().map(|&axis| window.sizes[axis]).collect::<Dims>();
    covers.then(|| TensorType {
        dtype: window.dtype,
        dims: in_order(storage_order(window)),
    })
}

/// The new buffer of a storage that the window covers wholly, of [`whole_type`].
pub fn write_whole(f: &mut Func, window: &Window, value: &Value) -> Result<Value> {
    check_value(window, value)?;
    ensure(window.offset == 0 && window.is_dense(), || {
        Error::runtime(format!(
            "a window of sizes {:?}, strides {:?} and storage offset {} does not cover a storage wholly",
            window.sizes.as_slice(),
            window.strides.as_slice(),
            window.offset
        ))
    })?;
    let value = flip(f, value.clone(), window)?;
    f.transpose(&value, &storage_order(window))
}

/// The window's axes, largest stride first; as they are where only sizes of 1 are out of order.
fn storage_order(window: &Window) -> Vec<usize> {
    let mut order: Vec<usize> = (0..window.sizes.len()).collect();
    if !window.is_contiguous() {
        order.sort_by_key(|&axis| std::cmp::Reverse(window.strides[axis]));
    }
    order
}

fn check_value(window: &Window, value: &Value) -> Result<()> {
    ensure(*value.ty() == window.ty(), || {
        Error::runtime(format!(
            "a value of type {} was to be written to a view of type {}",
            value.ty(),
            window.ty()
        ))
    })
}

fn overlapping() -> Error {
    Error::runtime(
        "unsupported operation: more than one element of the written-to tensor refers to a single memory location. \
         Please clone() the tensor before performing the operation.",
    )
}

fn write_steps(f: &mut Func, x: &Value, window: &Window, value: &Value) -> Result<Value> {
    let steps = unstrided(x.dims(), plan(x.dims(), window));
    // The values on the way in, then the way back out with the new ones.
    let mut before = vec![x.clone()];
    for step in steps.iter().take(steps.len().saturating_sub(1)) {
        if let Some(last) = before.last() {
            let next = forward(f, last, step)?;
            before.push(next);
        }
    }
    let mut value = value.clone();
    for (step, x) in steps.iter().zip(&before).rev() {
        value = backward(f, x, step, &value)?;
    }
    Ok(value)
}

/// `x` with `value` in place of what `step` makes of it.
fn backward(f: &mut Func, x: &Value, step: &Step, value: &Value) -> Result<Value> {
    match step {
        Step::Slice { start, stride, .. } if stride.iter().all(|&by| by == 1) => update(f, x, value, start),
        Step::Slice { start, stride, .. } => {
            let (low, interior) = (start.to_vec(), stride.iter().map(|by| by - 1).collect::<Vec<i64>>());
            let high: Vec<i64> = (0..x.rank())
                .map(|axis| x.dim(axis) - low[axis] - (value.dim(axis) - 1) * stride[axis] - 1)
                .collect();
            let zero = f.constant(x.dtype(), &[], 0);
            let spread = f.pad(value, &zero, &low, &high, &interior)?;
            let (yes, no) = (
                f.constant(DType::Bool, value.dims(), true),
                f.constant(DType::Bool, &[], false),
            );
            let mask = f.pad(&yes, &no, &low, &high, &interior)?;
            f.select(&mask, &spread, x)
        }
        Step::Pad { .. } => f.slice(value, &vec![0; x.rank()], x.dims(), &vec![1; x.rank()]),
        Step::Reshape(_) => f.reshape(value, x.dims()),
        Step::Transpose(permutation) => {
            let mut inverse = vec![0; permutation.len()];
            permutation
                .iter()
                .enumerate()
                .for_each(|(to, &from)| inverse[from] = to);
            f.transpose(value, &inverse)
        }
        Step::Broadcast { .. } => Err(overlapping()),
        Step::Take { axis, start, dims } => {
            let indices = positions(f, x.dim(*axis), *start, dims)?;
            let scatter = ScatterDims {
                update_window_dims: (0..x.rank()).filter(|other| other != axis).collect(),
                inserted_window_dims: vec![*axis],
                scatter_dims_to_operand_dims: vec![*axis],
                index_vector_dim: 1,
                ..ScatterDims::default()
            };
            let (x, value) = (x.clone(), value.clone());
            let replaced = f.scatter(&[x], &indices, &[value], &scatter, false, true, |_, _, updates| {
                Ok(updates.to_vec())
            })?;
            replaced
                .into_iter()
                .next()
                .ok_or_else(|| Error::runtime("scatter gave no result"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims_of(sizes: &[i64], strides: &[i64], storage_bytes: usize) -> Option<Vec<i64>> {
        let contiguous = Window::contiguous(DType::F32, sizes);
        let window = Window {
            strides: Dims::from_slice(strides),
            ..contiguous
        };
        whole_type(&window, storage_bytes).map(|ty| ty.dims.to_vec())
    }

    #[test]
    fn a_buffer_is_kept_in_storage_order() {
        assert_eq!(dims_of(&[2, 3], &[3, 1], 24), Some(vec![2, 3]));
        assert_eq!(dims_of(&[2, 3], &[1, 2], 24), Some(vec![3, 2]));
        assert_eq!(dims_of(&[2, 3, 8, 8], &[192, 1, 24, 3], 1536), Some(vec![2, 8, 8, 3]));
        // Sizes of 1 stay where they are unless something else moves.
        assert_eq!(dims_of(&[2, 1, 4], &[4, 1, 1], 32), Some(vec![2, 1, 4]));
        assert_eq!(dims_of(&[1, 3, 2], &[1, 1, 3], 24), Some(vec![2, 1, 3]));
        assert_eq!(dims_of(&[2, 0], &[1, 1], 0), Some(vec![2, 0]));
        assert_eq!(dims_of(&[], &[], 4), Some(vec![]));
    }

    #[test]
    fn a_window_with_gaps_or_beside_other_bytes_covers_no_storage() {
        assert_eq!(dims_of(&[2, 3], &[3, 1], 28), None);
        assert_eq!(dims_of(&[2, 3], &[4, 1], 24), None);
        assert_eq!(dims_of(&[2, 3], &[0, 1], 24), None);
        assert_eq!(dims_of(&[2, 0], &[1, 1], 4), None);
    }
}
