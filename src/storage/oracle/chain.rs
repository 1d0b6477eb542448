//! Random chains of PyTorch's view operations, by PyTorch's own rules on sizes, strides and offset.

use super::Random;
use crate::dtype::DType;
use crate::shape::{Dims, numel};
use crate::storage::window::Window;

/// Dims of a random base: up to rank 4, at times flat and longer, at times with sizes of 1 or a dim of no elements.
pub fn base_dims(random: &mut Random) -> Dims {
    match random.range(0, 9) {
        0 => Dims::from_slice(&[random.range(1, 120)]),
        1 => Dims::from_slice(&[random.range(1, 4) * 12, random.pick(&[1, 2, 6, 8])]),
        2 => Dims::new(),
        3 if random.chance(2) => Dims::from_slice(&[random.range(20, 50), random.range(20, 50)]),
        _ => (0..random.range(1, 4))
            .map(|_| random.pick(&[1, 2, 2, 3, 4, 4, 5, 6, 8]))
            .collect(),
    }
}

/// A window onto `elements` of `dtype` laid out as `dims`, after up to six view operations. Dtype views go to one of `dtypes`.
pub fn chain(random: &mut Random, dtype: DType, dims: &[i64], dtypes: &[DType]) -> Window {
    let mut window = Window::contiguous(dtype, dims);
    let bytes = numel(dims) * dtype.bytes() as i64;
    for _ in 0..random.range(0, 6) {
        apply(random, &mut window, bytes, dtypes);
    }
    // 16-bit floats are negated through float32 by some plugins (and by PyTorch's CPU), which does not keep the bits of NaNs.
    window.neg = window.dtype.is_inexact() && window.dtype.bytes() >= 4 && random.chance(6);
    window.conj = window.dtype.is_complex() && random.chance(4);
    window
}

fn apply(random: &mut Random, window: &mut Window, bytes: i64, dtypes: &[DType]) {
    let rank = window.sizes.len() as i64;
    let dim = random.range(0, (rank - 1).max(0)) as usize;
    let has_dim = rank > 0;
    match random.range(0, 13) {
        0 | 1 if has_dim => slice(random, window, dim),
        2 if has_dim && window.sizes[dim] > 0 => {
            window.offset += random.range(0, window.sizes[dim] - 1) * window.strides[dim];
            window.sizes.remove(dim);
            window.strides.remove(dim);
        }
        3 | 4 if has_dim => {
            let to = random.range(0, rank - 1) as usize;
            let (size, stride) = (window.sizes.remove(dim), window.strides.remove(dim));
            window.sizes.insert(to, size);
            window.strides.insert(to, stride);
        }
        5 => {
            let at = random.range(0, rank) as usize;
            let stride = window.sizes.get(at).map_or(1, |size| size * window.strides[at]);
            window.sizes.insert(at, 1);
            window.strides.insert(at, stride);
        }
        6 if has_dim && window.sizes[dim] == 1 && random.chance(2) => {
            window.sizes[dim] = random.range(1, 3);
            window.strides[dim] = 0;
        }
        7..=9 => view(random, window),
        10 if has_dim && window.sizes[dim] > 0 => {
            let (size, step) = (random.range(1, window.sizes[dim].min(4)), random.range(1, 3));
            window.sizes[dim] = (window.sizes[dim] - size) / step + 1;
            window.sizes.push(size);
            window.strides.push(window.strides[dim]);
            window.strides[dim] *= step;
        }
        11 if random.chance(3) => as_strided(random, window, bytes),
        12 => {
            let dtype = random.pick(dtypes);
            view_dtype(window, dtype);
        }
        13 => view_complex(window),
        _ => {}
    }
}

fn slice(random: &mut Random, window: &mut Window, dim: usize) {
    let size = window.sizes[dim];
    let start = random.range(0, size);
    let end = random.range(start, size);
    let step = if size > 60 && random.chance(3) {
        97
    } else {
        random.pick(&[1, 1, 2, 3])
    };
    // Empty ones seldom: they end the chain's interest.
    if end == start && !random.chance(10) {
        return;
    }
    window.offset += start * window.strides[dim];
    window.sizes[dim] = (end - start + step - 1) / step;
    window.strides[dim] *= step;
}

