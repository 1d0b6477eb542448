//! The three maps behind every convolution, and the form in which each is written.
//!
//! With `y = correlate(x, w)`: [`correlate`] itself, [`spread`] its transpose in `x` (input gradient, transposed convolution) and
//! [`kernel_gradient`] its transpose in `w`. A TPU gets one `stablehlo.convolution` each. XLA:CPU has a fast path (Eigen) for some
//! convolutions only; the others run in a scalar loop, up to a thousand times slower. [`form`] is the one place that chooses; the
//! measurements behind it are in `docs/convolution.md`.

use super::spatial::{self, Target};
use crate::dtype::DType;
use crate::error::Result;
use crate::shape::numel;
use crate::stablehlo::{Convolution, DotDims, Func, Monoid, Value};

/// Window and sizes of a (not transposed) convolution `[N, C, …input] → [N, O, …output]`; one entry per spatial axis.
#[derive(Clone, Debug)]
pub struct Geometry {
    pub input: Vec<i64>,
    pub kernel: Vec<i64>,
    pub output: Vec<i64>,
    pub stride: Vec<i64>,
    pub padding: Vec<i64>,
    pub dilation: Vec<i64>,
    pub groups: i64,
}

impl Geometry {
    fn rank(&self) -> usize {
        self.input.len()
    }

    /// Positions of the kernel.
    fn taps(&self) -> i64 {
        numel(&self.kernel)
    }

    /// Padding at the high end so that the windows just fit; negative where the last elements are read by no window.
    fn high(&self, axis: usize) -> i64 {
        (self.output[axis] - 1) * self.stride[axis] + self.reach(axis) + 1 - self.input[axis] - self.padding[axis]
    }

    /// Distance between the first and the last element of a window.
    fn reach(&self, axis: usize) -> i64 {
        (self.kernel[axis] - 1) * self.dilation[axis]
    }

    /// Low and high padding of the gradient, with `stride - 1` zeros put between its elements, so that a convolution with the reversed
    /// kernel gives every element of the input.
    fn transposed_padding(&self) -> Vec<(i64, i64)> {
        (0..self.rank())
            .map(|axis| {
                let low = self.reach(axis) - self.padding[axis];
                let extent = (self.output[axis] - 1) * self.stride[axis] + 1;
                (low, self.input[axis] - extent - low + self.reach(axis))
            })
            .collect()
    }

    fn forward_padding(&self) -> Vec<(i64, i64)> {
        (0..self.rank())
            .map(|axis| (self.padding[axis], self.high(axis)))
            .collect()
    }

    fn ungrouped(&self) -> Self {
        Self {
            groups: 1,
            ..self.clone()
        }
    }

    /// Without the first spatial axis.
    fn without_depth(&self) -> Self {
        let rest = |list: &[i64]| list[1..].to_vec();
        Self {
            input: rest(&self.input),
            kernel: rest(&self.kernel),
            output: rest(&self.output),
            stride: rest(&self.stride),
            padding: rest(&self.padding),
            dilation: rest(&self.dilation),
            groups: self.groups,
        }
    }

    /// All kernel positions, row-major.
    fn tap_positions(&self) -> Vec<Vec<i64>> {
        spatial::positions(&self.kernel)
    }
}

/// How a map is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// One `stablehlo.convolution`: Eigen's path on XLA:CPU when it has at most two spatial axes and one group.
    Plain,
    /// Kernel of one element: a matrix product.
    Pointwise,
    /// One input channel a group: for each kernel position, a shifted slice times a number a channel.
    Depthwise,
    /// A plain convolution for each group.
    Split,
    /// Three spatial axes: the kernel's depth becomes channels, the depth of the image batch.
    Fold,
    /// Kernel gradient only: for each kernel position a matrix product of the gradient with a shifted slice.
    Taps,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Map {
    Correlate,
    Spread,
    KernelGradient,
}

/// `channels` and `features` count those of the whole input and output.
fn form(map: Map, geometry: &Geometry, channels: i64, features: i64) -> Form {
    if spatial::target() != Target::XlaCpu {
        return Form::Plain;
    }
    let unpadded = geometry.padding.iter().all(|&padding| padding == 0);
    if geometry.groups == 1 && geometry.taps() == 1 && unpadded {
        return Form::Pointwise;
    }
    if geometry.groups > 1 && channels == geometry.groups && geometry.taps() * (features / geometry.groups) <= 64 {
        return Form::Depthwise;
    }
    if geometry.rank() == 3 {
        return Form::Fold;
    }
    if geometry.groups > 1 && geometry.groups <= 64 {
        return Form::Split;
    }
    let small = numel(&geometry.output) <= 16 || channels * geometry.taps() <= 32;
    if map == Map::KernelGradient && geometry.groups == 1 && geometry.taps() <= 25 && small {
        return Form::Taps;
    }
    Form::Plain
}

