//! How a window's elements are picked out of a row-major base: a list of steps, planned on host numbers only.
//!
//! Planning keeps the base's own axes where it can, slices before it reshapes, and falls back to an index list only on an axis on
//! which the window's dims overlap or interleave.

use super::steps::{Step, Steps};
use super::window::Window;
use crate::shape::{Dims, contiguous_strides, numel};
use smallvec::SmallVec;

/// How many divisors of a stride are tried before an axis gets padded.
const DIVISORS: i64 = 64;

/// (Part of) a dim of the window on an axis of the base; `stride` in elements of that axis.
#[derive(Clone, Copy, Debug)]
struct Piece {
    dim: usize,
    size: i64,
    stride: i64,
}

impl Piece {
    fn extent(&self) -> i64 {
        (self.size - 1) * self.stride
    }
}

/// One axis of the value at hand, or several neighbours about to be merged, with the pieces that lie on it, largest stride first.
#[derive(Clone, Debug)]
struct Axis {
    dims: Dims,
    start: i64,
    pieces: SmallVec<[Piece; 2]>,
}

impl Axis {
    fn is_done(&self) -> bool {
        self.dims.len() == 1 && self.start == 0 && self.pieces.len() <= 1 && {
            let (size, stride) = self.pieces.first().map_or((1, 1), |piece| (piece.size, piece.stride));
            self.dims[0] == size && stride == 1
        }
    }

    /// Distance from the first to the last element.
    fn extent(&self) -> i64 {
        self.pieces.iter().map(Piece::extent).sum()
    }
}

/// The steps from a base of `base` dims (row-major, of the window's dtype) to the window's value. The window is not empty and lies inside.
pub fn plan(base: &[i64], window: &Window) -> Vec<Step> {
    let mut steps = Steps {
        dims: Dims::from_slice(base),
        steps: Vec::new(),
    };
    let mut axes = place(base, window);
    while !axes.iter().all(Axis::is_done) {
        axes = advance(&mut steps, axes);
    }
    finish(&mut steps, &axes, window);
    steps.steps
}

/// Distributes the window's dims over the base's axes. Dims that run over several axes are cut up where they cover the inner ones
/// wholly; where they cannot be, the axes are merged.
fn place(base: &[i64], window: &Window) -> Vec<Axis> {
    let order = window.by_stride();
    let moving = order.into_iter().filter(|&dim| window.strides[dim] > 0);
    let mut pieces: Vec<Piece> = moving
        .map(|dim| Piece {
            dim,
            size: window.sizes[dim],
            stride: window.strides[dim],
        })
        .collect();
    let strides = contiguous_strides(base);
    let kept: Vec<bool> = strides
        .iter()
        .map(|&boundary| separates(boundary, &pieces, window.offset))
        .collect();
    for (&boundary, _) in strides.iter().zip(&kept).filter(|(_, kept)| **kept) {
        pieces = pieces.into_iter().flat_map(|piece| cut(piece, boundary)).collect();
    }
    let mut axes = Vec::new();
    let mut first = 0;
    for axis in 0..base.len() {
        if axis + 1 < base.len() && !kept[axis] {
            continue;
        }
        let (unit, dims) = (strides[axis], Dims::from_slice(&base[first..=axis]));
        let size = numel(&dims);
        let inside = |piece: &&Piece| unit <= piece.stride && piece.stride < unit * size;
        let scaled = pieces.iter().filter(inside).map(|piece| Piece {
            stride: piece.stride / unit,
            ..*piece
        });
        axes.push(Axis {
            start: window.offset / unit % size,
            pieces: scaled.collect(),
            dims,
        });
        first = axis + 1;
    }
    axes
}

/// Every piece either steps by multiples of `boundary`, or stays inside one run of that many elements, or can be cut there.
fn separates(boundary: i64, pieces: &[Piece], offset: i64) -> bool {
    let mut reach = offset % boundary;
    for piece in pieces {
        if piece.stride >= boundary {
            if piece.stride % boundary != 0 {
                return false;
            }
        } else if piece.extent() < boundary {
            reach += piece.extent();
        } else if boundary % piece.stride == 0 && piece.size % (boundary / piece.stride) == 0 {
            reach += boundary - piece.stride;
        } else {
            return false;
        }
    }
    reach < boundary
}

/// The piece as an outer one that steps by `boundary` and an inner one, if it crosses the boundary.
fn cut(piece: Piece, boundary: i64) -> SmallVec<[Piece; 2]> {
    if piece.stride >= boundary || piece.extent() < boundary {
        return SmallVec::from_slice(&[piece]);
    }
    let inner = boundary / piece.stride;
    SmallVec::from_slice(&[
        Piece {
            size: piece.size / inner,
            stride: boundary,
            ..piece
        },
        Piece { size: inner, ..piece },
    ])
}

