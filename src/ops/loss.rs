//! Losses and their gradients. `reduction`: 0 none, 1 mean, 2 sum.

use super::call::{Call, Operand, Outputs};
use super::common::{Promotion, broadcast_all, result_dtype};
use super::table::OpDef;
use crate::dtype::DType;
use crate::error::{Error, Kind, Result, ensure};
use crate::stablehlo::{Binary, Comparison, Func, Monoid, Unary, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("mse_loss", |f, call| {
        loss(f, call, |f, _, difference| f.mul(difference, difference))
    }),
    OpDef::new("mse_loss_backward", |f, call| {
        loss_backward(f, call, |f, _, difference| {
            f.binary_const(Binary::Multiply, difference, 2i64)
        })
    }),
    OpDef::new("smooth_l1_loss", |f, call| loss(f, call, smooth_l1)),
    OpDef::new("smooth_l1_loss_backward", |f, call| {
        loss_backward(f, call, smooth_l1_slope)
    }),
    OpDef::new("huber_loss", |f, call| loss(f, call, huber)),
    OpDef::new("huber_loss_backward", |f, call| loss_backward(f, call, huber_slope)),
    OpDef::new("soft_margin_loss", soft_margin_loss),
    OpDef::new("soft_margin_loss_backward", soft_margin_loss_backward),
    OpDef::new("binary_cross_entropy", binary_cross_entropy),
    OpDef::new("binary_cross_entropy_backward", binary_cross_entropy_backward),
    OpDef::new("binary_cross_entropy_with_logits", with_logits),
    OpDef::new("nll_loss_forward", nll_loss),
    OpDef::new("nll_loss_backward", nll_loss_backward),
    OpDef::new("nll_loss2d_forward", nll_loss),
    OpDef::new("nll_loss2d_backward", nll_loss_backward),
];

const NONE: i64 = 0;
const MEAN: i64 = 1;

fn all_axes(x: &Value) -> Vec<usize> {
    (0..x.rank()).collect()
}

/// Elements → result, by `reduction`.
fn reduced(f: &mut Func, elements: &Value, reduction: i64) -> Result<Value> {
    if reduction == NONE {
        return Ok(elements.clone());
    }
    let sum = f.reduce(elements, Monoid::Add, &all_axes(elements))?;
    if reduction == MEAN {
        f.binary_const(Binary::Divide, &sum, elements.numel() as f64)
    } else {
        Ok(sum)
    }
}

type Element = fn(&mut Func, &Call, &Value) -> Result<Value>;

/// `element(self − target)`, reduced.
fn loss(f: &mut Func, call: &Call, element: Element) -> Result<Outputs> {
    let operands = [call.tensor("self")?, call.tensor("target")?];
    let dtype = result_dtype(call, &operands, Promotion::Default)?;
    ensure(dtype.is_inexact(), || {
        Error::not_implemented(format!("this loss is not implemented for {dtype}"))
    })?;
    let x = broadcast_all(f, &[&operands[0].value, &operands[1].value], dtype.opmath())?;
    let difference = f.sub(&x[0], &x[1])?;
    let elements = element(f, call, &difference)?;
    let result = reduced(f, &elements, call.int("reduction")?)?;
    Ok(f.convert(&result, dtype)?.into())
}

/// `grad_output · slope(self − target)`, divided by the count for a mean.
fn loss_backward(f: &mut Func, call: &Call, slope: Element) -> Result<Outputs> {
    let operands = [
        call.tensor("self")?,
        call.tensor("target")?,
        call.tensor("grad_output")?,
    ];
    let dtype = result_dtype(call, &operands, Promotion::Default)?;
    let x = broadcast_all(
        f,
        &[&operands[0].value, &operands[1].value, &operands[2].value],
        dtype.opmath(),
    )?;
    let difference = f.sub(&x[0], &x[1])?;
    let slope = slope(f, call, &difference)?;
    let gradient = f.mul(&x[2], &slope)?;
    let gradient = mean_share(f, &gradient, call.int("reduction")?)?;
    Ok(f.convert(&gradient, dtype)?.into())
}

/// One element's share of a mean's gradient.
fn mean_share(f: &mut Func, gradient: &Value, reduction: i64) -> Result<Value> {
    if reduction == MEAN {
        f.binary_const(Binary::Divide, gradient, gradient.numel() as f64)
    } else {
        Ok(gradient.clone())
    }
}

