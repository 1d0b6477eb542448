//! `convolution` and its backward: arguments, checks and the roles of the three maps of `conv_form`.

use super::conv_form::{Geometry, correlate, kernel_gradient, spread};
use super::spatial;
use super::{Call, Layout, OpDef, Outputs};
use crate::error::{Error, Result, ensure};
use crate::stablehlo::{Func, Monoid, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("convolution", convolution)
        .layout(Layout::LikeFirst)
        .precision(),
    OpDef::new("convolution_overrideable", convolution)
        .layout(Layout::LikeFirst)
        .precision(),
    OpDef::new("convolution_backward", convolution_backward)
        .layout(Layout::LikeFirst)
        .precision(),
    OpDef::new("convolution_backward_overrideable", convolution_backward)
        .layout(Layout::LikeFirst)
        .precision(),
];

/// The attributes of a call, one number per spatial axis.
struct Attributes {
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    output_padding: Vec<i64>,
    transposed: bool,
    groups: i64,
}

impl Attributes {
    fn new(call: &Call, weight: &Value) -> Result<Self> {
        ensure(weight.rank() >= 3, || {
            Error::runtime("weight should have at least three dimensions")
        })?;
        let rank = weight.rank() - 2;
        let groups = call.int("groups")?;
        ensure(groups > 0, || Error::runtime("non-positive groups is not supported"))?;
        let list = |name: &str| -> Result<Vec<i64>> {
            let values = call.ints(name)?;
            match values.len() {
                1 => Ok(vec![values[0]; rank]),
                length if length == rank => Ok(values),
                _ => Err(Error::runtime(format!(
                    "expected {name} to be a single integer value or a list of {rank} values to match the convolution dimensions, but got {name}={values:?}"
                ))),
            }
        };
        let attributes = Self {
            stride: list("stride")?,
            padding: list("padding")?,
            dilation: list("dilation")?,
            output_padding: list("output_padding")?,
            transposed: call.flag("transposed")?,
            groups,
        };
        ensure(attributes.padding.iter().all(|&value| value >= 0), || {
            Error::runtime("negative padding is not supported")
        })?;
        ensure(attributes.output_padding.iter().all(|&value| value >= 0), || {
            Error::runtime("negative output_padding is not supported")
        })?;
        ensure(attributes.stride.iter().all(|&value| value > 0), || {
            Error::runtime("non-positive stride is not supported")
        })?;
        ensure(attributes.dilation.iter().all(|&value| value > 0), || {
            Error::runtime(format!(
                "dilation should be greater than zero, but got {:?}",
                attributes.dilation
            ))
        })?;
        Ok(attributes)
    }