/// `x [N, C, …input] · w [O, C/groups, …kernel] → [N, O, …output]`, added up and returned in `out`.
pub fn correlate(f: &mut Func, x: &Value, w: &Value, geometry: &Geometry, out: DType) -> Result<Value> {
    match form(Map::Correlate, geometry, x.dim(1), w.dim(0)) {
        Form::Pointwise => {
            let x = spatial::strided(f, x, &vec![0; geometry.rank()], &geometry.output, &geometry.stride)?;
            let w = f.reshape(w, &[w.dim(0), w.dim(1)])?;
            mix_channels(f, &w, &x, out)
        }
        Form::Depthwise => depthwise(f, x, w, geometry, out),
        Form::Split => {
            let parts = (0..geometry.groups)
                .map(|group| {
                    let x = part(f, x, 1, group, geometry.groups)?;
                    let w = part(f, w, 0, group, geometry.groups)?;
                    correlate(f, &x, &w, &geometry.ungrouped(), out)
                })
                .collect::<Result<Vec<_>>>()?;
            f.concatenate(&parts, 1)
        }
        Form::Fold => {
            let folded = fold_input(f, x, geometry)?;
            let w = fold_kernel(f, w)?;
            let y = correlate(f, &folded, &w, &geometry.without_depth(), out)?;
            unfold_batch(f, &y, x.dim(0))
        }
        Form::Plain | Form::Taps => {
            let axes: Vec<usize> = (2..2 + geometry.rank()).collect();
            let config = Convolution {
                stride: geometry.stride.clone(),
                padding: geometry.forward_padding(),
                left_dilation: vec![1; geometry.rank()],
                right_dilation: geometry.dilation.clone(),
                reverse: vec![false; geometry.rank()],
                input_batch: 0,
                input_feature: 1,
                input_spatial: axes.clone(),
                kernel_input_feature: 1,
                kernel_output_feature: 0,
                kernel_spatial: axes.clone(),
                output_batch: 0,
                output_feature: 1,
                output_spatial: axes,
                feature_groups: geometry.groups,
                batch_groups: 1,
            };
            f.convolution(x, w, &config, out)
        }
    }
}

/// The transpose of [`correlate`] in `x`: `g [N, O, …output] · w [O, C/groups, …kernel] → [N, C, …input]`.
pub fn spread(f: &mut Func, g: &Value, w: &Value, geometry: &Geometry, out: DType) -> Result<Value> {
    let channels = w.dim(1) * geometry.groups;
    match form(Map::Spread, geometry, channels, w.dim(0)) {
        Form::Pointwise => {
            let w = f.reshape(w, &[w.dim(0), w.dim(1)])?;
            let w = f.transpose(&w, &[1, 0])?;
            let mixed = mix_channels(f, &w, g, out)?;
            let extent = |axis: usize| (geometry.output[axis] - 1) * geometry.stride[axis] + 1;
            let high: Vec<i64> = (0..geometry.rank())
                .map(|axis| geometry.input[axis] - extent(axis))
                .collect();
            let interior: Vec<i64> = geometry.stride.iter().map(|stride| stride - 1).collect();
            spatial::pad_zero(f, &mixed, &vec![0; geometry.rank()], &high, &interior)
        }
        Form::Depthwise => depthwise_spread(f, g, w, geometry, out),
        Form::Split => {
            let parts = (0..geometry.groups)
                .map(|group| {
                    let g = part(f, g, 1, group, geometry.groups)?;
                    let w = part(f, w, 0, group, geometry.groups)?;
                    spread(f, &g, &w, &geometry.ungrouped(), out)
                })
                .collect::<Result<Vec<_>>>()?;
            f.concatenate(&parts, 1)
        }
        Form::Fold => fold_spread(f, g, w, geometry, out),
        Form::Plain | Form::Taps => {
            // An explicit reversal: with `window_reversal` XLA:CPU leaves its fast path.
            let reversed: Vec<usize> = (0..geometry.rank())
                .filter(|&axis| geometry.kernel[axis] > 1)
                .map(|axis| axis + 2)
                .collect();
            let w = if reversed.is_empty() {
                w.clone()
            } else {
                f.reverse(w, &reversed)?
            };
            let (w, kernel_input_feature) = if geometry.groups == 1 {
                (w, 0)
            } else {
                (swap_groups(f, &w, geometry.groups)?, 1)
            };
            let axes: Vec<usize> = (2..2 + geometry.rank()).collect();
            let config = Convolution {
                stride: vec![1; geometry.rank()],
                padding: geometry.transposed_padding(),
                left_dilation: geometry.stride.clone(),
                right_dilation: geometry.dilation.clone(),
                reverse: vec![false; geometry.rank()],
                input_batch: 0,
                input_feature: 1,
                input_spatial: axes.clone(),
                kernel_input_feature,
                kernel_output_feature: 1 - kernel_input_feature,
                kernel_spatial: axes.clone(),
                output_batch: 0,
                output_feature: 1,
                output_spatial: axes,
                feature_groups: geometry.groups,
                batch_groups: 1,
            };
            f.convolution(g, &w, &config, out)
        }
    }
}

