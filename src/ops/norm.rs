//! Batch, layer and group normalisation.

use super::call::{Call, Operand, Outputs};
use super::table::{Layout, OpDef};
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::stablehlo::{Binary, Func, Monoid, Unary, Value};

pub(super) const OPS: &[OpDef] = &[
    // Writes its running statistics without an annotation in the schema.
    OpDef::new("native_batch_norm", batch_norm)
        .writes(&["running_mean", "running_var"])
        .layout(Layout::LikeFirst),
    OpDef::new("_native_batch_norm_legit", batch_norm)
        .writes(&["running_mean", "running_var"])
        .layout(Layout::LikeFirst),
    OpDef::new("native_batch_norm_backward", batch_norm_backward).layout(Layout::LikeFirst),
    OpDef::new("native_layer_norm", layer_norm),
    OpDef::new("native_layer_norm_backward", layer_norm_backward),
    OpDef::new("native_group_norm", group_norm),
    OpDef::new("native_group_norm_backward", group_norm_backward),
];

/// A vector over axis 1 of `like`, broadcast.
fn over_channels(f: &mut Func, vector: &Value, like: &Value) -> Result<Value> {
    f.broadcast_in_dim(vector, like.dims(), &[1])
}

fn wide(f: &mut Func, value: Option<&Operand>, dtype: DType) -> Result<Option<Value>> {
    value.map(|value| f.convert(value, dtype)).transpose()
}

/// All axes but that of the channels, and how many elements a channel has.
fn channel_axes(x: &Value) -> (Vec<usize>, i64) {
    let axes: Vec<usize> = (0..x.rank()).filter(|&axis| axis != 1).collect();
    let count = axes.iter().map(|&axis| x.dim(axis)).product();
    (axes, count)
}

fn mean(f: &mut Func, x: &Value, axes: &[usize], count: i64) -> Result<Value> {
    let sum = f.reduce(x, Monoid::Add, axes)?;
    f.binary_const(Binary::Divide, &sum, count as f64)
}

/// `1 / sqrt(variance + eps)`
fn inverse_deviation(f: &mut Func, variance: &Value, eps: f64) -> Result<Value> {
    let shifted = f.binary_const(Binary::Add, variance, eps)?;
    f.unary(Unary::Rsqrt, &shifted)
}

