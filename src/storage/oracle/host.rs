//! Plans carried out on the host: the algebra alone, without programs.

use super::{Random, cases, chain, positions};
use crate::dtype::DType;
use crate::shape::{Dims, contiguous_strides, numel};
use crate::storage::plan::plan;
use crate::storage::steps::{Step, unstrided};
use crate::storage::window::Window;
use proptest::prelude::*;

/// Where each element after the step comes from in the value before it; -1 for padding.
fn sources(step: &Step, from: &[i64]) -> Vec<i64> {
    let strides = contiguous_strides(from);
    let window = |sizes: Dims, strides: Dims, offset| {
        positions(&Window {
            dtype: DType::U8,
            sizes,
            strides,
            offset,
            conj: false,
            neg: false,
        })
    };
    match step {
        Step::Slice { start, limit, stride } => {
            assert!(
                (0..from.len()).all(|axis| 0 <= start[axis] && start[axis] < limit[axis] && limit[axis] <= from[axis])
            );
            let offset = start.iter().zip(&strides).map(|(at, stride)| at * stride).sum();
            window(
                step.dims(from),
                strides.iter().zip(stride).map(|(stride, by)| stride * by).collect(),
                offset,
            )
        }
        Step::Pad { .. } => {
            let to = step.dims(from);
            let inside = |at: i64| {
                let index = contiguous_strides(&to)
                    .into_iter()
                    .zip(&to)
                    .map(|(stride, &dim)| at / stride % dim);
                let index: Vec<i64> = index.collect();
                let fits = index.iter().zip(from).all(|(at, &dim)| *at < dim);
                if fits {
                    index.iter().zip(&strides).map(|(at, stride)| at * stride).sum()
                } else {
                    -1
                }
            };
            (0..numel(&to)).map(inside).collect()
        }
        Step::Reshape(dims) => {
            assert_eq!(numel(dims), numel(from));
            (0..numel(from)).collect()
        }
        Step::Transpose(permutation) => window(
            step.dims(from),
            permutation.iter().map(|&axis| strides[axis]).collect(),
            0,
        ),
        Step::Broadcast { dims, axes } => {
            let mut wide = Dims::from_elem(0, dims.len());
            for (&axis, (&dim, &stride)) in axes.iter().zip(from.iter().zip(&strides)) {
                assert_eq!(dims[axis], dim);
                wide[axis] = stride;
            }
            window(dims.clone(), wide, 0)
        }
        Step::Take { axis, start, dims } => {
            let (sizes, steps): (Dims, Dims) = dims.iter().copied().unzip();
            let rows = window(sizes, steps, *start);
            assert!(rows.iter().all(|&row| row < from[*axis]));
            let inner = strides[*axis];
            let outer = numel(from) / (inner * from[*axis]);
            let of = |outer: i64, row: i64| (0..inner).map(move |at| outer * inner * from[*axis] + row * inner + at);
            (0..outer)
                .flat_map(|outer| rows.iter().flat_map(move |&row| of(outer, row)).collect::<Vec<_>>())
                .collect()
        }
    }
}

/// Positions in the base of the elements after all steps.
fn through(base: &[i64], steps: &[Step]) -> (Dims, Vec<i64>) {
    let (mut dims, mut at) = (Dims::from_slice(base), (0..numel(base)).collect::<Vec<i64>>());
    for step in steps {
        let sources = sources(step, &dims);
        at = sources
            .iter()
            .map(|&from| if from < 0 { -1 } else { at[from as usize] })
            .collect();
        dims = step.dims(&dims);
    }
    (dims, at)
}

