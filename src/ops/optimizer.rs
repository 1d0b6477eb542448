//! The fused optimizers: one program updates every parameter of a group.
//!
//! The formulas are those of ATen's CPU kernels (`FusedSGDKernel.cpp`, `FusedAdamKernel.cpp`, `FusedAdagradKernel.cpp`): numbers that depend
//! on hyperparameters and steps only are computed in float64, elements in the parameter's opmath dtype. Every hyperparameter is an operand,
//! so schedules never recompile. With `grad_scale` the unscaled gradients are written back; nothing changes when `found_inf` is 1.

use super::call::{Call, Operand, Outputs};
use super::table::OpDef;
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::stablehlo::{Binary, Comparison, Func, Unary, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("_fused_sgd_", fused_sgd)
        .operands(&["weight_decay", "momentum", "lr", "dampening"])
        .writes(&["self", "grads", "momentum_buffer_list"]),
    OpDef::new("_fused_adam_", |f, call| fused_adam(f, call, Decay::InGradient))
        .operands(ADAM_NUMBERS)
        .writes(ADAM_WRITES),
    OpDef::new("_fused_adamw_", |f, call| fused_adam(f, call, Decay::Decoupled))
        .operands(ADAM_NUMBERS)
        .writes(ADAM_WRITES),
    OpDef::new("_fused_adagrad_", fused_adagrad)
        .operands(&["lr", "lr_decay", "weight_decay", "eps"])
        .writes(&["self", "grads", "state_sums"]),
];

const ADAM_NUMBERS: &[&str] = &["lr", "beta1", "beta2", "weight_decay", "eps"];
const ADAM_WRITES: &[&str] = &["self", "grads", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs"];

/// A hyperparameter, or a tensor in its place, as a 0-d float64.
fn number(f: &mut Func, call: &Call, name: &str) -> Result<Value> {
    let value = call.tensor(name)?;
    let scalar = f.reshape(value, &[])?;
    f.convert(&scalar, DType::F64)
}

/// What all parameters of the call share about their gradients.
struct Gradients {
    scale: Option<Value>,
    /// 0-d bool: the whole step is left out.
    skip: Option<Value>,
    maximize: bool,
}

impl Gradients {
    fn of(f: &mut Func, call: &Call) -> Result<Self> {
        let scale = match call.tensor_opt("grad_scale") {
            Some(scale) => Some(f.reshape(scale, &[])?),
            None => None,
        };
        let skip = match call.tensor_opt("found_inf") {
            Some(found) => {
                let found = f.reshape(found, &[])?;
                Some(f.compare_const(Comparison::Eq, &found, 1i64)?)
            }
            None => None,
        };
        Ok(Self {
            scale,
            skip,
            maximize: call.flag("maximize")?,
        })
    }

    /// The gradient to use (unscaled, and negated when maximising), and the one to write back if any; in the opmath dtype.
    fn read(&self, f: &mut Func, gradient: &Value) -> Result<(Value, Option<Value>)> {
        let mut gradient = f.convert(gradient, gradient.dtype().opmath())?;
        let mut written = None;
        if let Some(scale) = &self.scale {
            let scale = spread(f, scale, &gradient)?;
            gradient = f.div(&gradient, &scale)?;
            written = Some(gradient.clone());
        }
        if self.maximize {
            gradient = f.neg(&gradient)?;
        }
        Ok((gradient, written))
    }

    /// `new` in the dtype of `old`, or `old` where the step is left out.
    fn write(&self, f: &mut Func, old: &Value, new: &Value) -> Result<Option<Value>> {
        let new = f.convert(new, old.dtype())?;
        Ok(Some(match &self.skip {
            Some(skip) => f.select(skip, old, &new)?,
            None => new,
        }))
    }
}

/// A 0-d number in `x`'s dtype and dims.
fn spread(f: &mut Func, number: &Value, x: &Value) -> Result<Value> {
    let number = f.convert(number, x.dtype())?;
    f.broadcast_to(&number, x.dims())
}

/// `x + factor · y`, `factor` a 0-d number.
fn add_scaled(f: &mut Func, x: &Value, factor: &Value, y: &Value) -> Result<Value> {
    let factor = spread(f, factor, y)?;
    let term = f.mul(&factor, y)?;
    f.add(x, &term)
}

fn scaled(f: &mut Func, factor: &Value, x: &Value) -> Result<Value> {
    let factor = spread(f, factor, x)?;
    f.mul(&factor, x)
}

/// Lists that are given must be as long as the parameters.
fn matching<'a>(call: &'a Call, name: &str, count: usize) -> Result<Vec<&'a Operand>> {
    let list = call.tensors(name)?;
    ensure(list.len() == count, || {
        Error::runtime(format!(
            "`{name}` must have one tensor for each of the {count} parameters, got {}",
            list.len()
        ))
    })?;
    Ok(list)
}