/// `input [N, C, …]` → result, saved mean and inverse deviation `[C]` (empty in evaluation); then the new running statistics.
fn batch_norm(f: &mut Func, call: &Call) -> Result<Outputs> {
    let input = call.tensor("input")?;
    ensure(input.rank() >= 2, || {
        Error::runtime(format!("batch norm expects at least two axes, got {:?}", input.dims()))
    })?;
    let dtype = input.dtype().opmath();
    let x = f.convert(input, dtype)?;
    let (axes, count) = channel_axes(&x);
    let eps = call.float("eps")?;
    let training = call.flag("training")? || !call.has("running_mean");
    let (running_mean, running_var) = (call.tensor_opt("running_mean"), call.tensor_opt("running_var"));
    let statistics = input.dtype().opmath();
    let (mean_value, inverse, running) = if training {
        let mean_value = mean(f, &x, &axes, count)?;
        let spread = over_channels(f, &mean_value, &x)?;
        let centred = f.sub(&x, &spread)?;
        let square = f.mul(&centred, &centred)?;
        let variance = mean(f, &square, &axes, count)?;
        let inverse = inverse_deviation(f, &variance, eps)?;
        let momentum = call.float("momentum")?;
        // The running variance is the unbiased one.
        let unbiased = f.binary_const(Binary::Multiply, &variance, count as f64 / (count - 1) as f64)?;
        let mut running = Vec::new();
        for (old, new) in [(running_mean, &mean_value), (running_var, &unbiased)] {
            running.push(match old {
                None => None,
                Some(old) => {
                    let kept = f.convert(old, dtype)?;
                    let kept = f.binary_const(Binary::Multiply, &kept, 1.0 - momentum)?;
                    let share = f.binary_const(Binary::Multiply, new, momentum)?;
                    let sum = f.add(&kept, &share)?;
                    Some(f.convert(&sum, old.dtype())?)
                }
            });
        }
        (mean_value, inverse, running)
    } else {
        let mean_value = wide(f, running_mean, dtype)?
            .ok_or_else(|| Error::runtime("running_mean must be defined in evaluation mode"))?;
        let variance = wide(f, running_var, dtype)?
            .ok_or_else(|| Error::runtime("running_var must be defined in evaluation mode"))?;
        let inverse = inverse_deviation(f, &variance, eps)?;
        (mean_value, inverse, vec![None, None])
    };
    // One multiplication and one addition per element.
    let scale = match wide(f, call.tensor_opt("weight"), dtype)? {
        Some(weight) => f.mul(&inverse, &weight)?,
        None => inverse.clone(),
    };
    let spread_mean = over_channels(f, &mean_value, &x)?;
    let centred = f.sub(&x, &spread_mean)?;
    let scale = over_channels(f, &scale, &x)?;
    let mut result = f.mul(&centred, &scale)?;
    if let Some(bias) = wide(f, call.tensor_opt("bias"), dtype)? {
        let bias = over_channels(f, &bias, &x)?;
        result = f.add(&result, &bias)?;
    }
    let result = f.convert(&result, input.dtype())?;
    let (save_mean, save_inverse) = if training {
        (f.convert(&mean_value, statistics)?, f.convert(&inverse, statistics)?)
    } else {
        let empty = f.constant(statistics, &[0], 0i64);
        (empty.clone(), empty)
    };
    let mut outputs = vec![Some(result), Some(save_mean), Some(save_inverse)];
    outputs.extend(running);
    Ok(Outputs(outputs))
}

/// Gradients of input, weight and bias (each only where the mask asks).
fn batch_norm_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (gradient, input) = (call.tensor("grad_out")?, call.tensor("input")?);
    let dtype = input.dtype().opmath();
    let (g, x) = (f.convert(gradient, dtype)?, f.convert(input, dtype)?);
    let (axes, count) = channel_axes(&x);
    let train = call.flag("train")?;
    let mask = call.ints("output_mask")?;
    let asked = |index: usize| mask.get(index).copied().unwrap_or(0) != 0;
    let (mean_value, inverse) = if train {
        (
            wide(f, call.tensor_opt("save_mean"), dtype)?,
            wide(f, call.tensor_opt("save_invstd"), dtype)?,
        )
    } else {
        let variance = wide(f, call.tensor_opt("running_var"), dtype)?
            .ok_or_else(|| Error::runtime("running_var must be defined"))?;
        (
            wide(f, call.tensor_opt("running_mean"), dtype)?,
            Some(inverse_deviation(f, &variance, call.float("eps")?)?),
        )
    };
    let (Some(mean_value), Some(inverse)) = (mean_value, inverse) else {
        return Err(Error::runtime("the saved statistics must be defined"));
    };
    let spread_mean = over_channels(f, &mean_value, &x)?;
    let centred = f.sub(&x, &spread_mean)?;
    let sum = f.reduce(&g, Monoid::Add, &axes)?;
    let product = f.mul(&g, &centred)?;
    let dot = f.reduce(&product, Monoid::Add, &axes)?;
    let weight = wide(f, call.tensor_opt("weight"), dtype)?;
    let scale = match &weight {
        Some(weight) => f.mul(&inverse, weight)?,
        None => inverse.clone(),
    };
    let input_gradient = if asked(0) {
        let inner = if train {
            // g − mean(g) − centred · inverse² · mean(g · centred)
            let mean_gradient = f.binary_const(Binary::Divide, &sum, count as f64)?;
            let mean_gradient = over_channels(f, &mean_gradient, &x)?;
            let square = f.mul(&inverse, &inverse)?;
            let slope = f.mul(&dot, &square)?;
            let slope = f.binary_const(Binary::Divide, &slope, count as f64)?;
            let slope = over_channels(f, &slope, &x)?;
            let along = f.mul(&centred, &slope)?;
            let rest = f.sub(&g, &mean_gradient)?;
            f.sub(&rest, &along)?
        } else {
            g.clone()
        };
        let scale = over_channels(f, &scale, &x)?;
        let result = f.mul(&inner, &scale)?;
        Some(f.convert(&result, input.dtype())?)
    } else {
        None
    };
    let parameter_dtype = call.tensor_opt("weight").map_or(input.dtype(), |weight| weight.dtype());
    let weight_gradient = if asked(1) {
        let result = f.mul(&dot, &inverse)?;
        Some(f.convert(&result, parameter_dtype)?)
    } else {
        None
    };
    let bias_gradient = if asked(2) {
        Some(f.convert(&sum, parameter_dtype)?)
    } else {
        None
    };
    Ok(Outputs(vec![input_gradient, weight_gradient, bias_gradient]))
}

