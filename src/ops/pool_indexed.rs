//! Pooling whose places are values: unpooling by indices, fractional max pooling by random samples.

use super::pool::require;
use super::pool_max::{first_wins, position_dtype, scatter_planes};
use super::spatial;
use super::{Call, Layout, OpDef, Outputs};
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::shape::{contiguous_strides, numel};
use crate::stablehlo::{Binary, Func, GatherDims, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("max_unpool2d", |f, call| max_unpool(f, call, 2)).layout(Layout::LikeFirst),
    OpDef::new("max_unpool3d", |f, call| max_unpool(f, call, 3)).layout(Layout::LikeFirst),
    OpDef::new("fractional_max_pool2d", |f, call| fractional(f, call, 2)),
    OpDef::new("fractional_max_pool3d", |f, call| fractional(f, call, 3)),
    OpDef::new("fractional_max_pool2d_backward", |f, call| {
        fractional_backward(f, call, 2)
    }),
    OpDef::new("fractional_max_pool3d_backward", |f, call| {
        fractional_backward(f, call, 3)
    }),
];

/// Zeros of `output_size`, with each element stored where its index says.
fn max_unpool(f: &mut Func, call: &Call, rank: usize) -> Result<Outputs> {
    let name = if rank == 2 { "max_unpool2d" } else { "max_unpool3d" };
    let (x, indices) = (call.tensor("self")?, call.tensor("indices")?);
    let output = call.ints("output_size")?;
    ensure(indices.dtype() == DType::I64, || {
        Error::runtime("elements in indices should be type int64")
    })?;
    ensure(output.len() == rank, || {
        let what = if rank == 2 {
            "exactly two elements (height, width)"
        } else {
            "exactly three elements (depth, height, width)"
        };
        Error::runtime(format!(
            "There should be {what} in output_size, but got {} elements.",
            output.len()
        ))
    })?;
    ensure(output.iter().all(|&size| size >= 0), || {
        Error::runtime(format!(
            "max_unpooling{rank}d(): output_size must contain non-negative spatial dimensions, but got output_size={output:?}"
        ))
    })?;
    ensure(x.rank() == rank + 1 || x.rank() == rank + 2, || {
        Error::runtime(format!(
            "Input to max_unpooling{rank}d should be a {}d or {}d Tensor, but got a tensor with {} dimensions",
            rank + 1,
            rank + 2,
            x.rank()
        ))
    })?;
    ensure(x.dims() == indices.dims(), || {
        Error::runtime(format!(
            "Expected shape of indices to be: {:?} but got: {:?}",
            x.dims(),
            indices.dims()
        ))
    })?;
    ensure(x.dims()[1..].iter().all(|&size| size > 0), || {
        Error::runtime(format!(
            "max_unpooling{rank}d(): Expected input to have non-zero size for non-batch dimensions, but got {:?}",
            x.dims()
        ))
    })?;
    require(x.dtype(), name, DType::is_float)?;
    let lead = x.rank() - rank;
    let dims = [&x.dims()[..lead], &output].concat();
    let plane = numel(&output);
    call.check_indices(f, indices, 0, plane)?;
    let indices = f.convert(indices, position_dtype(plane))?;
    let flat = scatter_planes(f, x, &indices, rank, plane, false)?;
    Ok(f.reshape(&flat, &dims)?.into())
}

/// Where the windows of an axis start, from a random sample in [0, 1) per plane: `⌊(o + u)·α⌋ - ⌊u·α⌋` with
/// `α = (size - kernel) / (output - 1)`, the last at `size - kernel`. `samples [P]` → `[P, output]` int32.
fn starts(f: &mut Func, samples: &Value, size: i64, kernel: i64, output: i64) -> Result<Value> {
    let planes = samples.dim(0);
    let last = f.constant(DType::I32, &[planes, 1], size - kernel);
    if output == 1 {
        return Ok(last);
    }
    let dims = [planes, output - 1];
    let alpha = (size - kernel) as f64 / (output - 1) as f64;
    let wide = f.convert(samples, samples.dtype().opmath())?;
    let wide = f.broadcast_in_dim(&wide, &dims, &[0])?;
    let step = f.iota(wide.dtype(), &dims, 1)?;
    let moved = f.add(&step, &wide)?;
    let moved = f.binary_const(Binary::Multiply, &moved, alpha)?;
    let base = f.binary_const(Binary::Multiply, &wide, alpha)?;
    let moved = f.convert(&moved, DType::I32)?;
    let base = f.convert(&base, DType::I32)?;
    let inner = f.sub(&moved, &base)?;
    f.concatenate(&[inner, last], 1)
}