/// The steps `[n]` as float64: computing with all of them at once keeps the program small.
fn steps(f: &mut Func, call: &Call, count: usize) -> Result<Value> {
    let steps = matching(call, "state_steps", count)?;
    let flat = steps.into_iter().map(|step| {
        let step = f.reshape(step, &[1])?;
        f.convert(&step, DType::F64)
    });
    let flat = flat.collect::<Result<Vec<_>>>()?;
    f.concatenate(&flat, 0)
}

/// One number per parameter, in the type of the parameters' arithmetic (a call's parameters share one), and kept out of the loops over
/// their elements, which would compute it anew for each.
fn prepared(f: &mut Func, numbers: &Value, param: &Value) -> Result<Value> {
    let numbers = f.convert(numbers, param.dtype().opmath())?;
    f.barrier(&numbers)
}

/// Element `index` of `[n]`, 0-d.
fn element(f: &mut Func, list: &Value, index: usize) -> Result<Value> {
    let index = index as i64;
    let one = f.slice_axis(list, 0, index, index + 1)?;
    f.reshape(&one, &[])
}

/// One less `x`, for a 0-d float64.
fn complement(f: &mut Func, x: &Value) -> Result<Value> {
    let one = f.full_like(x, 1i64);
    f.sub(&one, x)
}

/// `g += weight_decay · p`; `b = momentum · b + (1 - dampening) · g`, at the first step `b = g`; `p -= lr · b` (Nesterov: `g + momentum · b`).
fn fused_sgd(f: &mut Func, call: &Call) -> Result<Outputs> {
    let params = call.tensors("self")?;
    let grads = matching(call, "grads", params.len())?;
    let buffers = call.tensors("momentum_buffer_list")?;
    let buffers = if buffers.is_empty() {
        None
    } else {
        Some(matching(call, "momentum_buffer_list", params.len())?)
    };
    let (nesterov, first) = (call.flag("nesterov")?, call.flag("is_first_step")?);
    let rate = number(f, call, "lr")?;
    let rate = f.neg(&rate)?;
    let decay = number(f, call, "weight_decay")?;
    let momentum = number(f, call, "momentum")?;
    let dampening = number(f, call, "dampening")?;
    let fresh = complement(f, &dampening)?;
    let gradients = Gradients::of(f, call)?;

    let (mut new_params, mut new_grads, mut new_buffers) = (Vec::new(), Vec::new(), Vec::new());
    for (index, (param, grad)) in params.iter().zip(&grads).enumerate() {
        let wide = f.convert(param, param.dtype().opmath())?;
        let (gradient, written) = gradients.read(f, grad)?;
        let mut update = add_scaled(f, &gradient, &decay, &wide)?;
        if let Some(buffers) = &buffers {
            let old = buffers[index];
            let buffer = if first {
                update.clone()
            } else {
                let old = f.convert(old, update.dtype())?;
                let kept = scaled(f, &momentum, &old)?;
                add_scaled(f, &kept, &fresh, &update)?
            };
            update = if nesterov {
                add_scaled(f, &update, &momentum, &buffer)?
            } else {
                buffer.clone()
            };
            new_buffers.push(gradients.write(f, old, &buffer)?);
        }
        let next = add_scaled(f, &wide, &rate, &update)?;
        new_params.push(gradients.write(f, param, &next)?);
        new_grads.push(match written {
            Some(written) => gradients.write(f, grad, &written)?,
            None => None,
        });
    }
    new_params.append(&mut new_grads);
    new_params.append(&mut new_buffers);
    Ok(Outputs(new_params))
}