/// One round of slice, pad, take and reshape, in which each axis comes nearer to holding one piece and nothing else.
fn advance(steps: &mut Steps, axes: Vec<Axis>) -> Vec<Axis> {
    let (mut start, mut limit, mut stride, mut high) = (Dims::new(), Dims::new(), Dims::new(), Dims::new());
    let mut takes = Vec::new();
    let mut next: Vec<Axis> = Vec::new();
    let mut range = |from: i64, to: i64, by: i64, padding: i64| {
        start.push(from);
        limit.push(to);
        stride.push(by);
        high.push(padding);
        start.len() - 1
    };
    for axis in axes {
        let dim = axis.dims[0];
        if axis.dims.len() > 1 {
            // Merge, but only the rows that the window touches.
            let row = numel(&axis.dims[1..]);
            let (from, to) = (axis.start / row, (axis.start + axis.extent()) / row + 1);
            range(from, to, 1, 0);
            axis.dims[1..].iter().for_each(|&dim| {
                range(0, dim, 1, 0);
            });
            next.push(Axis {
                dims: Dims::from_slice(&[(to - from) * row]),
                start: axis.start - from * row,
                ..axis
            });
            continue;
        }
        let Some((&outer, inner)) = axis.pieces.split_first() else {
            range(axis.start, axis.start + 1, 1, 0);
            next.push(done(1, None));
            continue;
        };
        let reach = inner.iter().map(Piece::extent).sum::<i64>() + 1;
        if inner.is_empty() {
            range(axis.start, axis.start + outer.extent() + 1, outer.stride, 0);
            next.push(done(outer.size, Some(outer)));
        } else if outer.stride < reach {
            let at = range(0, dim, 1, 0);
            let dims = axis.pieces.iter().map(|piece| (piece.size, piece.stride)).collect();
            takes.push(Step::Take {
                axis: at,
                start: axis.start,
                dims,
            });
            next.extend(axis.pieces.iter().map(|&piece| done(piece.size, Some(piece))));
        } else {
            let Split { row, from, padding } = split(dim, axis.start, outer, reach);
            let rows = (outer.size - 1) * (outer.stride / row) + 1;
            range(from, from + rows * row - padding, 1, padding);
            let stepping = Piece {
                stride: outer.stride / row,
                ..outer
            };
            next.push(Axis {
                dims: Dims::from_slice(&[rows]),
                start: 0,
                pieces: SmallVec::from_slice(&[stepping]),
            });
            let (dims, pieces) = (Dims::from_slice(&[row]), SmallVec::from_slice(inner));
            next.push(Axis {
                dims,
                start: axis.start - from,
                pieces,
            });
        }
    }
    steps.push(Step::Slice { start, limit, stride });
    steps.push(Step::Pad { high });
    takes.into_iter().for_each(|take| steps.push(take));
    steps.push(Step::Reshape(
        next.iter().flat_map(|axis| axis.dims.iter().copied()).collect(),
    ));
    next
}

fn done(size: i64, piece: Option<Piece>) -> Axis {
    let pieces = piece.into_iter().map(|piece| Piece { stride: 1, ..piece }).collect();
    Axis {
        dims: Dims::from_slice(&[size]),
        start: 0,
        pieces,
    }
}

/// How an axis becomes rows: from element `from` on, rows of `row` elements, the last ones of which are `padding`.
struct Split {
    row: i64,
    from: i64,
    padding: i64,
}

/// Rows such that `outer` steps over whole ones and the other pieces, which reach over `reach` elements from `start`, stay inside one.
fn split(dim: i64, start: i64, outer: Piece, reach: i64) -> Split {
    for divisor in (1..=DIVISORS).filter(|divisor| outer.stride % divisor == 0) {
        let row = outer.stride / divisor;
        if row < reach {
            break;
        }
        let (low, high) = ((start + reach - row).max(0), start.min(dim - outer.extent() - row));
        if low <= high {
            let aligned = start - start % row;
            return Split {
                row,
                from: if low <= aligned && aligned <= high {
                    aligned
                } else {
                    high
                },
                padding: 0,
            };
        }
    }
    let (row, from) = (outer.stride, (start + reach - outer.stride).max(0));
    Split {
        row,
        from,
        padding: from + outer.size * row - dim,
    }
}

/// From one axis per piece to the window's dims.
fn finish(steps: &mut Steps, axes: &[Axis], window: &Window) {
    let pieces: Vec<Piece> = axes.iter().filter_map(|axis| axis.pieces.first().copied()).collect();
    steps.push(Step::Reshape(pieces.iter().map(|piece| piece.size).collect()));
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    order.sort_by_key(|&axis| pieces[axis].dim);
    steps.push(Step::Transpose(order));
    let rank = window.sizes.len();
    let axes: Vec<usize> = (0..rank)
        .filter(|&dim| window.sizes[dim] == 1 || window.strides[dim] > 0)
        .collect();
    steps.push(Step::Reshape(axes.iter().map(|&dim| window.sizes[dim]).collect()));
    steps.push(Step::Broadcast {
        dims: window.sizes.clone(),
        axes,
    });
}
