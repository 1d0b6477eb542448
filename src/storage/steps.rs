//! The moves between a base and a window's value, on host numbers only.
//!
//! Every step is a *lens*: it can be read through (`read.rs`) and written through (`write.rs`).

use crate::shape::Dims;

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
    /// Along `axis`, the positions `Σ stride · index` of all indices of the listed `(size, stride)` dims in row-major order.
    Take {
        axis: usize,
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
            Step::Take { axis, dims } => {
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

/// The same steps for writing: slices by more than one element become runs, rows and a column where the axis has room for whole rows, so
/// that a plain update in place does. The others stay.
pub fn unstrided(base: &[i64], steps: Vec<Step>) -> Vec<Step> {
    let mut result = Steps {
        dims: Dims::from_slice(base),
        steps: Vec::new(),
    };
    for step in steps {
        match rows(&result.dims, &step) {
            Some(rows) => rows.into_iter().for_each(|step| result.push(step)),
            None => result.push(step),
        }
    }
    result.steps
}

fn rows(from: &[i64], step: &Step) -> Option<[Step; 4]> {
    let Step::Slice { start, limit, stride } = step else {
        return None;
    };
    if stride.iter().all(|&by| by == 1) {
        return None;
    }
    let counts = step.dims(from);
    let (mut first, mut last) = (Dims::new(), Dims::new());
    let (mut dims, mut low, mut high) = (Dims::new(), Dims::new(), Dims::new());
    for axis in 0..from.len() {
        let (count, by) = (counts[axis], stride[axis]);
        if by == 1 {
            first.push(start[axis]);
            last.push(limit[axis]);
            dims.push(count);
            low.push(0);
            high.push(count);
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
        first.push(at);
        last.push(at + count * by);
        dims.extend([count, by]);
        low.extend([0, start[axis] - at]);
        high.extend([count, start[axis] - at + 1]);
    }
    let (outer, inner) = (Dims::from_elem(1, from.len()), Dims::from_elem(1, dims.len()));
    Some([
        Step::Slice {
            start: first,
            limit: last,
            stride: outer,
        },
        Step::Reshape(dims),
        Step::Slice {
            start: low,
            limit: high,
            stride: inner,
        },
        Step::Reshape(counts),
    ])
}