/// ½d²/β inside of β, |d| − β/2 outside.
fn smooth_l1(f: &mut Func, call: &Call, difference: &Value) -> Result<Value> {
    let beta = call.float("beta")?;
    let magnitude = f.unary(Unary::Abs, difference)?;
    if beta == 0.0 {
        return Ok(magnitude);
    }
    let square = f.mul(&magnitude, &magnitude)?;
    let inner = f.binary_const(Binary::Multiply, &square, 0.5 / beta)?;
    let outer = f.binary_const(Binary::Subtract, &magnitude, 0.5 * beta)?;
    let inside = f.compare_const(Comparison::Lt, &magnitude, beta)?;
    f.select(&inside, &inner, &outer)
}

fn smooth_l1_slope(f: &mut Func, call: &Call, difference: &Value) -> Result<Value> {
    let beta = call.float("beta")?;
    let sign = f.unary(Unary::Sign, difference)?;
    if beta == 0.0 {
        return Ok(sign);
    }
    let inner = f.binary_const(Binary::Divide, difference, beta)?;
    let magnitude = f.unary(Unary::Abs, difference)?;
    let inside = f.compare_const(Comparison::Lt, &magnitude, beta)?;
    f.select(&inside, &inner, &sign)
}

/// ½d² inside of δ, δ(|d| − δ/2) outside.
fn huber(f: &mut Func, call: &Call, difference: &Value) -> Result<Value> {
    let delta = call.float("delta")?;
    ensure(delta > 0.0, || {
        Error::runtime("huber_loss does not support non-positive values for delta.")
    })?;
    let magnitude = f.unary(Unary::Abs, difference)?;
    let square = f.mul(&magnitude, &magnitude)?;
    let inner = f.binary_const(Binary::Multiply, &square, 0.5f64)?;
    let outer = f.binary_const(Binary::Subtract, &magnitude, 0.5 * delta)?;
    let outer = f.binary_const(Binary::Multiply, &outer, delta)?;
    let inside = f.compare_const(Comparison::Le, &magnitude, delta)?;
    f.select(&inside, &inner, &outer)
}

fn huber_slope(f: &mut Func, call: &Call, difference: &Value) -> Result<Value> {
    let delta = call.float("delta")?;
    let (low, high) = (
        f.constant(difference.dtype(), &[], -delta),
        f.constant(difference.dtype(), &[], delta),
    );
    f.clamp(&low, difference, &high)
}

/// `log(1 + e^(−target·self))`
fn soft_margin_loss(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (x, target) = (call.tensor("self")?, call.tensor("target")?);
    let values = broadcast_all(f, &[&x.value, &target.value], x.dtype().opmath())?;
    let product = f.mul(&values[0], &values[1])?;
    let negative = f.neg(&product)?;
    let power = f.unary(Unary::Exp, &negative)?;
    let elements = f.unary(Unary::Log1p, &power)?;
    let result = reduced(f, &elements, call.int("reduction")?)?;
    Ok(f.convert(&result, x.dtype())?.into())
}

fn soft_margin_loss_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (x, target, gradient) = (
        call.tensor("self")?,
        call.tensor("target")?,
        call.tensor("grad_output")?,
    );
    let values = broadcast_all(f, &[&x.value, &target.value, &gradient.value], x.dtype().opmath())?;
    let product = f.mul(&values[0], &values[1])?;
    let negative = f.neg(&product)?;
    let gate = f.unary(Unary::Logistic, &negative)?;
    let slope = f.mul(&values[1], &gate)?;
    let slope = f.neg(&slope)?;
    let result = f.mul(&values[2], &slope)?;
    let result = mean_share(f, &result, call.int("reduction")?)?;
    Ok(f.convert(&result, x.dtype())?.into())
}

/// `x`, `target` and the optional weight in the dtype of computation, weight broadcast.
fn weighted(f: &mut Func, call: &Call, x: &Operand) -> Result<(Value, Value, Option<Value>)> {
    let wide = x.dtype().opmath();
    let target = call.tensor("target")?;
    let values = broadcast_all(f, &[&x.value, &target.value], wide)?;
    let weight = match call.tensor_opt("weight") {
        Some(weight) => {
            let weight = f.convert(weight, wide)?;
            Some(f.broadcast_to(&weight, values[0].dims())?)
        }
        None => None,
    };
    Ok((values[0].clone(), values[1].clone(), weight))
}