/// The transpose of [`correlate`] in `w`: `g [N, O, …output] · x [N, C, …input] → [O, C/groups, …kernel]`.
pub fn kernel_gradient(f: &mut Func, g: &Value, x: &Value, geometry: &Geometry, out: DType) -> Result<Value> {
    let rank = geometry.rank();
    match form(Map::KernelGradient, geometry, x.dim(1), g.dim(1)) {
        Form::Pointwise => {
            let x = spatial::strided(f, x, &vec![0; rank], &geometry.output, &geometry.stride)?;
            let (batch, places) = (x.dim(0), numel(&geometry.output));
            let x = f.reshape(&x, &[batch, x.dim(1), places])?;
            let g = f.reshape(g, &[batch, g.dim(1), places])?;
            // Large images: a product each, then their sum; small ones: one product over both axes.
            let product = if places >= 256 {
                let dims = DotDims {
                    left_batch: vec![0],
                    right_batch: vec![0],
                    left_contract: vec![2],
                    right_contract: vec![2],
                };
                let each = f.dot_general(&g, &x, &dims, out)?;
                f.reduce(&each, Monoid::Add, &[0])?
            } else {
                let dims = DotDims {
                    left_contract: vec![0, 2],
                    right_contract: vec![0, 2],
                    ..DotDims::default()
                };
                f.dot_general(&g, &x, &dims, out)?
            };
            with_kernel_axes(f, &product, &geometry.kernel)
        }
        Form::Taps => {
            let x = spatial::pad_zero(f, x, &geometry.padding, &highs(geometry), &vec![0; rank])?;
            let contract: Vec<usize> = std::iter::once(0).chain(2..2 + rank).collect();
            let dims = DotDims {
                left_contract: contract.clone(),
                right_contract: contract,
                ..DotDims::default()
            };
            let products = geometry
                .tap_positions()
                .iter()
                .map(|tap| {
                    let shifted = spatial::strided(f, &x, &starts(geometry, tap), &geometry.output, &geometry.stride)?;
                    f.dot_general(g, &shifted, &dims, out)
                })
                .collect::<Result<Vec<_>>>()?;
            let stacked = spatial::stack(f, &products, 2)?;
            with_kernel_axes(f, &stacked, &geometry.kernel)
        }
        Form::Depthwise => depthwise_kernel_gradient(f, g, x, geometry, out),
        Form::Split => {
            let parts = (0..geometry.groups)
                .map(|group| {
                    let g = part(f, g, 1, group, geometry.groups)?;
                    let x = part(f, x, 1, group, geometry.groups)?;
                    kernel_gradient(f, &g, &x, &geometry.ungrouped(), out)
                })
                .collect::<Result<Vec<_>>>()?;
            f.concatenate(&parts, 0)
        }
        Form::Fold => {
            let folded = fold_input(f, x, geometry)?;
            let g = fold_batch(f, g)?;
            let gradient = kernel_gradient(f, &g, &folded, &geometry.without_depth(), out)?;
            with_kernel_axes(f, &gradient, &geometry.kernel)
        }
        Form::Plain => {
            // The batch is contracted: it stands as the feature of `x` and of the kernel, which is `g`.
            let axes: Vec<usize> = (2..2 + rank).collect();
            let config = Convolution {
                stride: geometry.dilation.clone(),
                padding: geometry.forward_padding(),
                left_dilation: vec![1; rank],
                right_dilation: geometry.stride.clone(),
                reverse: vec![false; rank],
                input_batch: 1,
                input_feature: 0,
                input_spatial: axes.clone(),
                kernel_input_feature: 0,
                kernel_output_feature: 1,
                kernel_spatial: axes.clone(),
                output_batch: 1,
                output_feature: 0,
                output_spatial: axes,
                feature_groups: 1,
                batch_groups: geometry.groups,
            };
            f.convolution(x, g, &config, out)
        }
    }
}

