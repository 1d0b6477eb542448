//! Scaled dot-product attention as one program, forward and backward.
//!
//! PyTorch's own path is about ten operators each way. These entries stand under names of our own; `cpp_shim/attention.cc` calls them from
//! `_scaled_dot_product_fused_attention_overrideable`, the entry PyTorch has for other devices' attention. Only the log-sum-exp of the
//! scores is kept for the backward, which computes the weights anew.

use super::call::{Call, Outputs};
use super::table::OpDef;
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::stablehlo::{Binary, Comparison, DotDims, Func, Monoid, Unary, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("_torch_tpu_attention", attention).precision(),
    OpDef::new("_torch_tpu_attention_backward", attention_backward).precision(),
];

/// What the scores are made of: `query [B, H, G, T, D]` and `key [B, H, S, D]` where `G` query heads share one key head.
struct Scores {
    query: Value,
    key: Value,
    value: Value,
    /// `[B, H, G, T, S]`, or broadcast to it, in the opmath dtype
    bias: Option<Value>,
    causal: bool,
    scale: f64,
    wide: DType,
}

impl Scores {
    fn of(f: &mut Func, call: &Call) -> Result<Self> {
        let (query, key, value) = (call.tensor("query")?, call.tensor("key")?, call.tensor("value")?);
        for x in [query, key, value] {
            ensure(x.rank() == 4 && x.numel() > 0, || {
                Error::runtime(format!(
                    "expected queries, keys and values with four axes and elements, got {:?}",
                    x.dims()
                ))
            })?;
        }
        let (batch, heads, length, size) = (query.dim(0), query.dim(1), query.dim(2), query.dim(3));
        let shared = key.dim(1);
        ensure(
            heads % shared == 0 && key.dims()[..3] == value.dims()[..3] && key.dim(0) == batch && key.dim(3) == size,
            || {
                Error::runtime(format!(
                    "queries {:?}, keys {:?} and values {:?} do not fit",
                    query.dims(),
                    key.dims(),
                    value.dims()
                ))
            },
        )?;
        let dims = [batch, shared, heads / shared, length, key.dim(2)];
        let wide = query.dtype().opmath();
        let bias = match call.tensor_opt("attn_bias") {
            Some(bias) => {
                let bias = f.convert(bias, wide)?;
                let whole = f.broadcast_to(&bias, &[batch, heads, length, key.dim(2)])?;
                Some(f.reshape(&whole, &dims)?)
            }
            None => None,
        };
        Ok(Self {
            query: f.reshape(query, &[batch, shared, heads / shared, length, size])?,
            key: key.value.clone(),
            value: value.value.clone(),
            bias,
            causal: call.flag("is_causal")?,
            scale: call.float("scale")?,
            wide,
        })
    }

    /// `[B, H, G, T, S]`: scaled, biased, with -inf above the diagonal where causal.
    fn build(&self, f: &mut Func) -> Result<Value> {
        let products = f.dot_general(&self.query, &self.key, &shared_heads(4, 3), self.wide)?;
        let mut scores = f.binary_const(Binary::Multiply, &products, self.scale)?;
        if let Some(bias) = &self.bias {
            scores = f.add(&scores, bias)?;
        }
        if !self.causal {
            return Ok(scores);
        }
        let dims = scores.dims().to_vec();
        let rows = f.iota(DType::I32, &dims, 3)?;
        let columns = f.iota(DType::I32, &dims, 4)?;
        let visible = f.compare(Comparison::Le, &columns, &rows)?;
        let hidden = f.constant(self.wide, &dims, f64::NEG_INFINITY);
        f.select(&visible, &scores, &hidden)
    }
}

/// Batch axes B and H, contracting the given axes of left and right.
fn shared_heads(left: usize, right: usize) -> DotDims {
    DotDims {
        left_batch: vec![0, 1],
        right_batch: vec![0, 1],
        left_contract: vec![left],
        right_contract: vec![right],
    }
}

/// As above, contracting the queries (G and T) of `[B, H, G, T, …]` with those of another.
fn over_queries() -> DotDims {
    DotDims {
        left_batch: vec![0, 1],
        right_batch: vec![0, 1],
        left_contract: vec![2, 3],
        right_contract: vec![2, 3],
    }
}

/// `[B, H, G, T, N]` → `[B, H·G, T, N]`
fn merge_heads(f: &mut Func, x: &Value) -> Result<Value> {
    f.reshape(x, &[x.dim(0), x.dim(1) * x.dim(2), x.dim(3), x.dim(4)])
}