/// `[N, C, …size]`, samples `[N, C, rank]` → the greatest element of each window and its position in the plane.
fn fractional(f: &mut Func, call: &Call, rank: usize) -> Result<Outputs> {
    let name = if rank == 2 {
        "fractional_max_pool2d"
    } else {
        "fractional_max_pool3d"
    };
    let (x, samples) = (call.tensor("self")?, call.tensor("random_samples")?);
    let list = |argument: &str| -> Result<Vec<i64>> {
        let values = call.ints(argument)?;
        ensure(values.len() == rank, || {
            Error::runtime(format!(
                "{name}: {argument} must either be a single Int or tuple of Ints"
            ))
        })?;
        Ok(values)
    };
    let (kernel, output) = (list("kernel_size")?, list("output_size")?);
    ensure(x.rank() == rank + 1 || x.rank() == rank + 2, || {
        Error::runtime(format!(
            "{name}(): Expected {}D or {}D tensor, but got: {:?}",
            rank + 1,
            rank + 2,
            x.dims()
        ))
    })?;
    let lead = x.rank() - rank;
    ensure(x.dims()[lead - 1..].iter().all(|&size| size > 0), || {
        Error::runtime(format!(
            "{name}(): Expected input to have non-zero size for non-batch dimensions, but got {:?}",
            x.dims()
        ))
    })?;
    let sizes = x.dims()[lead..].to_vec();
    let batch = if lead == 2 { x.dim(0) } else { 1 };
    let channels = x.dim(lead - 1);
    ensure(samples.dtype() == x.dtype(), || {
        Error::runtime("Expect _random_samples to have the same dtype as input")
    })?;
    ensure(samples.rank() == 3, || {
        Error::runtime(format!(
            "Expect _random_samples to have 3 dimensions, got {}",
            samples.rank()
        ))
    })?;
    ensure(samples.dim(0) >= batch, || {
        Error::runtime("Expect _random_samples.size(0) no less then input batch size.")
    })?;
    ensure(samples.dim(1) == channels, || {
        Error::runtime("Expect _random_samples.size(1) equals to input channel size.")
    })?;
    ensure(samples.dim(2) == rank as i64, || {
        Error::runtime(format!(
            "Expect _random_samples.size(2) equals to {rank}; got {}.",
            samples.dim(2)
        ))
    })?;
    for axis in 0..rank {
        ensure(
            kernel[axis] > 0 && output[axis] > 0 && output[axis] + kernel[axis] - 1 <= sizes[axis],
            || {
                Error::runtime(format!(
                    "{name}(): pool size {} too large relative to input size {}",
                    kernel[axis], sizes[axis]
                ))
            },
        )?;
    }
    require(
        x.dtype(),
        if rank == 2 {
            "fractional_max_pool2d_out_frame"
        } else {
            "fractional_max_pool3d_out_frame"
        },
        DType::is_float,
    )?;

    let planes = batch * channels;
    let dims = [&[planes], output.as_slice()].concat();
    let samples = f.slice_axis(samples, 0, 0, batch)?;
    let strides = contiguous_strides(&sizes);
    // The position of each window's corner.
    let mut corner = f.constant(DType::I32, &dims, 0i64);
    for axis in 0..rank {
        // Two axes: the first sample is the width's.
        let column = if rank == 2 { 1 - axis } else { axis } as i64;
        let sample = f.slice_axis(&samples, 2, column, column + 1)?;
        let sample = f.reshape(&sample, &[planes])?;
        let line = starts(f, &sample, sizes[axis], kernel[axis], output[axis])?;
        let line = f.binary_const(Binary::Multiply, &line, strides[axis])?;
        let line = f.broadcast_in_dim(&line, &dims, &[0, axis + 1])?;
        corner = f.add(&corner, &line)?;
    }
    let count = numel(&output);
    let corner = f.reshape(&corner, &[planes, count])?;
    let flat = f.reshape(x, &[planes, numel(&sizes)])?;
    let gather = GatherDims {
        offset_dims: Vec::new(),
        collapsed_slice_dims: vec![1],
        operand_batching_dims: vec![0],
        start_indices_batching_dims: vec![0],
        start_index_map: vec![1],
        index_vector_dim: 2,
    };
    let mut best: Option<(Value, Value)> = None;
    for tap in spatial::positions(&kernel) {
        let offset: i64 = tap
            .iter()
            .zip(&strides)
            .map(|(position, stride)| position * stride)
            .sum();
        let place = f.binary_const(Binary::Add, &corner, offset)?;
        let value = f.gather(&flat, &place, &gather, &[1, 1], false)?;
        best = Some(match best {
            None => (value, place),
            Some((greatest, where_found)) => {
                let wins = first_wins(f, (&value, &place), (&greatest, &where_found))?;
                (
                    f.select(&wins, &value, &greatest)?,
                    f.select(&wins, &place, &where_found)?,
                )
            }
        });
    }
    let (values, indices) = best.ok_or_else(|| Error::runtime("kernel size should be greater than zero"))?;
    let dims = [&x.dims()[..lead], &output].concat();
    let indices = f.convert(&indices, DType::I64)?;
    Ok(Outputs::all([f.reshape(&values, &dims)?, f.reshape(&indices, &dims)?]))
}

fn fractional_backward(f: &mut Func, call: &Call, rank: usize) -> Result<Outputs> {
    let (gradient, x, indices) = (
        call.tensor("grad_output")?,
        call.tensor("self")?,
        call.tensor("indices")?,
    );
    let lead = x.rank() - rank;
    let expected = [&x.dims()[..lead], call.ints("output_size")?.as_slice()].concat();
    ensure(gradient.dims() == expected && indices.dims() == expected, || {
        Error::runtime(format!(
            "fractional_max_pool{rank}d_backward(): gradOutput sizes unexpected"
        ))
    })?;
    require(x.dtype(), "fractional_max_pool_backward_out_frame", DType::is_float)?;
    let plane = numel(&x.dims()[lead..]);
    let wide = f.convert(gradient, x.dtype().opmath())?;
    let indices = f.convert(indices, position_dtype(plane))?;
    let flat = scatter_planes(f, &wide, &indices, rank, plane, true)?;
    let result = f.reshape(&flat, x.dims())?;
    Ok(f.convert(&result, x.dtype())?.into())
}