    /// The shape of the result, after PyTorch's checks (`check_shape_forward`).
    fn output_dims(&self, input: &Value, weight: &Value, bias: Option<&Value>) -> Result<Vec<i64>> {
        let (groups, sizes) = (self.groups, weight.dims());
        ensure(input.rank() == weight.rank(), || {
            Error::runtime(format!(
                "Expected {0}-dimensional input for {0}-dimensional weight {sizes:?}, but got {1}-dimensional input of size {2:?} instead",
                weight.rank(),
                input.rank(),
                input.dims()
            ))
        })?;
        ensure(sizes[0] >= groups, || {
            Error::runtime(format!(
                "Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size {sizes:?} instead"
            ))
        })?;
        ensure(sizes[0] % groups == 0, || {
            Error::runtime(format!(
                "Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of size [{sizes:?}] instead"
            ))
        })?;
        let expected = if self.transposed { sizes[0] } else { sizes[1] * groups };
        let given = if self.transposed {
            format!("transposed={}", i32::from(self.transposed))
        } else {
            format!("groups={groups}")
        };
        ensure(input.dim(1) == expected, || {
            Error::runtime(format!(
                "Given {given}, weight of size {sizes:?}, expected input{:?} to have {expected} channels, but got {} channels instead",
                input.dims(),
                input.dim(1)
            ))
        })?;
        let features = if self.transposed { sizes[1] * groups } else { sizes[0] };
        if let Some(bias) = bias {
            ensure(bias.rank() == 1 && bias.dim(0) == features, || {
                let given = if self.transposed {
                    "Given transposed=1, weight"
                } else {
                    "Given weight"
                };
                Error::runtime(format!(
                    "{given} of size {sizes:?}, expected bias to be 1-dimensional with {features} elements, but got bias of size {:?} instead",
                    bias.dims()
                ))
            })?;
        }
        let spatial = &sizes[2..];
        ensure(spatial.iter().all(|&size| size > 0), || {
            Error::runtime(format!("kernel size should be greater than zero, but got {spatial:?}"))
        })?;
        let mut dims = vec![input.dim(0), features];
        dims.extend(self.output_spatial(&input.dims()[2..], spatial)?);
        let empty = input.dim(0) == 0 || input.dim(1) == 0;
        ensure(empty || input.numel() > 0, || {
            Error::runtime(format!(
                "Only zero batch or zero channel inputs are supported, but got input shape: {:?}",
                input.dims()
            ))
        })?;
        if input.dim(1) == 0 {
            dims[1] = 0;
        }
        Ok(dims)
    }

    fn output_spatial(&self, input: &[i64], kernel: &[i64]) -> Result<Vec<i64>> {
        let joined = |values: &[i64]| values.iter().map(i64::to_string).collect::<Vec<_>>().join(" x ");
        let reach: Vec<i64> = kernel
            .iter()
            .zip(&self.dilation)
            .map(|(size, dilation)| (size - 1) * dilation + 1)
            .collect();
        let axes = 0..input.len();
        if !self.transposed {
            let padded: Vec<i64> = axes.clone().map(|axis| input[axis] + 2 * self.padding[axis]).collect();
            ensure(axes.clone().all(|axis| padded[axis] >= reach[axis]), || {
                Error::runtime(format!(
                    "Calculated padded input size per channel: ({}). Kernel size: ({}). Kernel size can't be greater than actual input size",
                    joined(&padded),
                    joined(&reach)
                ))
            })?;
            return Ok(axes
                .map(|axis| (padded[axis] - reach[axis]) / self.stride[axis] + 1)
                .collect());
        }
        let fits = |axis: usize| {
            self.output_padding[axis] < self.stride[axis] || self.output_padding[axis] < self.dilation[axis]
        };
        ensure(axes.clone().all(fits), || {
            Error::runtime(format!(
                "output padding must be smaller than either stride or dilation, but got output_padding: {:?} stride: {:?} dilation: {:?}",
                self.output_padding, self.stride, self.dilation
            ))
        })?;
        let output: Vec<i64> = axes
            .map(|axis| {
                (input[axis] - 1) * self.stride[axis] - 2 * self.padding[axis] + reach[axis] + self.output_padding[axis]
            })
            .collect();
        ensure(output.iter().all(|&size| size > 0), || {
            Error::runtime(format!(
                "Given input size per channel: ({}). Calculated output size per channel: ({}). Output size is too small",
                joined(input),
                joined(&output)
            ))
        })?;
        Ok(output)
    }

    /// The geometry of the convolution that goes from `large` to `small`: for a transposed one, from its result to its input.
    fn geometry(&self, input: &[i64], output: &[i64], kernel: &[i64]) -> Geometry {
        let (large, small) = if self.transposed {
            (output, input)
        } else {
            (input, output)
        };
        Geometry {
            input: large.to_vec(),
            kernel: kernel.to_vec(),
            output: small.to_vec(),
            stride: self.stride.clone(),
            padding: self.padding.clone(),
            dilation: self.dilation.clone(),
            groups: self.groups,
        }
    }
}