/// `query [B, Hq, T, D]`, `key [B, H, S, D]`, `value [B, H, S, N]` → `[B, Hq, T, N]`, and the log-sum-exp of the scores `[B, Hq, T]` in the
/// opmath dtype. A row that sees nothing gives 0, as `_safe_softmax` has it.
fn attention(f: &mut Func, call: &Call) -> Result<Outputs> {
    let parts = Scores::of(f, call)?;
    let dtype = parts.query.dtype();
    let scores = parts.build(f)?;
    let largest = f.reduce_keep(&scores, Monoid::Maximum, &[4])?;
    let nothing = f.compare_const(Comparison::Eq, &largest, f64::NEG_INFINITY)?;
    let zero = f.full_like(&largest, 0i64);
    let shift = f.select(&nothing, &zero, &largest)?;
    let spread = f.broadcast_to(&shift, scores.dims())?;
    let shifted = f.sub(&scores, &spread)?;
    let weights = f.unary(Unary::Exp, &shifted)?;
    let total = f.reduce_keep(&weights, Monoid::Add, &[4])?;
    let one = f.full_like(&total, 1i64);
    let divisor = f.select(&nothing, &one, &total)?;
    // The weights go into the product in the input's dtype, as on every device that has one for it; the division comes after, on fewer elements.
    let weights = f.convert(&weights, dtype)?;
    let context = f.dot_general(&weights, &parts.value, &shared_heads(4, 2), parts.wide)?;
    let divisor = f.broadcast_to(&divisor, context.dims())?;
    let context = f.div(&context, &divisor)?;
    let context = f.convert(&context, dtype)?;
    let logarithm = f.unary(Unary::Log, &total)?;
    let logsumexp = f.add(&logarithm, &shift)?;
    let logsumexp = merge_heads(f, &logsumexp)?;
    Ok(Outputs::all([merge_heads(f, &context)?, f.squeeze(&logsumexp, &[3])?]))
}

/// → the gradients of query, key, value, and of the bias with `bias_grad`. With `P` the weights and `dP = grad · valueᵀ`:
/// `dS = P · (dP - Σ grad · out)`, `dquery = scale · dS · key`, `dkey = scale · dSᵀ · query`, `dvalue = Pᵀ · grad`.
fn attention_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    let parts = Scores::of(f, call)?;
    let dtype = parts.query.dtype();
    let (gradient, output, logsumexp) = (call.tensor("grad_out")?, call.tensor("out")?, call.tensor("logsumexp")?);
    let scores = parts.build(f)?;
    let mut rows = scores.dims().to_vec();
    rows[4] = 1;
    let logsumexp = f.reshape(logsumexp, &rows)?;
    let seen = f.compare_const(Comparison::Ne, &logsumexp, f64::NEG_INFINITY)?;
    let spread = f.broadcast_to(&logsumexp, scores.dims())?;
    let shifted = f.sub(&scores, &spread)?;
    let weights = f.unary(Unary::Exp, &shifted)?;
    let seen = f.broadcast_to(&seen, scores.dims())?;
    let zero = f.full_like(&weights, 0i64);
    let weights = f.select(&seen, &weights, &zero)?;

    let mut heads = scores.dims().to_vec();
    heads[4] = parts.value.dim(3);
    let gradient = f.reshape(gradient, &heads)?;
    let output = f.reshape(output, &heads)?;
    let narrow = f.convert(&weights, dtype)?;
    let grad_value = f.dot_general(&narrow, &gradient, &over_queries(), parts.wide)?;
    let grad_weights = f.dot_general(&gradient, &parts.value, &shared_heads(4, 3), parts.wide)?;
    let wide_gradient = f.convert(&gradient, parts.wide)?;
    let wide_output = f.convert(&output, parts.wide)?;
    let terms = f.mul(&wide_gradient, &wide_output)?;
    let mean = f.reduce_keep(&terms, Monoid::Add, &[4])?;
    let mean = f.broadcast_to(&mean, grad_weights.dims())?;
    let centred = f.sub(&grad_weights, &mean)?;
    let grad_scores = f.mul(&weights, &centred)?;

    let scaled = f.binary_const(Binary::Multiply, &grad_scores, parts.scale)?;
    let scaled = f.convert(&scaled, dtype)?;
    let grad_query = f.dot_general(&scaled, &parts.key, &shared_heads(4, 2), parts.wide)?;
    let grad_query = merge_heads(f, &grad_query)?;
    let grad_key = f.dot_general(&scaled, &parts.query, &over_queries(), parts.wide)?;
    let grad_bias = match call.tensor_opt("attn_bias") {
        Some(bias) if call.flag("bias_grad")? => {
            let whole = merge_heads(f, &grad_scores)?;
            let summed = sum_to(f, &whole, bias.dims())?;
            Some(f.convert(&summed, bias.dtype())?)
        }
        _ => None,
    };
    let grad_query = f.convert(&grad_query, dtype)?;
    let grad_key = f.convert(&grad_key, dtype)?;
    let grad_value = f.convert(&grad_value, dtype)?;
    Ok(Outputs(vec![
        Some(grad_query),
        Some(grad_key),
        Some(grad_value),
        grad_bias,
    ]))
}

/// The opposite of broadcasting `dims` to `x`'s.
fn sum_to(f: &mut Func, x: &Value, dims: &[i64]) -> Result<Value> {
    let extra = x.rank() - dims.len();
    let axes: Vec<usize> = (0..x.rank())
        .filter(|&axis| axis < extra || (dims[axis - extra] == 1 && x.dim(axis) != 1))
        .collect();
    let summed = if axes.is_empty() {
        x.clone()
    } else {
        f.reduce(x, Monoid::Add, &axes)?
    };
    f.reshape(&summed, dims)
}