/// How many leading axes are not normalised.
fn leading(call: &Call, x: &Value) -> Result<usize> {
    let shape = call.ints("normalized_shape")?;
    ensure(!shape.is_empty() && x.dims().ends_with(&shape), || {
        Error::runtime(format!(
            "Given normalized_shape={shape:?}, expected input with shape [*, {shape:?}], but got input of size{:?}",
            x.dims()
        ))
    })?;
    Ok(x.rank() - shape.len())
}

/// Values over the leading axes spread over all, and over the normalised axes spread over all.
fn over_leading(f: &mut Func, value: &Value, like: &Value, leading: usize) -> Result<Value> {
    let axes: Vec<usize> = (0..leading).collect();
    f.broadcast_in_dim(value, like.dims(), &axes)
}

/// `input [*, normalized_shape]` → result, mean and inverse deviation `[*, 1 …]`.
fn layer_norm(f: &mut Func, call: &Call) -> Result<Outputs> {
    let input = call.tensor("input")?;
    let dtype = input.dtype().opmath();
    let x = f.convert(input, dtype)?;
    let leading = leading(call, &x)?;
    let axes: Vec<usize> = (leading..x.rank()).collect();
    let count: i64 = x.dims()[leading..].iter().product();
    let mean_value = mean(f, &x, &axes, count)?;
    let spread = over_leading(f, &mean_value, &x, leading)?;
    let centred = f.sub(&x, &spread)?;
    let square = f.mul(&centred, &centred)?;
    let variance = mean(f, &square, &axes, count)?;
    let inverse = inverse_deviation(f, &variance, call.float("eps")?)?;
    let spread_inverse = over_leading(f, &inverse, &x, leading)?;
    let mut result = f.mul(&centred, &spread_inverse)?;
    if let Some(weight) = wide(f, call.tensor_opt("weight"), dtype)? {
        let weight = f.broadcast_to(&weight, x.dims())?;
        result = f.mul(&result, &weight)?;
    }
    if let Some(bias) = wide(f, call.tensor_opt("bias"), dtype)? {
        let bias = f.broadcast_to(&bias, x.dims())?;
        result = f.add(&result, &bias)?;
    }
    let mut kept: Vec<i64> = x.dims().to_vec();
    kept[leading..].fill(1);
    let (mean_value, inverse) = (f.reshape(&mean_value, &kept)?, f.reshape(&inverse, &kept)?);
    // The statistics have the parameters' dtype on the CPU when it is wider (mixed precision), else the input's.
    let statistics = call.tensor_opt("weight").map_or(input.dtype(), |weight| weight.dtype());
    Ok(Outputs::all([
        f.convert(&result, input.dtype())?,
        f.convert(&mean_value, statistics)?,
        f.convert(&inverse, statistics)?,
    ]))
}

