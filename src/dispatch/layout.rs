//! Strides of functional results.

use crate::ops::Layout;
use crate::shape::{Dims, contiguous_strides};
use smallvec::smallvec;

/// Sizes and strides of an operand.
pub type Operand<'a> = (&'a [i64], &'a [i64]);

/// Strides of a result of `dims` under an entry's rule.
pub fn strides(rule: Layout, operands: &[Operand], dims: &[i64]) -> Dims {
    match rule {
        Layout::Contiguous => contiguous_strides(dims),
        Layout::Elementwise => elementwise(operands, dims),
        Layout::LikeFirst => match operands.first() {
            Some((sizes, strides)) if sizes.len() == dims.len() && is_channels_last(sizes, strides) => {
                channels_last_strides(dims)
            }
            _ => contiguous_strides(dims),
        },
    }
}

pub fn is_contiguous(sizes: &[i64], strides: &[i64]) -> bool {
    let mut expected = 1;
    for (&size, &stride) in sizes.iter().zip(strides).rev() {
        if size == 0 {
            return true;
        }
        if size != 1 {
            if stride != expected {
                return false;
            }
            expected *= size;
        }
    }
    true
}

/// Axes from the innermost to the outermost in channels-last order: channels, then the spatial axes backwards, then the batch.
fn channels_last_order(rank: usize) -> impl Iterator<Item = usize> {
    std::iter::once(1).chain((2..rank).rev()).chain(std::iter::once(0))
}

fn is_channels_last(sizes: &[i64], strides: &[i64]) -> bool {
    if !matches!(sizes.len(), 4 | 5) || is_contiguous(sizes, strides) {
        return false;
    }
    let mut expected = 1;
    channels_last_order(sizes.len()).all(|axis| {
        let fits = sizes[axis] == 1 || strides[axis] == expected;
        expected *= sizes[axis];
        fits
    })
}

fn channels_last_strides(dims: &[i64]) -> Dims {
    dense(dims, channels_last_order(dims.len()))
}

/// Dense strides with the axes laid out from the innermost on.
fn dense(dims: &[i64], order: impl Iterator<Item = usize>) -> Dims {
    let mut strides: Dims = smallvec![1; dims.len()];
    let mut next = 1;
    for axis in order {
        strides[axis] = next;
        next *= dims[axis].max(1);
    }
    strides
}

/// TensorIterator's rule: axes are sorted by the operands' strides, the first operand that tells two axes apart decides, and the
/// result is dense in that order.
fn elementwise(operands: &[Operand], dims: &[i64]) -> Dims {
    if operands
        .iter()
        .all(|(sizes, strides)| sizes.is_empty() || (*sizes == dims && is_contiguous(sizes, strides)))
    {
        return contiguous_strides(dims);
    }
    let rank = dims.len();
    // An operand's stride of a result's axis; 0 where it is broadcast.
    let stride_of = |operand: &Operand, axis: usize| -> i64 {
        let (sizes, strides) = operand;
        match (axis + sizes.len()).checked_sub(rank) {
            Some(own) if sizes[own] == dims[axis] => strides[own],
            _ => 0,
        }
    };
    // Positive: `inner` should lie outside of `outer`.
    let compare = |inner: usize, outer: usize| -> i32 {
        for operand in operands {
            let (a, b) = (stride_of(operand, inner), stride_of(operand, outer));
            if a == 0 || b == 0 {
                continue;
            }
            if a != b {
                return if a < b { -1 } else { 1 };
            }
            if dims[inner] > dims[outer] {
                return 1;
            }
        }
        0
    };
    let mut order: Vec<usize> = (0..rank).rev().collect();
    for start in 1..rank {
        let mut moving = start;
        for candidate in (0..start).rev() {
            match compare(order[candidate], order[moving]) {
                1 => {
                    order.swap(candidate, moving);
                    moving = candidate;
                }
                -1 => break,
                _ => {}
            }
        }
    }
    dense(dims, order.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_transposed_operands_give_a_transposed_result() {
        let operand: Operand = (&[2, 3], &[1, 2]);
        assert_eq!(elementwise(&[operand, operand], &[2, 3]).as_slice(), &[1, 2]);
    }

    #[test]
    fn the_first_operand_that_tells_axes_apart_decides() {
        assert_eq!(
            elementwise(&[(&[2, 3], &[1, 2]), (&[2, 3], &[3, 1])], &[2, 3]).as_slice(),
            &[1, 2]
        );
        assert_eq!(
            elementwise(&[(&[2, 1], &[1, 1]), (&[2, 3], &[3, 1])], &[2, 3]).as_slice(),
            &[3, 1]
        );
    }

    #[test]
    fn channels_last_is_kept() {
        let strides = channels_last_strides(&[2, 3, 4, 5]);
        assert_eq!(strides.as_slice(), &[60, 1, 15, 3]);
        assert!(is_channels_last(&[2, 3, 4, 5], &strides));
        assert_eq!(elementwise(&[(&[2, 3, 4, 5], &strides)], &[2, 3, 4, 5]), strides);
    }
}
