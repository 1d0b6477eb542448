//! The two kernels of `torch.amp.GradScaler`.

use super::call::{Call, Outputs};
use super::table::OpDef;
use crate::error::{Error, Result, ensure};
use crate::stablehlo::{Binary, Comparison, Func, Monoid, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("_amp_foreach_non_finite_check_and_unscale_", check_and_unscale).writes(&["self", "found_inf"]),
    OpDef::new("_amp_update_scale_", update_scale).writes(&["self", "growth_tracker"]),
];

fn one_element<'a>(call: &'a Call, name: &str) -> Result<&'a Value> {
    let value = &call.tensor(name)?.value;
    ensure(value.numel() == 1, || {
        Error::runtime(format!("{name} must be a 1-element tensor."))
    })?;
    Ok(value)
}

/// The gradients times `inv_scale`; `found_inf` becomes 1 when one of them was not finite.
fn check_and_unscale(f: &mut Func, call: &Call) -> Result<Outputs> {
    let gradients = call.tensors("self")?;
    let found = one_element(call, "found_inf")?;
    let factor = f.reshape(one_element(call, "inv_scale")?, &[])?;
    let mut outputs = Vec::new();
    let mut all_finite: Option<Value> = None;
    for gradient in gradients {
        let finite = f.is_finite(gradient)?;
        let axes: Vec<usize> = (0..finite.rank()).collect();
        let finite = if axes.is_empty() {
            finite
        } else {
            f.reduce(&finite, Monoid::And, &axes)?
        };
        all_finite = Some(match all_finite {
            Some(before) => f.and(&before, &finite)?,
            None => finite,
        });
        let wide = f.convert(gradient, gradient.dtype().opmath())?;
        let factor = f.convert(&factor, wide.dtype())?;
        let factor = f.broadcast_to(&factor, wide.dims())?;
        let unscaled = f.mul(&wide, &factor)?;
        outputs.push(Some(f.convert(&unscaled, gradient.dtype())?));
    }
    outputs.push(match all_finite {
        Some(finite) => {
            let one = f.full_like(found, 1i64);
            Some(f.select(&finite, found, &one)?)
        }
        None => None,
    });
    Ok(Outputs(outputs))
}

/// After a step with infinities the scale shrinks and the count of good steps starts anew; after `growth_interval` good steps it grows, as
/// long as it stays finite.
fn update_scale(f: &mut Func, call: &Call) -> Result<Outputs> {
    let scale = one_element(call, "self")?;
    let tracker = one_element(call, "growth_tracker")?;
    let found = f.reshape(one_element(call, "found_inf")?, &[])?;
    let bad = f.compare_const(Comparison::Ne, &found, 0i64)?;
    let shrunk = f.binary_const(Binary::Multiply, scale, call.float("scale_backoff_factor")?)?;
    let grown = f.binary_const(Binary::Multiply, scale, call.float("scale_growth_factor")?)?;
    let good_steps = f.binary_const(Binary::Add, tracker, 1i64)?;
    let due = f.compare_const(Comparison::Eq, &good_steps, call.int("growth_interval")?)?;
    let finite = f.is_finite(&grown)?;
    let due_here = f.reshape(&due, scale.dims())?;
    let grows = f.and(&due_here, &finite)?;
    let after_good = f.select(&grows, &grown, scale)?;
    let zero = f.full_like(tracker, 0i64);
    let counted = f.select(&due, &zero, &good_steps)?;
    let next_scale = f.select(&bad, &shrunk, &after_good)?;
    let next_tracker = f.select(&bad, &zero, &counted)?;
    Ok(Outputs::all([next_scale, next_tracker]))
}