fn layer_norm_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (gradient, input) = (call.tensor("grad_out")?, call.tensor("input")?);
    let dtype = input.dtype().opmath();
    let (g, x) = (f.convert(gradient, dtype)?, f.convert(input, dtype)?);
    let leading = leading(call, &x)?;
    let axes: Vec<usize> = (leading..x.rank()).collect();
    let rows: Vec<usize> = (0..leading).collect();
    let count: i64 = x.dims()[leading..].iter().product();
    let mask = call.ints("output_mask")?;
    let asked = |index: usize| mask.get(index).copied().unwrap_or(0) != 0;
    let statistic = |f: &mut Func, name: &str| -> Result<Value> {
        let value = f.convert(call.tensor(name)?, dtype)?;
        f.broadcast_to(&value, x.dims())
    };
    let (mean_value, inverse) = (statistic(f, "mean")?, statistic(f, "rstd")?);
    let centred = f.sub(&x, &mean_value)?;
    let normal = f.mul(&centred, &inverse)?;
    let weight = wide(f, call.tensor_opt("weight"), dtype)?;
    let input_gradient = if asked(0) {
        let scaled = match &weight {
            Some(weight) => {
                let weight = f.broadcast_to(weight, x.dims())?;
                f.mul(&g, &weight)?
            }
            None => g.clone(),
        };
        // inverse · (s − mean(s) − normal · mean(s · normal))
        let first = mean(f, &scaled, &axes, count)?;
        let first = over_leading(f, &first, &x, leading)?;
        let product = f.mul(&scaled, &normal)?;
        let second = mean(f, &product, &axes, count)?;
        let second = over_leading(f, &second, &x, leading)?;
        let along = f.mul(&normal, &second)?;
        let rest = f.sub(&scaled, &first)?;
        let rest = f.sub(&rest, &along)?;
        let result = f.mul(&rest, &inverse)?;
        Some(f.convert(&result, input.dtype())?)
    } else {
        None
    };
    let parameter = |f: &mut Func, name: &str, value: &Value| -> Result<Option<Value>> {
        let Some(parameter) = call.tensor_opt(name) else {
            return Ok(None);
        };
        let sum = f.reduce(value, Monoid::Add, &rows)?;
        f.convert(&sum, parameter.dtype()).map(Some)
    };
    let weight_gradient = if asked(1) {
        let product = f.mul(&g, &normal)?;
        parameter(f, "weight", &product)?
    } else {
        None
    };
    let bias_gradient = if asked(2) { parameter(f, "bias", &g)? } else { None };
    Ok(Outputs(vec![input_gradient, weight_gradient, bias_gradient]))
}

/// `input [N, C, *]` as `[N, groups, C / groups · HxW]`.
fn grouped(f: &mut Func, x: &Value, call: &Call) -> Result<(Value, [i64; 4])> {
    let (n, c, hw, groups) = (call.int("N")?, call.int("C")?, call.int("HxW")?, call.int("group")?);
    ensure(groups > 0 && c % groups == 0, || {
        Error::runtime(format!(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape {:?} and num_groups={groups}",
            x.dims()
        ))
    })?;
    Ok((f.reshape(x, &[n, groups, c / groups * hw])?, [n, c, hw, groups]))
}