/// `(t − 1)·max(log(1 − x), −100) − t·max(log x, −100)`; x must lie in 0..1 (checked by the program).
fn binary_cross_entropy(f: &mut Func, call: &Call) -> Result<Outputs> {
    let operand = call.tensor("self")?;
    let (x, target, weight) = weighted(f, call, operand)?;
    let (low, high) = (
        f.compare_const(Comparison::Ge, &x, 0i64)?,
        f.compare_const(Comparison::Le, &x, 1i64)?,
    );
    let inside = f.and(&low, &high)?;
    let ok = f.reduce(&inside, Monoid::And, &all_axes(&inside))?;
    f.check(&ok, Kind::Runtime, "all elements of input should be between 0 and 1")?;
    let one = f.full_like(&x, 1i64);
    let limit = f.full_like(&x, -100i64);
    let rest = f.sub(&one, &x)?;
    let (log_rest, log_x) = (f.unary(Unary::Log, &rest)?, f.unary(Unary::Log, &x)?);
    let (log_rest, log_x) = (f.max(&log_rest, &limit)?, f.max(&log_x, &limit)?);
    let target_less = f.sub(&target, &one)?;
    let (left, right) = (f.mul(&target_less, &log_rest)?, f.mul(&target, &log_x)?);
    let mut elements = f.sub(&left, &right)?;
    if let Some(weight) = weight {
        elements = f.mul(&elements, &weight)?;
    }
    let result = reduced(f, &elements, call.int("reduction")?)?;
    Ok(f.convert(&result, operand.dtype())?.into())
}

/// `grad · (x − t) / max((1 − x)·x, 1e-12)`
fn binary_cross_entropy_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    let operand = call.tensor("self")?;
    let (x, target, weight) = weighted(f, call, operand)?;
    let gradient = f.convert(call.tensor("grad_output")?, x.dtype())?;
    let gradient = f.broadcast_to(&gradient, x.dims())?;
    let one = f.full_like(&x, 1i64);
    let rest = f.sub(&one, &x)?;
    let product = f.mul(&rest, &x)?;
    let product = f.binary_const(Binary::Maximum, &product, 1e-12f64)?;
    let difference = f.sub(&x, &target)?;
    let slope = f.div(&difference, &product)?;
    let mut result = f.mul(&gradient, &slope)?;
    if let Some(weight) = weight {
        result = f.mul(&result, &weight)?;
    }
    let result = mean_share(f, &result, call.int("reduction")?)?;
    Ok(f.convert(&result, operand.dtype())?.into())
}

/// `(1 − t)·x + w·(log(1 + e^(−|x|)) + max(−x, 0))`, w = 1 + (pos_weight − 1)·t
fn with_logits(f: &mut Func, call: &Call) -> Result<Outputs> {
    let operand = call.tensor("self")?;
    let (x, target, weight) = weighted(f, call, operand)?;
    let negative = f.neg(&x)?;
    let magnitude = f.unary(Unary::Abs, &x)?;
    let magnitude = f.neg(&magnitude)?;
    let power = f.unary(Unary::Exp, &magnitude)?;
    let log = f.unary(Unary::Log1p, &power)?;
    let positive = f.binary_const(Binary::Maximum, &negative, 0i64)?;
    let mut soft = f.add(&log, &positive)?;
    if let Some(pos_weight) = call.tensor_opt("pos_weight") {
        let pos_weight = f.convert(pos_weight, x.dtype())?;
        let pos_weight = f.broadcast_to(&pos_weight, x.dims())?;
        let more = f.binary_const(Binary::Subtract, &pos_weight, 1i64)?;
        let factor = f.mul(&more, &target)?;
        let factor = f.binary_const(Binary::Add, &factor, 1i64)?;
        soft = f.mul(&factor, &soft)?;
    }
    let one = f.full_like(&target, 1i64);
    let rest = f.sub(&one, &target)?;
    let linear = f.mul(&rest, &x)?;
    let mut elements = f.add(&linear, &soft)?;
    if let Some(weight) = weight {
        elements = f.mul(&elements, &weight)?;
    }
    let result = reduced(f, &elements, call.int("reduction")?)?;
    Ok(f.convert(&result, operand.dtype())?.into())
}

/// What both directions of the negative log likelihood need.
struct Classes {
    /// Axis of the classes in `self`: 1, or 0 for a single sample.
    axis: usize,
    /// `self`'s dims, true at the target's class.
    hot: Value,
    /// `target`'s dims: the class weight, 0 where the target is ignored.
    weight: Value,
}