fn highs(geometry: &Geometry) -> Vec<i64> {
    (0..geometry.rank()).map(|axis| geometry.high(axis)).collect()
}

/// Where the kernel position `tap` of the first window stands in the padded input.
fn starts(geometry: &Geometry, tap: &[i64]) -> Vec<i64> {
    tap.iter()
        .zip(&geometry.dilation)
        .map(|(position, dilation)| position * dilation)
        .collect()
}

/// Group `group` of `groups` equal ones of an axis.
fn part(f: &mut Func, x: &Value, axis: usize, group: i64, groups: i64) -> Result<Value> {
    let size = x.dim(axis) / groups;
    f.slice_axis(x, axis, group * size, (group + 1) * size)
}

/// `w [P, C] · x [N, C, …S] → [N, P, …S]`: a product for each sample, unless the image is so small that copying `w` would cost more.
fn mix_channels(f: &mut Func, w: &Value, x: &Value, out: DType) -> Result<Value> {
    let (batch, channels, produced) = (x.dim(0), x.dim(1), w.dim(0));
    let places = numel(&x.dims()[2..]);
    let flat = f.reshape(x, &[batch, channels, places])?;
    let mixed = if places >= 128 {
        let copies = f.broadcast_in_dim(w, &[batch, produced, channels], &[1, 2])?;
        f.matmul(&copies, &flat, out)?
    } else {
        let dims = DotDims {
            left_contract: vec![1],
            right_contract: vec![1],
            ..DotDims::default()
        };
        let product = f.dot_general(w, &flat, &dims, out)?;
        f.transpose(&product, &[1, 0, 2])?
    };
    let mut dims = vec![batch, produced];
    dims.extend_from_slice(&x.dims()[2..]);
    f.reshape(&mixed, &dims)
}

/// `[O, I…] → [O, C, …kernel]` with the rest of the elements as the channels.
fn with_kernel_axes(f: &mut Func, x: &Value, kernel: &[i64]) -> Result<Value> {
    let mut dims = vec![x.dim(0), x.numel() / (x.dim(0) * numel(kernel)).max(1)];
    dims.extend_from_slice(kernel);
    f.reshape(x, &dims)
}

/// `[G·o, c, …] → [G·c, o, …]`: the kernel of a grouped convolution's transpose.
fn swap_groups(f: &mut Func, w: &Value, groups: i64) -> Result<Value> {
    let (features, channels) = (w.dim(0) / groups, w.dim(1));
    let spatial = &w.dims()[2..];
    let mut dims = vec![groups, features, channels];
    dims.extend_from_slice(spatial);
    let split = f.reshape(w, &dims)?;
    let mut order: Vec<usize> = (0..dims.len()).collect();
    order.swap(1, 2);
    let swapped = f.transpose(&split, &order)?;
    let mut dims = vec![groups * channels, features];
    dims.extend_from_slice(spatial);
    f.reshape(&swapped, &dims)
}

/// `[N, G, …] → [N, G, o, …]` by repetition, or `[N, G·o, …] → [N, G, o, …]` by splitting.
fn by_group(f: &mut Func, x: &Value, groups: i64, features: i64) -> Result<Value> {
    let mut dims = vec![x.dim(0), groups, features];
    dims.extend_from_slice(&x.dims()[2..]);
    if x.dim(1) == groups && features > 1 {
        let axes: Vec<usize> = (0..dims.len()).filter(|&axis| axis != 2).collect();
        return f.broadcast_in_dim(x, &dims, &axes);
    }
    f.reshape(x, &dims)
}

