//! The same bytes as another dtype (`x.view(dtype)`, `view_as_real`, `view_as_complex`), row-major.
//!
//! StableHLO's `bitcast_convert` knows neither bool nor complex: a bool travels as its uint8, a complex number as its two
//! parts on a last axis.

use crate::dtype::DType;
use crate::error::Result;
use crate::shape::Dims;
use crate::stablehlo::{Comparison, Func, TensorType, Value};

/// The dims that a base gets when it is seen as `dtype`: its own with another last dim, or flat where that does not divide. Bytes
/// that do not fill an element at the end are left out.
pub fn reinterpreted_dims(base: &TensorType, dtype: DType) -> Dims {
    let (from, to) = (base.dtype.bytes() as i64, dtype.bytes() as i64);
    if from == to {
        return base.dims.clone();
    }
    let mut dims = base.dims.clone();
    match dims.last_mut() {
        Some(last) if *last * from % to == 0 => *last = *last * from / to,
        None if from % to == 0 => dims.push(from / to),
        _ => dims = Dims::from_slice(&[base.numel() * from / to]),
    }
    dims
}

/// The dtype as which elements of `dtype` travel between a base of dtype `base` and a window's value: the base's own where the sizes are
/// equal, so that only the window's elements are recast. Where a view of another dtype is involved, types whose moves a plugin may carry
/// out in a wider float, which does not keep the bits of all NaNs, and bools travel as unsigned integers: what lies beside them is no such
/// number, perhaps.
pub(super) fn carrier(dtype: DType, base: DType) -> DType {
    let bits = |dtype| match dtype {
        DType::BF16 => DType::U16,
        DType::F8E5M2 | DType::F8E4M3FN | DType::Bool => DType::U8,
        other => other,
    };
    if dtype == base {
        base
    } else if dtype.bytes() == base.bytes() {
        bits(base)
    } else {
        bits(dtype)
    }
}

/// The CPU plugin moves these through float16, which makes all NaNs one: bases of them are moved as bytes.
pub(super) fn is_small_float(dtype: DType) -> bool {
    matches!(dtype, DType::F8E5M2 | DType::F8E4M3FN)
}

/// `x` seen as `dtype`, of [`reinterpreted_dims`].
pub fn reinterpret(f: &mut Func, x: &Value, dtype: DType) -> Result<Value> {
    if x.dtype() == dtype {
        return Ok(x.clone());
    }
    let dims = reinterpreted_dims(x.ty(), dtype);
    let (from, to) = (x.dtype().bytes() as i64, dtype.bytes() as i64);
    // Whole elements of the new type, on a last axis of their own.
    let mut x = x.clone();
    if from < to {
        let count = x.numel() * from / to;
        if count * to < x.numel() * from {
            x = f.reshape(&x, &[x.numel()])?;
            x = f.slice_axis(&x, 0, 0, count * to / from)?;
        }
        x = f.reshape(&x, &with_last(&dims, to / from))?;
    }
    let parts = split_parts(f, &x)?;
    let bits = recast(f, &parts, if dtype.is_bool() { DType::U8 } else { dtype.real() })?;
    let value = if dtype.is_complex() {
        let pairs = f.reshape(&bits, &with_last(&dims, 2))?;
        let part = |f: &mut Func, index| {
            let part = f.slice_axis(&pairs, dims.len(), index, index + 1)?;
            f.reshape(&part, &dims)
        };
        let (real, imag) = (part(f, 0)?, part(f, 1)?);
        f.complex(&real, &imag)?
    } else if dtype.is_bool() {
        f.compare_const(Comparison::Ne, &bits, 0)?
    } else {
        bits
    };
    f.reshape(&value, &dims)
}

/// `value`, a changed form of what [`reinterpret`] made of `base`, as the type of `base`; bytes that it does not hold are `base`'s.
pub fn restore(f: &mut Func, base: &Value, value: &Value) -> Result<Value> {
    let head = reinterpret(f, value, base.dtype())?;
    let kept = head.numel();
    let whole = if kept < base.numel() {
        let head = f.reshape(&head, &[kept])?;
        let flat = f.reshape(base, &[base.numel()])?;
        let tail = f.slice_axis(&flat, 0, kept, base.numel())?;
        f.concatenate(&[head, tail], 0)?
    } else {
        head
    };
    f.reshape(&whole, base.dims())
}

fn with_last(dims: &[i64], last: i64) -> Dims {
    dims.iter().copied().chain([last]).collect()
}

/// Bool as uint8, a complex number as two parts on a new last axis, others as they are.
fn split_parts(f: &mut Func, x: &Value) -> Result<Value> {
    if x.dtype().is_bool() {
        return f.convert(x, DType::U8);
    }
    if !x.dtype().is_complex() {
        return Ok(x.clone());
    }
    let dims = with_last(x.dims(), 1);
    let (real, imag) = (f.real(x)?, f.imag(x)?);
    let (real, imag) = (f.reshape(&real, &dims)?, f.reshape(&imag, &dims)?);
    f.concatenate(&[real, imag], x.rank())
}

/// `bitcast` whose result holds the same bytes in the same order; the last axis is regrouped as `bitcast` wants it.
fn recast(f: &mut Func, x: &Value, dtype: DType) -> Result<Value> {
    if x.dtype() == dtype {
        return Ok(x.clone());
    }
    let (from, to) = (x.dtype().bytes() as i64, dtype.bytes() as i64);
    if from >= to {
        return f.bitcast(x, dtype);
    }
    let ratio = to / from;
    let mut dims = Dims::from_slice(x.dims());
    let last = dims.pop().unwrap_or(1);
    if last != ratio {
        dims.push(last / ratio);
    }
    let grouped = f.reshape(x, &with_last(&dims, ratio))?;
    f.bitcast(&grouped, dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_dim_takes_the_difference_or_the_base_becomes_flat() {
        let dims = |dtype, dims: &[i64], to| reinterpreted_dims(&TensorType::new(dtype, dims), to).to_vec();
        assert_eq!(dims(DType::F32, &[2, 3], DType::I32), [2, 3]);
        assert_eq!(dims(DType::F32, &[2, 3], DType::I8), [2, 12]);
        assert_eq!(dims(DType::F32, &[2, 4], DType::C128), [2, 1]);
        assert_eq!(dims(DType::F32, &[2, 3], DType::I64), [3]);
        assert_eq!(dims(DType::U8, &[7], DType::I16), [3]);
        assert_eq!(dims(DType::C64, &[], DType::F32), [2]);
        assert_eq!(dims(DType::F32, &[], DType::I64), [0]);
        assert_eq!(dims(DType::I64, &[], DType::F64), Vec::<i64>::new());
    }
}
