//! Strided windows: PyTorch's view algebra on host numbers only.

use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::shape::{Dims, contiguous_strides, numel};
use crate::stablehlo::TensorType;

/// Windows up to this many elements are checked for overlaps element by element where the strides alone do not tell.
const ENUMERATED: i64 = 1 << 24;

/// A strided window onto a storage: PyTorch's sizes, strides and storage offset, in elements of `dtype`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    pub dtype: DType,
    pub sizes: Dims,
    pub strides: Dims,
    pub offset: i64,
    /// The logical value is the conjugate of what is stored.
    pub conj: bool,
    /// The logical value is the negative of what is stored.
    pub neg: bool,
}

impl Window {
    pub fn contiguous(dtype: DType, dims: &[i64]) -> Self {
        let (sizes, strides) = (Dims::from_slice(dims), contiguous_strides(dims));
        Self {
            dtype,
            sizes,
            strides,
            offset: 0,
            conj: false,
            neg: false,
        }
    }

    pub fn numel(&self) -> i64 {
        numel(&self.sizes)
    }

    /// The type of the logical value.
    pub fn ty(&self) -> TensorType {
        TensorType::new(self.dtype, &self.sizes)
    }

    /// Elements that the storage must have for every index to be inside; 0 for an empty window. Saturates.
    pub fn required_elements(&self) -> i64 {
        if self.sizes.contains(&0) {
            return 0;
        }
        let extents = self
            .sizes
            .iter()
            .zip(&self.strides)
            .map(|(&size, &stride)| (size - 1).saturating_mul(stride));
        extents.fold(self.offset.saturating_add(1), i64::saturating_add)
    }

    /// Covers every element of a base of this type, in order and with the same number of bytes. Says nothing about `conj` and `neg`.
    pub fn is_whole(&self, base: &TensorType) -> bool {
        self.offset == 0
            && self.numel() * self.dtype.bytes() as i64 == base.numel() * base.dtype.bytes() as i64
            && self.is_contiguous()
    }