/// The numbers of kernel position `tap`, `w [G·o, 1, …kernel] → [G, o]`, spread over `dims [N, G, o, …]`.
fn tap_weight(f: &mut Func, w: &Value, tap: &[i64], groups: i64, dims: &[i64]) -> Result<Value> {
    let mut start = vec![0, 0];
    start.extend_from_slice(tap);
    let mut limit = vec![w.dim(0), 1];
    limit.extend(tap.iter().map(|position| position + 1));
    let one = f.slice(w, &start, &limit, &vec![1; start.len()])?;
    let one = f.reshape(&one, &[groups, w.dim(0) / groups])?;
    f.broadcast_in_dim(&one, dims, &[1, 2])
}

/// Adds up `term(tap)` over the kernel's positions.
fn sum_taps(
    f: &mut Func,
    geometry: &Geometry,
    mut term: impl FnMut(&mut Func, &[i64]) -> Result<Value>,
) -> Result<Option<Value>> {
    let mut total: Option<Value> = None;
    for tap in geometry.tap_positions() {
        let value = term(f, &tap)?;
        total = Some(match total {
            None => value,
            Some(before) => f.add(&before, &value)?,
        });
    }
    Ok(total)
}

fn depthwise(f: &mut Func, x: &Value, w: &Value, geometry: &Geometry, out: DType) -> Result<Value> {
    let (groups, features) = (geometry.groups, w.dim(0) / geometry.groups);
    let x = f.convert(x, out)?;
    let w = f.convert(w, out)?;
    let padded = spatial::pad_zero(f, &x, &geometry.padding, &highs(geometry), &vec![0; geometry.rank()])?;
    let total = sum_taps(f, geometry, |f, tap| {
        let shifted = spatial::strided(f, &padded, &starts(geometry, tap), &geometry.output, &geometry.stride)?;
        let shifted = by_group(f, &shifted, groups, features)?;
        let weight = tap_weight(f, &w, tap, groups, shifted.dims().to_vec().as_slice())?;
        f.mul(&shifted, &weight)
    })?;
    let mut dims = vec![x.dim(0), w.dim(0)];
    dims.extend_from_slice(&geometry.output);
    match total {
        Some(total) => f.reshape(&total, &dims),
        None => Ok(f.constant(out, &dims, 0i64)),
    }
}

fn depthwise_spread(f: &mut Func, g: &Value, w: &Value, geometry: &Geometry, out: DType) -> Result<Value> {
    let (groups, features) = (geometry.groups, w.dim(0) / geometry.groups);
    let g = f.convert(g, out)?;
    let w = f.convert(w, out)?;
    let (low, high): (Vec<i64>, Vec<i64>) = geometry.transposed_padding().into_iter().unzip();
    let interior: Vec<i64> = geometry.stride.iter().map(|stride| stride - 1).collect();
    let padded = spatial::pad_zero(f, &g, &low, &high, &interior)?;
    let ones = vec![1; geometry.rank()];
    let total = sum_taps(f, geometry, |f, tap| {
        let shifted = spatial::strided(f, &padded, &starts(geometry, tap), &geometry.input, &ones)?;
        let mut dims = vec![g.dim(0), groups, features];
        dims.extend_from_slice(&geometry.input);
        let shifted = f.reshape(&shifted, &dims)?;
        let mirrored: Vec<i64> = tap
            .iter()
            .zip(&geometry.kernel)
            .map(|(position, size)| size - 1 - position)
            .collect();
        let weight = tap_weight(f, &w, &mirrored, groups, &dims)?;
        f.mul(&shifted, &weight)
    })?;
    match total {
        Some(total) => f.reduce(&total, Monoid::Add, &[2]),
        None => {
            let mut dims = vec![g.dim(0), groups];
            dims.extend_from_slice(&geometry.input);
            Ok(f.constant(out, &dims, 0i64))
        }
    }
}

fn depthwise_kernel_gradient(f: &mut Func, g: &Value, x: &Value, geometry: &Geometry, out: DType) -> Result<Value> {
    let (groups, features) = (geometry.groups, g.dim(1) / geometry.groups);
    let rank = geometry.rank();
    let g = f.convert(g, out)?;
    let x = f.convert(x, out)?;
    let g_split = by_group(f, &g, groups, features)?;
    let padded = spatial::pad_zero(f, &x, &geometry.padding, &highs(geometry), &vec![0; rank])?;
    let axes: Vec<usize> = std::iter::once(0).chain(3..3 + rank).collect();
    let sums = geometry
        .tap_positions()
        .iter()
        .map(|tap| {
            let shifted = spatial::strided(f, &padded, &starts(geometry, tap), &geometry.output, &geometry.stride)?;
            let shifted = by_group(f, &shifted, groups, features)?;
            let product = f.mul(&g_split, &shifted)?;
            f.reduce(&product, Monoid::Add, &axes)
        })
        .collect::<Result<Vec<_>>>()?;
    let stacked = spatial::stack(f, &sums, 2)?;
    let mut dims = vec![g.dim(1), 1];
    dims.extend_from_slice(&geometry.kernel);
    f.reshape(&stacked, &dims)
}