/// One-hot by comparison with an iota: on XLA a fused select, cheaper than gather and scatter at usual class counts.
fn classes(f: &mut Func, call: &Call, x: &Value, wide: DType) -> Result<Classes> {
    let target = call.tensor("target")?;
    let axis = usize::from(x.rank() > 1);
    ensure(x.rank() == target.rank() + 1, || {
        Error::runtime(format!(
            "input {:?} and target {:?} do not match: the target has one axis less",
            x.dims(),
            target.dims()
        ))
    })?;
    ensure(
        crate::shape::without(x.dims(), &[axis]).as_slice() == target.dims(),
        || {
            Error::value(format!(
                "Expected input batch_size ({}) to match target batch_size ({}).",
                x.dim(0),
                target.dims().first().copied().unwrap_or(1)
            ))
        },
    )?;
    let count = x.dim(axis);
    let ignore = call.int("ignore_index")?;
    let target = f.convert(target, DType::I64)?;
    let ignored = f.compare_const(Comparison::Eq, &target, ignore)?;
    if call.debug {
        let low = f.compare_const(Comparison::Ge, &target, 0i64)?;
        let high = f.compare_const(Comparison::Lt, &target, count)?;
        let inside = f.and(&low, &high)?;
        let fine = f.or(&inside, &ignored)?;
        let ok = f.reduce(&fine, Monoid::And, &all_axes(&fine))?;
        f.check(&ok, Kind::Index, "Target is out of bounds.")?;
    }
    let narrow = f.convert(&target, DType::I32)?;
    let raised = f.unsqueeze(&narrow, &[axis])?;
    let raised = f.broadcast_to(&raised, x.dims())?;
    let positions = f.iota(DType::I32, x.dims(), axis)?;
    let hot = f.compare(Comparison::Eq, &positions, &raised)?;
    let one = f.constant(wide, target.dims(), 1i64);
    let weight = match call.tensor_opt("weight") {
        None => one,
        Some(weight) => {
            ensure(weight.dims() == [count], || {
                Error::runtime(format!(
                    "weight tensor should be defined either for all {count} classes or no classes but got weight tensor of shape: {:?}",
                    weight.dims()
                ))
            })?;
            let weight = f.convert(weight, wide)?;
            let spread = f.broadcast_in_dim(&weight, x.dims(), &[axis])?;
            let zero = f.full_like(&spread, 0i64);
            let chosen = f.select(&hot, &spread, &zero)?;
            f.reduce(&chosen, Monoid::Add, &[axis])?
        }
    };
    let zero = f.full_like(&weight, 0i64);
    let weight = f.select(&ignored, &zero, &weight)?;
    Ok(Classes { axis, hot, weight })
}

/// `self [N, C, …]` of log probabilities, `target [N, …]` → loss and the sum of the weights used.
fn nll_loss(f: &mut Func, call: &Call) -> Result<Outputs> {
    let operand = call.tensor("self")?;
    let wide = operand.dtype().opmath();
    let x = f.convert(operand, wide)?;
    let classes = classes(f, call, &x, wide)?;
    let zero = f.full_like(&x, 0i64);
    let chosen = f.select(&classes.hot, &x, &zero)?;
    let chosen = f.reduce(&chosen, Monoid::Add, &[classes.axis])?;
    let weighted = f.mul(&chosen, &classes.weight)?;
    let ignored = f.compare_const(Comparison::Eq, &classes.weight, 0i64)?;
    let zero = f.full_like(&weighted, 0i64);
    let weighted = f.select(&ignored, &zero, &weighted)?;
    let elements = f.neg(&weighted)?;
    let reduction = call.int("reduction")?;
    let total = f.reduce(&classes.weight, Monoid::Add, &all_axes(&classes.weight))?;
    let loss = if reduction == NONE {
        elements
    } else {
        f.reduce(&elements, Monoid::Add, &all_axes(&elements))?
    };
    let loss = if reduction == MEAN { f.div(&loss, &total)? } else { loss };
    let total = if reduction == NONE {
        f.full_like(&total, 0i64)
    } else {
        total
    };
    Ok(Outputs::all([
        f.convert(&loss, operand.dtype())?,
        f.convert(&total, operand.dtype())?,
    ]))
}

/// `−weight · grad_output` at the target's class (divided by the total weight for a mean), 0 elsewhere.
fn nll_loss_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    let operand = call.tensor("self")?;
    let wide = operand.dtype().opmath();
    let x = f.convert(operand, wide)?;
    let classes = classes(f, call, &x, wide)?;
    let gradient = f.convert(call.tensor("grad_output")?, wide)?;
    let gradient = f.broadcast_to(&gradient, classes.weight.dims())?;
    let mut share = f.mul(&gradient, &classes.weight)?;
    if call.int("reduction")? == MEAN {
        let total = f.convert(call.tensor("total_weight")?, wide)?;
        let total = f.broadcast_to(&total, share.dims())?;
        share = f.div(&share, &total)?;
    }
    let share = f.neg(&share)?;
    let share = f.unsqueeze(&share, &[classes.axis])?;
    let share = f.broadcast_to(&share, x.dims())?;
    let zero = f.full_like(&x, 0i64);
    let result = f.select(&classes.hot, &share, &zero)?;
    Ok(f.convert(&result, operand.dtype())?.into())
}