    /// Row-major without gaps, whatever the strides of dims of size 1.
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        self.sizes.contains(&0)
            || self.sizes.iter().zip(&self.strides).rev().all(|(&size, &stride)| {
                let fits = size == 1 || stride == expected;
                expected *= size;
                fits
            })
    }

    /// Dims of more than one element, largest stride first (of equal strides the outer dim first).
    pub fn by_stride(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.sizes.len()).filter(|&axis| self.sizes[axis] > 1).collect();
        order.sort_by_key(|&axis| std::cmp::Reverse(self.strides[axis]));
        order
    }

    /// A permuted contiguous window: no gaps, no overlaps.
    pub fn is_dense(&self) -> bool {
        let mut expected = 1;
        self.sizes.contains(&0)
            || self.by_stride().iter().rev().all(|&axis| {
                let fits = self.strides[axis] == expected;
                expected *= self.sizes[axis];
                fits
            })
    }

    /// More than one index maps to one memory location. Exact, except that windows of interleaved strides with more than 2^24
    /// elements count as overlapping.
    pub fn overlaps_itself(&self) -> bool {
        if self.sizes.contains(&0) {
            return false;
        }
        // Nested dims: each one steps over everything that the faster ones reach.
        let order = self.by_stride();
        let (mut reach, mut nested) = (0i64, true);
        for &axis in order.iter().rev() {
            nested &= self.strides[axis] > reach;
            reach = (self.sizes[axis] - 1)
                .saturating_mul(self.strides[axis])
                .saturating_add(reach);
        }
        if nested {
            return false;
        }
        let count = self.numel();
        if order.iter().any(|&axis| self.strides[axis] == 0) || count > reach.saturating_add(1) || count > ENUMERATED {
            return true;
        }
        let mut positions = vec![0i64];
        for &axis in &order {
            let (size, stride) = (self.sizes[axis], self.strides[axis]);
            positions = positions
                .iter()
                .flat_map(|&at| (0..size).map(move |index| at + index * stride))
                .collect();
        }
        positions.sort_unstable();
        positions.windows(2).any(|pair| pair[0] == pair[1])
    }

    /// An error unless the window is well formed and lies inside a storage of `storage_bytes`.
    pub fn check(&self, storage_bytes: usize) -> Result<()> {
        ensure(self.sizes.len() == self.strides.len(), || {
            Error::runtime(format!(
                "mismatch in length of strides and shape: sizes {:?}, strides {:?}",
                self.sizes.as_slice(),
                self.strides.as_slice()
            ))
        })?;
        ensure(self.strides.iter().all(|&stride| stride >= 0), || {
            Error::runtime(format!(
                "as_strided: Negative strides are not supported at the moment, got strides: {:?}",
                self.strides.as_slice()
            ))
        })?;
        ensure(self.sizes.iter().all(|&size| size >= 0) && self.offset >= 0, || {
            Error::runtime(format!(
                "Tensor: invalid storage offset {} or sizes {:?}",
                self.offset,
                self.sizes.as_slice()
            ))
        })?;
        let bytes = self.required_elements().saturating_mul(self.dtype.bytes() as i64);
        ensure(bytes as u64 <= storage_bytes as u64, || {
            Error::runtime(format!(
                "setStorage: sizes {:?}, strides {:?}, storage offset {}, and itemsize {} requiring a storage size of \
                 {bytes} are out of bounds for storage of size {storage_bytes}",
                self.sizes.as_slice(),
                self.strides.as_slice(),
                self.offset,
                self.dtype.bytes()
            ))
        })
    }

    /// The rows of a base of another dtype that the window touches, as `start` and `limit` of every axis, and the window on
    /// those rows alone.
    /// `None` when that is all of the base. The window is not empty and lies inside.
    pub(super) fn narrow(&self, base: &TensorType) -> Option<(Dims, Dims, Window)> {
        let (from, to) = (base.dtype.bytes() as i64, self.dtype.bytes() as i64);
        let (first, last) = (self.offset * to / from, (self.required_elements() * to - 1) / from);
        let (mut start, mut limit, mut skipped) = (Dims::from_elem(0, base.rank()), base.dims.clone(), 0);
        for (axis, row) in contiguous_strides(&base.dims).into_iter().enumerate() {
            // Whole elements of the window's dtype must lie before the rows.
            let granule = (1..).find(|count| count * row * from % to == 0).unwrap_or(1);
            let (low, high) = (first / row % base.dims[axis], last / row % base.dims[axis]);
            let low = low - low % granule;
            (start[axis], limit[axis]) = (low, high + 1);
            skipped += low * row;
            if low < high {
                break;
            }
        }
        let narrower = limit != base.dims || start.iter().any(|&at| at > 0);
        narrower.then(|| {
            (
                start,
                limit,
                Window {
                    offset: self.offset - skipped * from / to,
                    ..self.clone()
                },
            )
        })
    }

    /// The window seen on the real or the imaginary parts alone of a complex base, and whether it is the imaginary ones; `None` when it
    /// touches both, or is no such view.
    pub(super) fn part_of(&self, base: DType) -> Option<(Window, bool)> {
        let even = |axis: usize| self.sizes[axis] == 1 || self.strides[axis] % 2 == 0;
        if !base.is_complex() || self.dtype != base.real() || !(0..self.sizes.len()).all(even) {
            return None;
        }
        let strides = self.strides.iter().map(|stride| stride / 2).collect();
        Some((
            Window {
                strides,
                offset: self.offset / 2,
                ..self.clone()
            },
            self.offset % 2 == 1,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn window(sizes: &[i64], strides: &[i64], offset: i64) -> Window {
        let (sizes, strides) = (Dims::from_slice(sizes), Dims::from_slice(strides));
        Window {
            dtype: DType::F32,
            sizes,
            strides,
            offset,
            conj: false,
            neg: false,
        }
    }

    #[test]
    fn sizes_of_one_have_no_stride() {
        let ty = TensorType::new(DType::F32, &[2, 3]);
        assert!(window(&[2, 1, 3], &[3, 77, 1], 0).is_whole(&ty));
        assert!(window(&[1, 6], &[0, 1], 0).is_whole(&ty));
        assert!(!window(&[2, 1, 3], &[1, 77, 2], 0).is_whole(&ty));
        assert!(window(&[2, 1, 3], &[1, 77, 2], 0).is_dense());
        assert!(!window(&[2, 3], &[3, 1], 1).is_whole(&ty));
    }

    #[test]
    fn expanded_dims_overlap() {
        assert!(window(&[2, 3], &[0, 1], 0).overlaps_itself());
        assert!(window(&[4, 3], &[1, 1], 0).overlaps_itself());
        assert!(!window(&[1, 3], &[0, 1], 0).overlaps_itself());
        assert!(!window(&[2, 3], &[3, 2], 0).overlaps_itself());
        assert!(!window(&[2, 0], &[0, 1], 0).overlaps_itself());
    }

    #[test]
    fn outside_of_the_storage_is_an_error_in_the_words_of_torch() {
        let message = window(&[2, 3], &[3, 1], 4).check(16).map_err(|error| error.message);
        let expected = "setStorage: sizes [2, 3], strides [3, 1], storage offset 4, and itemsize 4 requiring a storage size of \
                        40 are out of bounds for storage of size 16";
        assert_eq!(message, Err(expected.to_owned()));
        assert!(window(&[2, 0], &[3, 1], 400).check(0).is_ok());
        assert!(window(&[2, 3], &[i64::MAX, 1], 0).check(1 << 40).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn overlaps_are_found_exactly(dims in prop::collection::vec((1i64..5, 0i64..12), 0..4)) {
            let (sizes, strides): (Vec<i64>, Vec<i64>) = dims.into_iter().unzip();
            let mut positions = vec![0i64];
            for (&size, &stride) in sizes.iter().zip(&strides) {
                positions = positions.iter().flat_map(|&at| (0..size).map(move |index| at + index * stride)).collect();
            }
            let count = positions.len();
            positions.sort_unstable();
            positions.dedup();
            prop_assert_eq!(window(&sizes, &strides, 0).overlaps_itself(), positions.len() < count);
            let required = window(&sizes, &strides, 3).required_elements();
            prop_assert_eq!(required, positions.last().copied().unwrap_or(0) + 4);
        }
    }
}