/// Where the weight decay goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decay {
    /// Adam: added to the gradient.
    InGradient,
    /// AdamW: off the parameter.
    Decoupled,
}

/// `m += (1 - β₁)(g - m)`; `v = β₂ v + (1 - β₂) g²`; `p -= lr / (1 - β₁ᵗ) · m / (√v / √(1 - β₂ᵗ) + eps)`; AMSGrad takes the largest `v` so far.
fn fused_adam(f: &mut Func, call: &Call, placement: Decay) -> Result<Outputs> {
    let params = call.tensors("self")?;
    let count = params.len();
    let grads = matching(call, "grads", count)?;
    let means = matching(call, "exp_avgs", count)?;
    let squares = matching(call, "exp_avg_sqs", count)?;
    let amsgrad = call.flag("amsgrad")?;
    let maxima = call.tensors("max_exp_avg_sqs")?;
    ensure(!amsgrad || maxima.len() == count, || {
        Error::runtime("amsgrad needs one tensor in `max_exp_avg_sqs` for each parameter")
    })?;
    if count == 0 {
        return Ok(Outputs::default());
    }
    let rate = number(f, call, "lr")?;
    let beta1 = number(f, call, "beta1")?;
    let beta2 = number(f, call, "beta2")?;
    let decay = number(f, call, "weight_decay")?;
    let epsilon = number(f, call, "eps")?;
    let (fresh1, fresh2) = (complement(f, &beta1)?, complement(f, &beta2)?);
    let shrink = f.mul(&rate, &decay)?;
    let shrink = f.neg(&shrink)?;

    let steps = steps(f, call, count)?;
    let correction = |f: &mut Func, beta: &Value| {
        let beta = f.broadcast_to(beta, steps.dims())?;
        let power = f.binary(Binary::Power, &beta, &steps)?;
        let one = f.full_like(&power, 1i64);
        f.sub(&one, &power)
    };
    let correction1 = correction(f, &beta1)?;
    let correction2 = correction(f, &beta2)?;
    let rates = f.broadcast_to(&rate, steps.dims())?;
    let step_sizes = f.div(&rates, &correction1)?;
    let step_sizes = f.neg(&step_sizes)?;
    let inverse_roots = f.unary(Unary::Rsqrt, &correction2)?;
    let step_sizes = prepared(f, &step_sizes, params[0])?;
    let inverse_roots = prepared(f, &inverse_roots, params[0])?;
    let gradients = Gradients::of(f, call)?;

    let (mut new_params, mut new_grads, mut new_means) = (Vec::new(), Vec::new(), Vec::new());
    let (mut new_squares, mut new_maxima) = (Vec::new(), Vec::new());
    for index in 0..count {
        let (param, grad) = (params[index], grads[index]);
        let mut wide = f.convert(param, param.dtype().opmath())?;
        let (mut gradient, written) = gradients.read(f, grad)?;
        match placement {
            Decay::InGradient => gradient = add_scaled(f, &gradient, &decay, &wide)?,
            Decay::Decoupled => wide = add_scaled(f, &wide, &shrink, &wide)?,
        }
        let mean = f.convert(means[index], gradient.dtype())?;
        let distance = f.sub(&gradient, &mean)?;
        let mean = add_scaled(f, &mean, &fresh1, &distance)?;
        let square = f.convert(squares[index], gradient.dtype())?;
        let kept = scaled(f, &beta2, &square)?;
        let gradient_square = f.mul(&gradient, &gradient)?;
        let square = add_scaled(f, &kept, &fresh2, &gradient_square)?;
        let largest = if amsgrad {
            let before = f.convert(maxima[index], gradient.dtype())?;
            Some(f.max(&before, &square)?)
        } else {
            None
        };
        let root = f.unary(Unary::Sqrt, largest.as_ref().unwrap_or(&square))?;
        let correction = element(f, &inverse_roots, index)?;
        let root = scaled(f, &correction, &root)?;
        let epsilon = spread(f, &epsilon, &root)?;
        let denominator = f.add(&root, &epsilon)?;
        let step_size = element(f, &step_sizes, index)?;
        let update = scaled(f, &step_size, &mean)?;
        let update = f.div(&update, &denominator)?;
        let next = f.add(&wide, &update)?;

        new_params.push(gradients.write(f, param, &next)?);
        new_grads.push(match written {
            Some(written) => gradients.write(f, grad, &written)?,
            None => None,
        });
        new_means.push(gradients.write(f, means[index], &mean)?);
        new_squares.push(gradients.write(f, squares[index], &square)?);
        if let Some(before) = maxima.get(index) {
            new_maxima.push(match &largest {
                Some(largest) => gradients.write(f, before, largest)?,
                None => None,
            });
        }
    }
    Ok(Outputs(
        [new_params, new_grads, new_means, new_squares, new_maxima].concat(),
    ))
}