/// `[N, C, D, H, W] → [N·outputs, C·taps, H, W]`: for each output depth, the input slices that its window touches, as channels.
fn fold_input(f: &mut Func, x: &Value, geometry: &Geometry) -> Result<Value> {
    let (output, stride, dilation) = (geometry.output[0], geometry.stride[0], geometry.dilation[0]);
    let padded = spatial::pad_zero(f, x, &[geometry.padding[0], 0, 0], &[geometry.high(0), 0, 0], &[0; 3])?;
    let slices = (0..geometry.kernel[0])
        .map(|tap| {
            let start = [tap * dilation, 0, 0];
            let sizes = [output, x.dim(3), x.dim(4)];
            spatial::strided(f, &padded, &start, &sizes, &[stride, 1, 1])
        })
        .collect::<Result<Vec<_>>>()?;
    let stacked = spatial::stack(f, &slices, 2)?;
    let ordered = f.transpose(&stacked, &[0, 3, 1, 2, 4, 5])?;
    f.reshape(
        &ordered,
        &[x.dim(0) * output, x.dim(1) * geometry.kernel[0], x.dim(3), x.dim(4)],
    )
}

/// `[O, C, D, H, W] → [O, C·D, H, W]`
fn fold_kernel(f: &mut Func, w: &Value) -> Result<Value> {
    f.reshape(w, &[w.dim(0), w.dim(1) * w.dim(2), w.dim(3), w.dim(4)])
}

/// `[N, O, D, H, W] → [N·D, O, H, W]`
fn fold_batch(f: &mut Func, y: &Value) -> Result<Value> {
    let ordered = f.transpose(y, &[0, 2, 1, 3, 4])?;
    f.reshape(&ordered, &[y.dim(0) * y.dim(2), y.dim(1), y.dim(3), y.dim(4)])
}

/// `[N·D, O, H, W] → [N, O, D, H, W]`
fn unfold_batch(f: &mut Func, y: &Value, batch: i64) -> Result<Value> {
    let split = f.reshape(y, &[batch, y.dim(0) / batch.max(1), y.dim(1), y.dim(2), y.dim(3)])?;
    f.transpose(&split, &[0, 2, 1, 3, 4])
}

/// Each slice of the gradient gives all kernel depths at once, as channels; they are then added up at their places.
fn fold_spread(f: &mut Func, g: &Value, w: &Value, geometry: &Geometry, out: DType) -> Result<Value> {
    let (batch, depths) = (g.dim(0), geometry.kernel[0]);
    let channels = w.dim(1) * geometry.groups;
    let (output, stride, dilation) = (geometry.output[0], geometry.stride[0], geometry.dilation[0]);
    let g = fold_batch(f, g)?;
    let w = fold_kernel(f, w)?;
    let flat = spread(f, &g, &w, &geometry.without_depth(), out)?;
    let (height, width) = (geometry.input[1], geometry.input[2]);
    let split = f.reshape(&flat, &[batch, output, channels, depths, height, width])?;
    let extent = (output - 1) * stride + 1;
    let zero = f.constant(out, &[], 0i64);
    let mut total: Option<Value> = None;
    for depth in 0..depths {
        let one = f.slice_axis(&split, 3, depth, depth + 1)?;
        let one = f.squeeze(&one, &[3])?;
        let low = depth * dilation - geometry.padding[0];
        let placed = f.pad(
            &one,
            &zero,
            &[0, low, 0, 0, 0],
            &[0, geometry.input[0] - extent - low, 0, 0, 0],
            &[0, stride - 1, 0, 0, 0],
        )?;
        total = Some(match total {
            None => placed,
            Some(before) => f.add(&before, &placed)?,
        });
    }
    let total = match total {
        Some(total) => total,
        None => f.constant(out, &[batch, geometry.input[0], channels, height, width], 0i64),
    };
    f.transpose(&total, &[0, 2, 1, 3, 4])
}