/// `view` to another factorisation of the element count, where the strides allow one.
fn view(random: &mut Random, window: &mut Window) {
    let mut rest = window.numel();
    if rest == 0 {
        return;
    }
    let mut sizes = Dims::new();
    for _ in 0..random.range(0, 3) {
        let divisors: Vec<i64> = (1..=rest).filter(|divisor| rest % divisor == 0).collect();
        let size = random.pick(&divisors);
        sizes.push(size);
        rest /= size;
    }
    if rest > 1 || random.chance(4) {
        let at = random.range(0, sizes.len() as i64) as usize;
        sizes.insert(at, rest);
    }
    if let Some(strides) = view_strides(window, &sizes) {
        window.sizes = sizes;
        window.strides = strides;
    }
}

/// `at::detail::computeStride`.
fn view_strides(window: &Window, sizes: &[i64]) -> Option<Dims> {
    let mut strides = Dims::from_elem(1, sizes.len());
    let Some(&last) = window.strides.last() else {
        return Some(strides);
    };
    let (mut unit, mut old_count, mut new_count) = (last, 1, 1);
    let mut to = sizes.len();
    for from in (0..window.sizes.len()).rev() {
        old_count *= window.sizes[from];
        let run_ends = from == 0 || window.sizes[from - 1] != 1 && window.strides[from - 1] != old_count * unit;
        if !run_ends {
            continue;
        }
        while to > 0 && (new_count < old_count || sizes[to - 1] == 1) {
            to -= 1;
            strides[to] = new_count * unit;
            new_count *= sizes[to];
        }
        if new_count != old_count {
            return None;
        }
        if from > 0 {
            unit = window.strides[from - 1];
            (old_count, new_count) = (1, 1);
        }
    }
    (to == 0).then_some(strides)
}

fn as_strided(random: &mut Random, window: &mut Window, bytes: i64) {
    let elements = bytes / window.dtype.bytes() as i64;
    let sizes: Dims = (0..random.range(0, 3)).map(|_| random.range(1, 4)).collect();
    let strides: Dims = sizes.iter().map(|_| random.range(0, 9)).collect();
    let moved = Window {
        sizes,
        strides,
        offset: random.range(0, 5),
        ..window.clone()
    };
    if moved.required_elements() <= elements {
        *window = moved;
    }
}

/// `x.view(dtype)`.
fn view_dtype(window: &mut Window, dtype: DType) {
    let (from, to) = (window.dtype.bytes() as i64, dtype.bytes() as i64);
    let rank = window.sizes.len();
    if from == to {
        window.dtype = dtype;
    } else if rank > 0 && window.strides[rank - 1] == 1 {
        let scaled = |value: i64| (value * from % to == 0).then_some(value * from / to);
        let outer: Option<Dims> = window.strides[..rank - 1]
            .iter()
            .map(|&stride| scaled(stride))
            .collect();
        if let (Some(mut strides), Some(size), Some(offset)) =
            (outer, scaled(window.sizes[rank - 1]), scaled(window.offset))
        {
            strides.push(1);
            window.sizes[rank - 1] = size;
            (window.strides, window.offset, window.dtype) = (strides, offset, dtype);
        }
    }
}

/// `view_as_real` of a complex window, `view_as_complex` of one whose last dim holds pairs.
fn view_complex(window: &mut Window) {
    let rank = window.sizes.len();
    if window.dtype.is_complex() {
        window.dtype = window.dtype.real();
        window.offset *= 2;
        window.strides.iter_mut().for_each(|stride| *stride *= 2);
        window.sizes.push(2);
        window.strides.push(1);
    } else if matches!(window.dtype, DType::F32 | DType::F64)
        && rank > 0
        && (window.sizes[rank - 1], window.strides[rank - 1], window.offset % 2) == (2, 1, 0)
        && window.strides[..rank - 1].iter().all(|stride| stride % 2 == 0)
    {
        window.dtype = window.dtype.complex();
        window.offset /= 2;
        window.sizes.pop();
        window.strides.pop();
        window.strides.iter_mut().for_each(|stride| *stride /= 2);
    }
}
