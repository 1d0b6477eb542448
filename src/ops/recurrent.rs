//! The fused LSTM and GRU cells, which `nn.LSTM` and `nn.GRU` call once per time step on this kind of device.
//!
//! Formulas, order of the gates and layout of the workspaces are those of ATen's `RNN.cu`.

use super::call::{Call, Outputs};
use super::table::OpDef;
use crate::error::{Error, Result, ensure};
use crate::stablehlo::{Func, Monoid, Unary, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("_thnn_fused_lstm_cell", lstm_cell),
    OpDef::new("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward),
    OpDef::new("_thnn_fused_gru_cell", gru_cell),
    OpDef::new("_thnn_fused_gru_cell_backward", gru_cell_backward),
];

/// An argument in its opmath dtype.
fn wide(f: &mut Func, x: &Value) -> Result<Value> {
    f.convert(x, x.dtype().opmath())
}

/// `[B, n·H]` → `n` parts `[B, H]`.
fn parts<const N: usize>(f: &mut Func, x: &Value) -> Result<[Value; N]> {
    ensure(x.rank() == 2 && x.dim(1) % N as i64 == 0, || {
        Error::runtime(format!(
            "expected the gates as [batch, {N} * hidden], got {:?}",
            x.dims()
        ))
    })?;
    let size = x.dim(1) / N as i64;
    let parts = (0..N as i64).map(|part| f.slice_axis(x, 1, part * size, (part + 1) * size));
    let parts: Vec<Value> = parts.collect::<Result<_>>()?;
    parts.try_into().map_err(|_| Error::runtime("wrong number of gates"))
}

/// `gates [B, n·H]` plus the bias `[n·H]` where there is one.
fn with_bias(f: &mut Func, call: &Call, gates: &Value, bias: &str) -> Result<Value> {
    let Some(bias) = call.tensor_opt(bias) else {
        return Ok(gates.clone());
    };
    let bias = f.convert(bias, gates.dtype())?;
    let bias = f.broadcast_to(&bias, gates.dims())?;
    f.add(gates, &bias)
}

/// `1 - x`
fn complement(f: &mut Func, x: &Value) -> Result<Value> {
    let one = f.full_like(x, 1i64);
    f.sub(&one, x)
}

/// `g · s · (1 - s)`: through a sigmoid whose result is `s`.
fn through_sigmoid(f: &mut Func, gradient: &Value, result: &Value) -> Result<Value> {
    let rest = complement(f, result)?;
    let slope = f.mul(&rest, result)?;
    f.mul(gradient, &slope)
}

/// `g · (1 - t²)`: through a tanh whose result is `t`.
fn through_tanh(f: &mut Func, gradient: &Value, result: &Value) -> Result<Value> {
    let square = f.mul(result, result)?;
    let slope = complement(f, &square)?;
    f.mul(gradient, &slope)
}

/// `input_gates`, `hidden_gates [B, 4H]` in the order input, forget, cell, output; `cx [B, H]` → `hy`, `cy [B, H]` and the workspace
/// `[B, 4H]`: the gates after their activation.
fn lstm_cell(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (input, hidden, cx) = (
        call.tensor("input_gates")?,
        call.tensor("hidden_gates")?,
        call.tensor("cx")?,
    );
    ensure(input.dims() == hidden.dims(), || {
        Error::runtime(format!(
            "input gates {:?} and hidden gates {:?} must have the same size",
            input.dims(),
            hidden.dims()
        ))
    })?;
    let (input_wide, hidden_wide, cell) = (wide(f, input)?, wide(f, hidden)?, wide(f, cx)?);
    let gates = f.add(&input_wide, &hidden_wide)?;
    let gates = with_bias(f, call, &gates, "input_bias")?;
    let gates = with_bias(f, call, &gates, "hidden_bias")?;
    let [input_gate, forget, candidate, output] = parts::<4>(f, &gates)?;
    let input_gate = f.unary(Unary::Logistic, &input_gate)?;
    let forget = f.unary(Unary::Logistic, &forget)?;
    let candidate = f.unary(Unary::Tanh, &candidate)?;
    let output = f.unary(Unary::Logistic, &output)?;
    let kept = f.mul(&forget, &cell)?;
    let fresh = f.mul(&input_gate, &candidate)?;
    let cy = f.add(&kept, &fresh)?;
    let squashed = f.unary(Unary::Tanh, &cy)?;
    let hy = f.mul(&output, &squashed)?;
    let workspace = f.concatenate(&[input_gate, forget, candidate, output], 1)?;
    Ok(Outputs::all([
        f.convert(&hy, cx.dtype())?,
        f.convert(&cy, cx.dtype())?,
        f.convert(&workspace, input.dtype())?,
    ]))
}

/// → gradients of the gates `[B, 4H]`, of `cx [B, H]`, and of the bias `[4H]`; nothing when neither output has a gradient.
fn lstm_cell_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (grad_hy, grad_cy) = (call.tensor_opt("grad_hy"), call.tensor_opt("grad_cy"));
    if grad_hy.is_none() && grad_cy.is_none() {
        return Ok(Outputs(vec![None, None, None]));
    }
    let (cx, cy, workspace) = (call.tensor("cx")?, call.tensor("cy")?, call.tensor("workspace")?);
    let dtype = workspace.dtype();
    let gates = wide(f, workspace)?;
    let [input_gate, forget, candidate, output] = parts::<4>(f, &gates)?;
    let (cell, next_cell) = (wide(f, cx)?, wide(f, cy)?);
    let squashed = f.unary(Unary::Tanh, &next_cell)?;
    let zero = f.full_like(&squashed, 0i64);
    let grad_hidden = match grad_hy {
        Some(gradient) => wide(f, gradient)?,
        None => zero.clone(),
    };
    let grad_output = f.mul(&grad_hidden, &squashed)?;
    let through_output = f.mul(&grad_hidden, &output)?;
    let mut grad_cell = through_tanh(f, &through_output, &squashed)?;
    if let Some(gradient) = grad_cy {
        let gradient = wide(f, gradient)?;
        grad_cell = f.add(&grad_cell, &gradient)?;
    }
    let grad_input = f.mul(&grad_cell, &candidate)?;
    let grad_forget = f.mul(&grad_cell, &cell)?;
    let grad_candidate = f.mul(&grad_cell, &input_gate)?;
    let grad_cx = f.mul(&grad_cell, &forget)?;
    let grads = [
        through_sigmoid(f, &grad_input, &input_gate)?,
        through_sigmoid(f, &grad_forget, &forget)?,
        through_tanh(f, &grad_candidate, &candidate)?,
        through_sigmoid(f, &grad_output, &output)?,
    ];
    let grad_gates = f.concatenate(&grads, 1)?;
    let grad_bias = bias_gradient(f, call, &grad_gates, workspace)?;
    let grad_gates = f.convert(&grad_gates, dtype)?;
    let grad_cx = f.convert(&grad_cx, cx.dtype())?;
    Ok(Outputs(vec![Some(grad_gates), Some(grad_cx), grad_bias]))
}

