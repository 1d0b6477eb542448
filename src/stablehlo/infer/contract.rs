//! Dots, convolutions, decompositions, FFT.

use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::shape::Dims;
use crate::stablehlo::{Convolution, DotDims, TensorType};

pub fn dot_general(left: &TensorType, right: &TensorType, dims: &DotDims, out: DType) -> Result<TensorType> {
    ensure(left.dtype == right.dtype, || {
        Error::runtime(format!("dot of {left} and {right}: dtypes must agree"))
    })?;
    for (name, left_axes, right_axes) in [
        ("batch", &dims.left_batch, &dims.right_batch),
        ("contracting", &dims.left_contract, &dims.right_contract),
    ] {
        let paired = left_axes.len() == right_axes.len()
            && left_axes
                .iter()
                .zip(right_axes)
                .all(|(&a, &b)| a < left.rank() && b < right.rank() && left.dims[a] == right.dims[b]);
        ensure(paired, || {
            Error::runtime(format!(
                "dot of {left} and {right}: {name} axes {left_axes:?} and {right_axes:?} do not match"
            ))
        })?;
    }
    let mut result: Dims = dims.left_batch.iter().map(|&axis| left.dims[axis]).collect();
    for (ty, batch, contract) in [
        (left, &dims.left_batch, &dims.left_contract),
        (right, &dims.right_batch, &dims.right_contract),
    ] {
        result.extend(
            (0..ty.rank())
                .filter(|axis| !batch.contains(axis) && !contract.contains(axis))
                .map(|axis| ty.dims[axis]),
        );
    }
    Ok(TensorType {
        dtype: out,
        dims: result,
    })
}

pub fn convolution(left: &TensorType, right: &TensorType, config: &Convolution, out: DType) -> Result<TensorType> {
    let spatial = config.stride.len();
    let rank = spatial + 2;
    let lists = [
        config.left_dilation.len(),
        config.right_dilation.len(),
        config.padding.len(),
        config.reverse.len(),
    ];
    let axes = [&config.input_spatial, &config.kernel_spatial, &config.output_spatial];
    ensure(
        left.rank() == rank
            && right.rank() == rank
            && lists.iter().all(|&length| length == spatial)
            && axes.iter().all(|list| list.len() == spatial),
        || {
            Error::runtime(format!(
                "convolution of {left} and {right} with {spatial} spatial axes: ranks and lists must agree"
            ))
        },
    )?;
    ensure(left.dtype == right.dtype, || {
        Error::runtime(format!("convolution of {left} and {right}: dtypes must agree"))
    })?;
    let (batch, features) = (left.dims[config.input_batch], left.dims[config.input_feature]);
    let (inputs, outputs) = (
        right.dims[config.kernel_input_feature],
        right.dims[config.kernel_output_feature],
    );
    ensure(
        config.feature_groups >= 1 && config.batch_groups >= 1 && features == inputs * config.feature_groups,
        || {
            Error::runtime(format!(
                "convolution: {features} input features against {inputs} of the kernel in {} groups",
                config.feature_groups
            ))
        },
    )?;
    ensure(
        outputs % config.feature_groups == 0 && outputs % config.batch_groups == 0 && batch % config.batch_groups == 0,
        || {
            Error::runtime(format!(
                "convolution: {outputs} output features and {batch} samples do not split into {} feature and {} batch groups",
                config.feature_groups, config.batch_groups
            ))
        },
    )?;
    let mut dims = Dims::from_elem(0, rank);
    dims[config.output_batch] = batch / config.batch_groups;
    dims[config.output_feature] = outputs;
    for axis in 0..spatial {
        let size = left.dims[config.input_spatial[axis]];
        let kernel = right.dims[config.kernel_spatial[axis]];
        let dilate = |size: i64, by: i64| if size == 0 { 0 } else { (size - 1) * by + 1 };
        let (low, high) = config.padding[axis];
        let padded = dilate(size, config.left_dilation[axis]) + low + high;
        let extent = dilate(kernel, config.right_dilation[axis]);
        dims[config.output_spatial[axis]] = if padded < extent {
            0
        } else {
            (padded - extent) / config.stride[axis] + 1
        };
    }
    Ok(TensorType { dtype: out, dims })
}

/// The last two axes must be equal.
pub fn square(x: &TensorType, name: &str) -> Result<()> {
    let rank = x.rank();
    ensure(rank >= 2 && x.dims[rank - 1] == x.dims[rank - 2], || {
        Error::runtime(format!("{name} wants square matrices, got {x}"))
    })
}

pub fn fft(x: &TensorType, kind: &str, lengths: &[i64]) -> Result<TensorType> {
    let count = lengths.len();
    ensure((1..=3).contains(&count) && count <= x.rank(), || {
        Error::runtime(format!("fft over {count} axes of {x}: 1 to 3 are possible"))
    })?;
    let mut dims = x.dims.clone();
    let last = dims.len() - 1;
    let wrong = || Error::runtime(format!("{kind} of lengths {lengths:?} does not fit {x}"));
    let dtype = match kind {
        "FFT" | "IFFT" if x.dtype.is_complex() => x.dtype,
        "RFFT" if matches!(x.dtype, DType::F32 | DType::F64) => {
            ensure(dims[last] == lengths[count - 1], wrong)?;
            dims[last] = lengths[count - 1] / 2 + 1;
            x.dtype.complex()
        }
        "IRFFT" if x.dtype.is_complex() => {
            ensure(dims[last] == lengths[count - 1] / 2 + 1, wrong)?;
            dims[last] = lengths[count - 1];
            x.dtype.real()
        }
        _ => return Err(wrong()),
    };
    let first = dims.len() - count;
    let matching = (0..count).all(|axis| dims[first + axis] == lengths[axis] || (kind == "RFFT" && axis == count - 1));
    ensure(matching, wrong)?;
    Ok(TensorType { dtype, dims })
}
