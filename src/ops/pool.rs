//! Windows of pooling: arguments, PyTorch's checks, and the gathering form of the gradients.

use super::spatial::{self, check_dim};
use super::{Call, common};
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::stablehlo::{Func, Value};

/// The windows along one axis: window `o` covers positions `o·stride - padding + i·dilation` for `i` in `0..kernel`.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    pub size: i64,
    pub kernel: i64,
    pub stride: i64,
    pub padding: i64,
    pub dilation: i64,
    pub output: i64,
}

impl Axis {
    /// Padding at the high end so that the windows just fit; negative where the last positions are in no window.
    pub fn high(&self) -> i64 {
        (self.output - 1) * self.stride + (self.kernel - 1) * self.dilation + 1 - self.size - self.padding
    }

    /// Windows do not overlap, and each is a run of positions.
    pub fn disjoint(&self) -> bool {
        self.stride >= self.kernel && (self.dilation == 1 || self.kernel == 1)
    }

    /// Positions are dealt with by residue modulo the stride: how many residues, and how many positions each has.
    fn residues(&self) -> (i64, i64) {
        (self.stride.min(self.size), (self.size + self.stride - 1) / self.stride)
    }

    /// The window positions `i` that reach the positions of a residue, and by how much that window's number exceeds the position's.
    fn reaching(&self, residue: i64) -> Vec<(i64, i64)> {
        (0..self.kernel)
            .filter_map(|tap| {
                let distance = residue + self.padding - tap * self.dilation;
                (distance.rem_euclid(self.stride) == 0).then(|| (tap, distance.div_euclid(self.stride)))
            })
            .collect()
    }

    /// How many windows must be added at either end so that every position finds its own.
    fn window_padding(&self) -> (i64, i64) {
        let (residues, count) = self.residues();
        let offsets: Vec<i64> = (0..residues)
            .flat_map(|residue| self.reaching(residue))
            .map(|(_, offset)| offset)
            .collect();
        let low = offsets.iter().map(|offset| -offset).max().unwrap_or(0).max(0);
        let high = offsets
            .iter()
            .map(|offset| count + offset - self.output)
            .max()
            .unwrap_or(0)
            .max(0);
        (low, high)
    }
}

/// The windows of a pooling call over the last axes.
#[derive(Debug)]
pub struct Windows {
    pub axes: Vec<Axis>,
}

impl Windows {
    pub fn field(&self, get: impl Fn(&Axis) -> i64) -> Vec<i64> {
        self.axes.iter().map(get).collect()
    }

    pub fn output(&self) -> Vec<i64> {
        self.field(|axis| axis.output)
    }

    /// Number of elements of a window.
    pub fn taps(&self) -> i64 {
        self.axes.iter().map(|axis| axis.kernel).product()
    }

    /// `x`'s dims with the pooled axes replaced by the number of windows.
    pub fn output_dims(&self, x: &Value) -> Vec<i64> {
        [&x.dims()[..x.rank() - self.axes.len()], &self.output()].concat()
    }
}

/// `at::native::pooling_output_shape`
fn output_size(size: i64, kernel: i64, padding: i64, stride: i64, dilation: i64, ceil: bool) -> Result<i64> {
    ensure(stride != 0, || Error::runtime("stride should not be zero"))?;
    ensure(padding >= 0, || {
        Error::runtime(format!("pad must be non-negative, but got pad: {padding}"))
    })?;
    ensure(padding <= ((kernel - 1) * dilation + 1) / 2, || {
        Error::runtime(format!(
            "pad should be at most half of effective kernel size, but got pad={padding}, kernel_size={kernel} and dilation={dilation}"
        ))
    })?;
    let room = size + 2 * padding - dilation * (kernel - 1) - 1 + if ceil { stride - 1 } else { 0 };
    let output = room.div_euclid(stride) + 1;
    // The last window must start inside of the image or its low padding.
    Ok(if ceil && (output - 1) * stride >= size + padding {
        output - 1
    } else {
        output
    })
}