/// Over the batch: `[B, n·H]` → `[n·H]` in the dtype of `like`; nothing without biases.
fn bias_gradient(f: &mut Func, call: &Call, grad_gates: &Value, like: &Value) -> Result<Option<Value>> {
    if !call.flag("has_bias")? {
        return Ok(None);
    }
    let total = f.reduce(grad_gates, Monoid::Add, &[0])?;
    Ok(Some(f.convert(&total, like.dtype())?))
}

/// `input_gates`, `hidden_gates [B, 3H]` in the order reset, update, new; `hx [B, H]` → `hy [B, H]` and the workspace `[B, 5H]`: reset and
/// update gate, candidate, `hx`, and the hidden part of the candidate.
fn gru_cell(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (input, hidden, hx) = (
        call.tensor("input_gates")?,
        call.tensor("hidden_gates")?,
        call.tensor("hx")?,
    );
    ensure(input.dims() == hidden.dims(), || {
        Error::runtime(format!(
            "input gates {:?} and hidden gates {:?} must have the same size",
            input.dims(),
            hidden.dims()
        ))
    })?;
    let (input_wide, hidden_wide, state) = (wide(f, input)?, wide(f, hidden)?, wide(f, hx)?);
    let input_wide = with_bias(f, call, &input_wide, "input_bias")?;
    let hidden_wide = with_bias(f, call, &hidden_wide, "hidden_bias")?;
    let [input_reset, input_update, input_new] = parts::<3>(f, &input_wide)?;
    let [hidden_reset, hidden_update, hidden_new] = parts::<3>(f, &hidden_wide)?;
    let reset = f.add(&input_reset, &hidden_reset)?;
    let reset = f.unary(Unary::Logistic, &reset)?;
    let update = f.add(&input_update, &hidden_update)?;
    let update = f.unary(Unary::Logistic, &update)?;
    let gated = f.mul(&reset, &hidden_new)?;
    let candidate = f.add(&input_new, &gated)?;
    let candidate = f.unary(Unary::Tanh, &candidate)?;
    let distance = f.sub(&state, &candidate)?;
    let moved = f.mul(&update, &distance)?;
    let hy = f.add(&candidate, &moved)?;
    let workspace = f.concatenate(&[reset, update, candidate, state, hidden_new], 1)?;
    Ok(Outputs::all([
        f.convert(&hy, hx.dtype())?,
        f.convert(&workspace, hx.dtype())?,
    ]))
}

/// → gradients of both gates `[B, 3H]`, of `hx [B, H]`, and of both biases `[3H]`.
fn gru_cell_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (grad_hy, workspace) = (call.tensor("grad_hy")?, call.tensor("workspace")?);
    let dtype = workspace.dtype();
    let gradient = wide(f, grad_hy)?;
    let saved = wide(f, workspace)?;
    let [reset, update, candidate, state, hidden_new] = parts::<5>(f, &saved)?;
    let distance = f.sub(&state, &candidate)?;
    let grad_update = f.mul(&gradient, &distance)?;
    let grad_update = through_sigmoid(f, &grad_update, &update)?;
    let grad_hx = f.mul(&gradient, &update)?;
    let rest = complement(f, &update)?;
    let grad_candidate = f.mul(&gradient, &rest)?;
    let grad_new = through_tanh(f, &grad_candidate, &candidate)?;
    let grad_hidden_new = f.mul(&grad_new, &reset)?;
    let grad_reset = f.mul(&grad_new, &hidden_new)?;
    let grad_reset = through_sigmoid(f, &grad_reset, &reset)?;
    let grad_input = f.concatenate(&[grad_reset.clone(), grad_update.clone(), grad_new], 1)?;
    let grad_hidden = f.concatenate(&[grad_reset, grad_update, grad_hidden_new], 1)?;
    let input_bias = bias_gradient(f, call, &grad_input, workspace)?;
    let hidden_bias = bias_gradient(f, call, &grad_hidden, workspace)?;
    let grad_input = f.convert(&grad_input, dtype)?;
    let grad_hidden = f.convert(&grad_hidden, dtype)?;
    let grad_hx = f.convert(&grad_hx, dtype)?;
    Ok(Outputs(vec![
        Some(grad_input),
        Some(grad_hidden),
        Some(grad_hx),
        input_bias,
        hidden_bias,
    ]))
}