fn same_dtype(values: &[&Value]) -> Result<()> {
    values.windows(2).try_for_each(|pair| {
        ensure(pair[0].dtype() == pair[1].dtype(), || {
            Error::runtime(format!(
                "Input type ({}) and weight type ({}) should be the same",
                pair[0].dtype(),
                pair[1].dtype()
            ))
        })
    })
}

fn checked_dtypes(values: &[&Value]) -> Result<()> {
    same_dtype(values)?;
    ensure(values.iter().all(|value| !value.dtype().is_bool()), || {
        super::common::not_implemented_for("slow_conv2d_cpu", values[0].dtype())
    })
}

/// `input [N, C, …]`, `weight [O, C/groups, …]` (transposed: `[C, O/groups, …]`), `bias [O]` → `[N, O, …]`
fn convolution(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (input, weight, bias) = (call.tensor("input")?, call.tensor("weight")?, call.tensor_opt("bias"));
    let attributes = Attributes::new(call, weight)?;
    let dims = attributes.output_dims(input, weight, bias.map(|bias| &bias.value))?;
    checked_dtypes(&[input, weight])?;
    let dtype = input.dtype();
    if input.numel() == 0 {
        return Ok(f.constant(dtype, &dims, 0i64).into());
    }
    let geometry = attributes.geometry(&input.dims()[2..], &dims[2..], &weight.dims()[2..]);
    let map = if attributes.transposed { spread } else { correlate };
    let mut result = map(f, input, weight, &geometry, dtype.opmath())?;
    if let Some(bias) = bias {
        let bias = f.convert(bias, dtype.opmath())?;
        let bias = f.broadcast_in_dim(&bias, &dims, &[1])?;
        result = f.add(&result, &bias)?;
    }
    Ok(f.convert(&result, dtype)?.into())
}

/// Gradients of input, weight and bias as `output_mask` asks.
fn convolution_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (gradient, input, weight) = (
        call.tensor("grad_output")?,
        call.tensor("input")?,
        call.tensor("weight")?,
    );
    let attributes = Attributes::new(call, weight)?;
    let dims = attributes.output_dims(input, weight, None)?;
    let mask = call.ints("output_mask")?;
    let wanted = |index: usize| mask.get(index).is_some_and(|&flag| flag != 0);
    checked_dtypes(&[gradient, input, weight])?;
    let dtype = gradient.dtype();
    if input.numel() == 0 {
        let features = if attributes.transposed {
            weight.dim(1) * attributes.groups
        } else {
            weight.dim(0)
        };
        let mut zeros = |wanted: bool, dims: &[i64]| wanted.then(|| f.constant(dtype, dims, 0i64));
        return Ok(Outputs(vec![
            zeros(wanted(0), input.dims()),
            zeros(wanted(1), weight.dims()),
            zeros(wanted(2), &[features]),
        ]));
    }
    spatial::check_dims(gradient, &dims)?;
    let geometry = attributes.geometry(&input.dims()[2..], &dims[2..], &weight.dims()[2..]);
    let out = dtype.opmath();
    let input_gradient = if wanted(0) {
        let map = if attributes.transposed { correlate } else { spread };
        let value = map(f, gradient, weight, &geometry, out)?;
        Some(f.convert(&value, dtype)?)
    } else {
        None
    };
    let weight_gradient = if wanted(1) {
        let (small, large) = if attributes.transposed {
            (input, gradient)
        } else {
            (gradient, input)
        };
        let value = kernel_gradient(f, small, large, &geometry, out)?;
        Some(f.convert(&value, dtype)?)
    } else {
        None
    };
    let bias_gradient = if wanted(2) {
        let axes: Vec<usize> = (0..gradient.rank()).filter(|&axis| axis != 1).collect();
        let wide = f.convert(gradient, out)?;
        let total = f.reduce(&wide, Monoid::Add, &axes)?;
        Some(f.convert(&total, dtype)?)
    } else {
        None
    };
    Ok(Outputs(vec![input_gradient, weight_gradient, bias_gradient]))
}
