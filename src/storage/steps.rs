//! The moves between a base and a window's value, on host numbers only.
//!
//! Every step is a *lens*: it can be read through (`read.rs`) and written through (`write.rs`).

use crate::shape::{Dims, numel};

/// One move from a value to a value nearer to the window's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Elements `start..limit` by `stride` of every axis.
    Slice {
        start: Dims,
        limit: Dims,
        stride: Dims,
    },
    /// That many elements of no meaning at the end of every axis.
    Pad {
        high: Dims,
    },
    Reshape(Dims),
    /// Along `axis`, the positions `start + Σ stride · index` of all indices of the listed `(size, stride)` dims in row-major order.
    Take {
        axis: usize,
        start: i64,
        dims: Vec<(i64, i64)>,
    },
    Transpose(Vec<usize>),
    /// Axis `i` becomes axis `axes[i]` of a value of `dims`.
    Broadcast {
        dims: Dims,
        axes: Vec<usize>,
    },
}

impl Step {
    /// The dims after the step.
    pub fn dims(&self, from: &[i64]) -> Dims {
        match self {
            Step::Slice { start, limit, stride } => (0..from.len())
                .map(|axis| (limit[axis] - start[axis] + stride[axis] - 1) / stride[axis])
                .collect(),
            Step::Pad { high } => from.iter().zip(high).map(|(dim, high)| dim + high).collect(),
            Step::Reshape(dims) | Step::Broadcast { dims, .. } => dims.clone(),
            Step::Take { axis, dims, .. } => {
                let mut result = Dims::from_slice(from);
                result[*axis] = dims.iter().map(|dim| dim.0).product();
                result
            }
            Step::Transpose(permutation) => permutation.iter().map(|&axis| from[axis]).collect(),
        }
    }
}

/// Steps so far and the dims that they lead to. Steps that change nothing are left out, neighbouring reshapes become one.
pub(super) struct Steps {
    pub dims: Dims,
    pub steps: Vec<Step>,
}

impl Steps {
    pub fn new(base: &[i64]) -> Self {
        Self {
            dims: Dims::from_slice(base),
            steps: Vec::new(),
        }
    }

    pub fn push(&mut self, step: Step) {
        let idle = match &step {
            Step::Slice { start, limit, stride } => {
                start.iter().all(|&at| at == 0) && *limit == self.dims && stride.iter().all(|&by| by == 1)
            }
            Step::Pad { high } => high.iter().all(|&count| count == 0),
            Step::Reshape(dims) => *dims == self.dims,
            Step::Transpose(permutation) => permutation.iter().enumerate().all(|(to, &from)| to == from),
            Step::Broadcast { dims, .. } => *dims == self.dims,
            Step::Take { .. } => false,
        };
        if idle {
            return;
        }
        if let (Step::Reshape(_), Some(Step::Reshape(_))) = (&step, self.steps.last()) {
            self.steps.pop();
        }
        self.dims = step.dims(&self.dims);
        self.steps.push(step);
    }
}

/// A copy of rows pays up to this fraction of the whole.
const COPIED: i64 = 8;
/// Scattering pays for elements as sparse as this.
const SPARSE: i64 = 64;

/// The same steps for writing, where a slice by more than one element has no update in place of its own. It stays (and is written by
/// selecting over the whole) where nothing below is cheaper.
pub fn unstrided(base: &[i64], steps: Vec<Step>) -> Vec<Step> {
    let mut result = Steps::new(base);
    for step in steps {
        let steps = in_place(&result.dims, &step).unwrap_or_else(|| vec![step]);
        steps.into_iter().for_each(|step| result.push(step));
    }
    result.steps
}

/// A strided slice as a column of rows, if the axis has room for whole ones, or as single positions.
fn in_place(from: &[i64], step: &Step) -> Option<Vec<Step>> {
    let Step::Slice { start, limit, stride } = step else {
        return None;
    };
    if stride.iter().all(|&by| by == 1) {
        return None;
    }
    let (counts, whole) = (step.dims(from), numel(from));
    let rows = rows(from, start, limit, stride, &counts);
    let copied = rows.as_ref().map_or(whole, |(copied, _)| *copied);
    if let Some((_, steps)) = rows
        && (copied == whole || copied <= whole / COPIED && numel(&counts) > copied / SPARSE)
    {
        return Some(steps.into());
    }
    if numel(&counts) > copied / SPARSE {
        return None;
    }
    let (mut start, mut limit, mut takes) = (start.clone(), limit.clone(), Vec::new());
    for axis in (0..from.len()).filter(|&axis| stride[axis] > 1) {
        takes.push(Step::Take {
            axis,
            start: start[axis],
            dims: vec![(counts[axis], stride[axis])],
        });
        (start[axis], limit[axis]) = (0, from[axis]);
    }
    takes.insert(
        0,
        Step::Slice {
            start,
            limit,
            stride: Dims::from_elem(1, from.len()),
        },
    );
    Some(takes)
}

/// The slice as whole rows of each strided axis and a column of them, and how many elements the rows have.
fn rows(from: &[i64], start: &[i64], limit: &[i64], stride: &[i64], counts: &Dims) -> Option<(i64, [Step; 4])> {
    let (mut first, mut last) = (Dims::from_slice(start), Dims::from_slice(limit));
    let (mut dims, mut low, mut high) = (Dims::new(), Dims::new(), Dims::new());
    for axis in 0..from.len() {
        let (count, by) = (counts[axis], stride[axis]);
        dims.push(count);
        low.push(0);
        high.push(count);
        if by == 1 {
            continue;
        }
        let (least, most) = ((start[axis] - by + 1).max(0), start[axis].min(from[axis] - count * by));
        if least > most {
            return None;
        }
        let aligned = start[axis] - start[axis] % by;
        let at = if least <= aligned && aligned <= most {
            aligned
        } else {
            most
        };
        (first[axis], last[axis]) = (at, at + count * by);
        dims.push(by);
        low.push(start[axis] - at);
        high.push(start[axis] - at + 1);
    }
    let copied = first.iter().zip(&last).map(|(first, last)| last - first).product();
    let (outer, inner) = (Dims::from_elem(1, from.len()), Dims::from_elem(1, dims.len()));
    let rows = Step::Slice {
        start: first,
        limit: last,
        stride: outer,
    };
    let column = Step::Slice {
        start: low,
        limit: high,
        stride: inner,
    };
    Some((
        copied,
        [rows, Step::Reshape(dims), column, Step::Reshape(counts.clone())],
    ))
}