/// The windows that a call of `name` (`max_pool2d`, …) over `rank` axes of `x` asks for.
pub fn windows(call: &Call, x: &Value, name: &str, rank: usize) -> Result<Windows> {
    let words = if rank == 2 { "two ints" } else { "three ints" };
    let list = |argument: &str, empty: bool| -> Result<Vec<i64>> {
        let values = call.ints_opt(argument)?.unwrap_or_default();
        match values.len() {
            0 if empty => Ok(values),
            1 => Ok(vec![values[0]; rank]),
            length if length == rank => Ok(values),
            _ => {
                let omitted = if empty {
                    "be omitted, a single int"
                } else {
                    "be a single int"
                };
                Err(Error::runtime(format!(
                    "{name}: {argument} must either {omitted}, or a tuple of {words}"
                )))
            }
        }
    };
    let kernel = list("kernel_size", false)?;
    let mut stride = list("stride", true)?;
    if stride.is_empty() {
        stride = kernel.clone();
    }
    let padding = list("padding", false)?;
    let dilation = if call.has("dilation") {
        list("dilation", false)?
    } else {
        vec![1; rank]
    };
    let ceil = call.flag("ceil_mode")?;
    ensure(x.rank() == rank + 1 || x.rank() == rank + 2, || {
        Error::runtime(format!(
            "non-empty {}D or {}D (batch mode) tensor expected for input",
            rank + 1,
            rank + 2
        ))
    })?;
    let lead = x.rank() - rank;
    let axes = (0..rank)
        .map(|axis| {
            let size = x.dim(lead + axis);
            let output = output_size(size, kernel[axis], padding[axis], stride[axis], dilation[axis], ceil)?;
            Ok(Axis {
                size,
                kernel: kernel[axis],
                stride: stride[axis],
                padding: padding[axis],
                dilation: dilation[axis],
                output,
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let windows = Windows { axes };
    check(x, &windows, name)?;
    Ok(windows)
}

/// `pool2d_shape_check`, `pool3d_shape_check`
fn check(x: &Value, windows: &Windows, name: &str) -> Result<()> {
    let letters: &[&str] = if windows.axes.len() == 2 {
        &["H", "W"]
    } else {
        &["T", "H", "W"]
    };
    let named = |prefix: &str, values: Vec<i64>| {
        letters
            .iter()
            .zip(values)
            .map(|(letter, value)| format!("{prefix}{letter}: {value}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    for (what, prefix, values) in [
        ("kernel size", "k", windows.field(|axis| axis.kernel)),
        ("stride", "d", windows.field(|axis| axis.stride)),
        ("dilation", "dilation", windows.field(|axis| axis.dilation)),
    ] {
        ensure(values.iter().all(|&value| value > 0), || {
            Error::runtime(format!(
                "{what} should be greater than zero, but got {}",
                named(prefix, values.clone())
            ))
        })?;
    }
    let (rank, lead) = (windows.axes.len(), x.rank() - windows.axes.len());
    let plane = &x.dims()[lead - 1..];
    ensure(plane.iter().all(|&size| size > 0), || {
        Error::runtime(if rank == 2 {
            format!(
                "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:{:?}",
                x.dims()
            )
        } else {
            format!(
                "{name}: Expected input's non-batch dimensions to have positive length, but input has a shape of {:?} and non-batch dimension has length zero!",
                x.dims()
            )
        })
    })?;
    let joined = |channels: i64, values: Vec<i64>| {
        std::iter::once(channels)
            .chain(values)
            .map(|value| value.to_string())
            .collect::<Vec<_>>()
            .join("x")
    };
    ensure(windows.axes.iter().all(|axis| axis.output >= 1), || {
        Error::runtime(format!(
            "Given input size: ({}). Calculated output size: ({}). Output size is too small",
            joined(plane[0], windows.field(|axis| axis.size)),
            joined(plane[0], windows.output())
        ))
    })
}

/// A gradient of the pooled result must have its dims.
pub fn check_gradient(gradient: &Value, x: &Value, windows: &Windows) -> Result<()> {
    let dims = windows.output_dims(x);
    let first = x.rank() - windows.axes.len() - 1;
    (first..dims.len()).try_for_each(|axis| check_dim(gradient, dims.len(), axis, dims[axis]))
}

/// PyTorch's error when `kernel` has no code for the dtype.
pub fn require(dtype: DType, kernel: &str, supported: impl Fn(DType) -> bool) -> Result<()> {
    ensure(supported(dtype), || common::not_implemented_for(kernel, dtype))
}

/// What a term of [`gather_windows`] is about.
pub struct Place<'a> {
    /// Where the windows stand in an array padded by [`padded_windows`]: `sizes` of them from `start`.
    pub start: &'a [i64],
    pub sizes: &'a [i64],
    /// The elements' positions are `residue + stride·(0..sizes)`.
    pub residue: &'a [i64],
}

/// Pads an array with one value per window so that the slices of [`gather_windows`] exist.
pub fn padded_windows(f: &mut Func, windows: &Windows, x: &Value, value: &Value) -> Result<Value> {
    let (low, high): (Vec<i64>, Vec<i64>) = windows.axes.iter().map(Axis::window_padding).unzip();
    spatial::pad(f, x, value, &low, &high, &vec![0; windows.axes.len()])
}

/// For every position of the pooled axes, the sum over the windows that hold it: `[…lead, …output] → […lead, …size]`.
///
/// The transpose of reading windows, written without scatter: positions are grouped by their residue modulo the stride; within a group
/// every position meets the same elements of its windows, so each term is a slice.
pub fn gather_windows(
    f: &mut Func,
    windows: &Windows,
    lead: &[i64],
    dtype: DType,
    mut term: impl FnMut(&mut Func, &Place) -> Result<Value>,
) -> Result<Value> {
    let (residues, counts): (Vec<i64>, Vec<i64>) = windows.axes.iter().map(Axis::residues).unzip();
    let lows: Vec<i64> = windows.axes.iter().map(|axis| axis.window_padding().0).collect();
    let piece_dims = [lead, &counts].concat();
    let mut pieces = Vec::new();
    for residue in spatial::positions(&residues) {
        let reaching: Vec<Vec<(i64, i64)>> = windows
            .axes
            .iter()
            .zip(&residue)
            .map(|(axis, &residue)| axis.reaching(residue))
            .collect();
        let mut total: Option<Value> = None;
        for choice in spatial::positions(&reaching.iter().map(|list| list.len() as i64).collect::<Vec<_>>()) {
            let chosen: Vec<(i64, i64)> = choice
                .iter()
                .zip(&reaching)
                .map(|(&index, list)| list[index as usize])
                .collect();
            let start: Vec<i64> = chosen
                .iter()
                .zip(&lows)
                .map(|((_, offset), low)| low + offset)
                .collect();
            let value = term(
                f,
                &Place {
                    start: &start,
                    sizes: &counts,
                    residue: &residue,
                },
            )?;
            total = Some(match total {
                None => value,
                Some(before) => f.add(&before, &value)?,
            });
        }
        pieces.push(match total {
            Some(total) => total,
            None => f.constant(dtype, &piece_dims, 0i64),
        });
    }
    let whole = interleave(f, pieces, &residues, lead.len())?;
    let sizes = windows.field(|axis| axis.size);
    spatial::strided(f, &whole, &vec![0; sizes.len()], &sizes, &vec![1; sizes.len()])
}

/// Pieces by residue (row-major) → one array in which position `residue + count·step` of an axis comes from piece `residue`.
fn interleave(f: &mut Func, mut pieces: Vec<Value>, residues: &[i64], lead: usize) -> Result<Value> {
    for (index, &count) in residues.iter().enumerate().rev() {
        if count == 1 {
            continue;
        }
        let axis = lead + index;
        pieces = pieces
            .chunks(count as usize)
            .map(|chunk| {
                let stacked = spatial::stack(f, chunk, axis + 1)?;
                let mut dims = stacked.dims().to_vec();
                let inner = dims.remove(axis + 1);
                dims[axis] *= inner;
                f.reshape(&stacked, &dims)
            })
            .collect::<Result<_>>()?;
    }
    pieces.pop().ok_or_else(|| Error::runtime("no positions to gather"))
}

/// Disjoint windows: each window's value at all positions between its start and the next one's: `[…, output] → […, size]`. Positions
/// outside of every window get some window's value.
pub fn repeat_windows(f: &mut Func, windows: &Windows, x: &Value) -> Result<Value> {
    let lead = x.rank() - windows.axes.len();
    let mut result = x.clone();
    for (index, axis) in windows.axes.iter().enumerate() {
        let position = lead + index;
        if axis.stride > 1 {
            let mut dims = result.dims().to_vec();
            dims.insert(position + 1, axis.stride);
            let axes: Vec<usize> = (0..dims.len()).filter(|&other| other != position + 1).collect();
            let repeated = f.broadcast_in_dim(&result, &dims, &axes)?;
            let inner = dims.remove(position + 1);
            dims[position] *= inner;
            result = f.reshape(&repeated, &dims)?;
        }
        // Cut the padding off, fill up what lies behind the last window.
        let length = result.dim(position);
        let (mut low, mut high) = (vec![0; result.rank()], vec![0; result.rank()]);
        low[position] = -axis.padding;
        high[position] = axis.size + axis.padding - length;
        if low[position] != 0 || high[position] != 0 {
            let zero = f.constant(result.dtype(), &[], 0i64);
            result = f.pad(&result, &zero, &low, &high, &vec![0; low.len()])?;
        }
    }
    Ok(result)
}