fn agrees(base: &[i64], window: &Window) -> Result<(), TestCaseError> {
    let steps = plan(base, window);
    for steps in [unstrided(base, steps.clone()), steps] {
        let (dims, at) = through(base, &steps);
        prop_assert_eq!(&dims, &window.sizes, "{:?} {:?} {:?}", base, window, steps);
        prop_assert_eq!(at, positions(window), "{:?} {:?} {:?}", base, window, steps);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(20_000) as u32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plans_lead_to_the_windows_elements(seed in any::<u64>()) {
        let mut random = Random(seed);
        let dims = chain::base_dims(&mut random);
        let window = chain::chain(&mut random, DType::I32, &dims, &[DType::I32]);
        if window.numel() == 0 {
            return Ok(());
        }
        agrees(&dims, &window)?;
        // The same storage in another shape.
        let flat = [numel(&dims)];
        agrees(&flat, &window)?;
    }

    #[test]
    fn plans_of_arbitrary_strides_lead_to_the_windows_elements(
        mut base in prop::collection::vec(1i64..7, 0..4),
        dims in prop::collection::vec((1i64..5, 0i64..14), 0..4),
        offset in 0i64..20,
        spare in 0i64..2,
    ) {
        let (sizes, strides): (Dims, Dims) = dims.into_iter().unzip();
        let window = Window { dtype: DType::U8, sizes, strides, offset, conj: false, neg: false };
        base.insert(0, (window.required_elements() - 1) / numel(&base) + 1 + spare);
        agrees(&base, &window)?;
    }
}

fn kinds(base: &[i64], sizes: &[i64], strides: &[i64], offset: i64) -> Vec<&'static str> {
    let (sizes, strides) = (Dims::from_slice(sizes), Dims::from_slice(strides));
    let window = Window {
        dtype: DType::F32,
        sizes,
        strides,
        offset,
        conj: false,
        neg: false,
    };
    assert!(agrees(base, &window).is_ok());
    let kind = |step: &Step| match step {
        Step::Slice { .. } => "slice",
        Step::Pad { .. } => "pad",
        Step::Reshape(_) => "reshape",
        Step::Take { .. } => "take",
        Step::Transpose(_) => "transpose",
        Step::Broadcast { .. } => "broadcast",
    };
    plan(base, &window).iter().map(kind).collect()
}

#[test]
fn plans_are_as_short_as_they_can_be() {
    assert!(kinds(&[2, 3], &[2, 3], &[3, 1], 0).is_empty());
    assert_eq!(kinds(&[2, 3], &[6], &[1], 0), ["reshape"]);
    assert_eq!(kinds(&[4, 6], &[3, 8], &[8, 1], 0), ["reshape"]);
    assert_eq!(kinds(&[2, 3], &[3, 2], &[1, 3], 0), ["transpose"]);
    assert_eq!(kinds(&[4, 6], &[2, 6], &[6, 1], 6), ["slice"]);
    assert_eq!(kinds(&[4, 6], &[3, 2], &[2, 12], 1), ["slice", "transpose"]);
    assert_eq!(kinds(&[6], &[4, 6], &[0, 1], 0), ["broadcast"]);
    assert_eq!(kinds(&[4, 6], &[6], &[1], 12), ["slice", "reshape"]);
    // Channels-last memory, read in the logical order, then flattened over the image.
    assert_eq!(kinds(&[2, 8, 8, 3], &[2, 3, 8, 8], &[192, 1, 24, 3], 0), ["transpose"]);
    assert_eq!(
        kinds(&[2, 8, 8, 3], &[2, 3, 64], &[192, 1, 3], 0),
        ["transpose", "reshape"]
    );
    // Rows of a flat base: padded only where the last one falls short.
    assert_eq!(kinds(&[100], &[3, 5], &[10, 1], 75), ["slice", "reshape", "slice"]);
    assert_eq!(kinds(&[30], &[3, 7], &[11, 1], 1), ["pad", "reshape", "slice"]);
    // Query, key and value of attention out of one projection: [B, T, 3, H, D] → [B, H, T, D].
    assert_eq!(
        kinds(&[2, 5, 96], &[2, 4, 5, 8], &[480, 8, 96, 1], 32),
        ["slice", "reshape", "transpose"]
    );
    // unfold overlaps itself on one axis only.
    assert_eq!(
        kinds(&[2, 3, 10], &[2, 3, 8, 3], &[30, 10, 1, 1], 0),
        ["take", "reshape"]
    );
}

#[test]
fn strided_writes_take_the_cheapest_way() {
    let kinds = |base: &[i64], start: &[i64], limit: &[i64], stride: &[i64]| -> Vec<String> {
        let [start, limit, stride] = [start, limit, stride].map(Dims::from_slice);
        let steps = unstrided(base, vec![Step::Slice { start, limit, stride }]);
        steps
            .iter()
            .map(|step| {
                format!("{step:?}")
                    .split([' ', '('])
                    .next()
                    .unwrap_or_default()
                    .to_lowercase()
            })
            .collect()
    };
    assert_eq!(
        kinds(&[8, 5], &[1, 0], &[8, 5], &[2, 1]),
        ["reshape", "slice", "reshape"]
    );
    // A few rows of many are copied, many are selected, sparse ones scattered.
    assert_eq!(
        kinds(&[4000], &[10], &[20], &[3]),
        ["slice", "reshape", "slice", "reshape"]
    );
    assert_eq!(kinds(&[4000], &[1], &[3999], &[3]), ["slice"]);
    assert_eq!(kinds(&[10_000], &[0], &[10_000], &[101]), ["take"]);
}