/// `s += g²`; `p -= lr / (1 + (t - 1) lr_decay) · g / (√s + eps)`.
fn fused_adagrad(f: &mut Func, call: &Call) -> Result<Outputs> {
    let params = call.tensors("self")?;
    let count = params.len();
    let grads = matching(call, "grads", count)?;
    let sums = matching(call, "state_sums", count)?;
    if count == 0 {
        return Ok(Outputs::default());
    }
    let rate = number(f, call, "lr")?;
    let rate_decay = number(f, call, "lr_decay")?;
    let decay = number(f, call, "weight_decay")?;
    let epsilon = number(f, call, "eps")?;
    let steps = steps(f, call, count)?;
    let before = f.binary_const(Binary::Subtract, &steps, 1i64)?;
    let growth = scaled(f, &rate_decay, &before)?;
    let growth = f.binary_const(Binary::Add, &growth, 1i64)?;
    let rates = f.broadcast_to(&rate, steps.dims())?;
    let rates = f.div(&rates, &growth)?;
    let rates = f.neg(&rates)?;
    let rates = prepared(f, &rates, params[0])?;
    let gradients = Gradients::of(f, call)?;

    let (mut new_params, mut new_grads, mut new_sums) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..count {
        let (param, grad) = (params[index], grads[index]);
        let wide = f.convert(param, param.dtype().opmath())?;
        let (gradient, written) = gradients.read(f, grad)?;
        let gradient = add_scaled(f, &gradient, &decay, &wide)?;
        let sum = f.convert(sums[index], gradient.dtype())?;
        let square = f.mul(&gradient, &gradient)?;
        let sum = f.add(&sum, &square)?;
        let root = f.unary(Unary::Sqrt, &sum)?;
        let epsilon = spread(f, &epsilon, &root)?;
        let denominator = f.add(&root, &epsilon)?;
        let direction = f.div(&gradient, &denominator)?;
        let rate = element(f, &rates, index)?;
        let next = add_scaled(f, &wide, &rate, &direction)?;
        new_params.push(gradients.write(f, param, &next)?);
        new_grads.push(match written {
            Some(written) => gradients.write(f, grad, &written)?,
            None => None,
        });
        new_sums.push(gradients.write(f, sums[index], &sum)?);
    }
    Ok(Outputs([new_params, new_grads, new_sums].concat()))
}