/// Result, mean and inverse deviation `[N, groups]`.
fn group_norm(f: &mut Func, call: &Call) -> Result<Outputs> {
    let input = call.tensor("input")?;
    let dtype = input.dtype().opmath();
    let x = f.convert(input, dtype)?;
    let (x, [n, c, hw, groups]) = grouped(f, &x, call)?;
    let count = c / groups * hw;
    let mean_value = mean(f, &x, &[2], count)?;
    let spread = over_leading(f, &mean_value, &x, 2)?;
    let centred = f.sub(&x, &spread)?;
    let square = f.mul(&centred, &centred)?;
    let variance = mean(f, &square, &[2], count)?;
    let inverse = inverse_deviation(f, &variance, call.float("eps")?)?;
    let spread = over_leading(f, &inverse, &x, 2)?;
    let normal = f.mul(&centred, &spread)?;
    let mut result = f.reshape(&normal, &[n, c, hw])?;
    if let Some(weight) = wide(f, call.tensor_opt("weight"), dtype)? {
        let weight = over_channels(f, &weight, &result)?;
        result = f.mul(&result, &weight)?;
    }
    if let Some(bias) = wide(f, call.tensor_opt("bias"), dtype)? {
        let bias = over_channels(f, &bias, &result)?;
        result = f.add(&result, &bias)?;
    }
    let result = f.reshape(&result, input.dims())?;
    let statistics = call.tensor_opt("weight").map_or(input.dtype(), |weight| weight.dtype());
    Ok(Outputs::all([
        f.convert(&result, input.dtype())?,
        f.convert(&mean_value, statistics)?,
        f.convert(&inverse, statistics)?,
    ]))
}

fn group_norm_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (gradient, input) = (call.tensor("grad_out")?, call.tensor("input")?);
    let dtype = input.dtype().opmath();
    let (g, x) = (f.convert(gradient, dtype)?, f.convert(input, dtype)?);
    let (x, [n, c, hw, groups]) = grouped(f, &x, call)?;
    let count = c / groups * hw;
    let mask = call.ints("output_mask")?;
    let asked = |index: usize| mask.get(index).copied().unwrap_or(0) != 0;
    let statistic = |f: &mut Func, name: &str, like: &Value| -> Result<Value> {
        let value = f.convert(call.tensor(name)?, dtype)?;
        let value = f.reshape(&value, &[n, groups])?;
        over_leading(f, &value, like, 2)
    };
    let (mean_value, inverse) = (statistic(f, "mean", &x)?, statistic(f, "rstd", &x)?);
    let centred = f.sub(&x, &mean_value)?;
    let normal = f.mul(&centred, &inverse)?;
    let flat = f.reshape(&g, &[n, c, hw])?;
    let weight = wide(f, call.tensor_opt("weight"), dtype)?;
    let input_gradient = if asked(0) {
        let scaled = match &weight {
            Some(weight) => {
                let weight = over_channels(f, weight, &flat)?;
                f.mul(&flat, &weight)?
            }
            None => flat.clone(),
        };
        let scaled = f.reshape(&scaled, &[n, groups, count])?;
        let first = mean(f, &scaled, &[2], count)?;
        let first = over_leading(f, &first, &x, 2)?;
        let product = f.mul(&scaled, &normal)?;
        let second = mean(f, &product, &[2], count)?;
        let second = over_leading(f, &second, &x, 2)?;
        let along = f.mul(&normal, &second)?;
        let rest = f.sub(&scaled, &first)?;
        let rest = f.sub(&rest, &along)?;
        let result = f.mul(&rest, &inverse)?;
        let result = f.reshape(&result, input.dims())?;
        Some(f.convert(&result, input.dtype())?)
    } else {
        None
    };
    let parameter_dtype = call.tensor_opt("weight").map_or(input.dtype(), |weight| weight.dtype());
    let weight_gradient = if asked(1) {
        let normal = f.reshape(&normal, &[n, c, hw])?;
        let product = f.mul(&flat, &normal)?;
        let sum = f.reduce(&product, Monoid::Add, &[0, 2])?;
        Some(f.convert(&sum, parameter_dtype)?)
    } else {
        None
    };
    let bias_gradient = if asked(2) {
        let sum = f.reduce(&flat, Monoid::Add, &[0, 2])?;
        Some(f.convert(&sum, parameter_dtype)?)
    } else {
        None
    };
    Ok(Outputs(vec![input_gradient, weight_gradient, bias_gradient]))
}
