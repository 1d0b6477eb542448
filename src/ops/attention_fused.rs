//! Scaled dot-product attention as one program, forward and backward.
//!
//! PyTorch's own path is about ten operators each way. These entries stand under names of our own; `cpp_shim/attention.cc` calls them from
//! `_scaled_dot_product_fused_attention_overrideable`, the entry PyTorch has for other devices' attention.

use super::call::{Call, Outputs};
use super::table::OpDef;
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::stablehlo::{Binary, Comparison, DotDims, Func, Monoid, Unary, Value};

pub(super) const OPS: &[OpDef] = &[
    // Results in the order of the queries' axes in memory: what follows attention is a transposition back.
    OpDef::elementwise("_torch_tpu_attention", attention).precision(),
    OpDef::elementwise("_torch_tpu_attention_backward", attention_backward).precision(),
];

/// Up to this many weights are kept for the backward; beyond, only the log-sum-exp of each row, from which they are computed anew: long
/// sequences would fill the memory otherwise.
const KEPT_WEIGHTS: i64 = 1 << 24;

/// Queries, keys and values with the batch and the key heads as one axis `N = B·H`, and the `G` query heads that share a key head side by
/// side with their positions: plain batched matrices are what XLA multiplies fastest.
struct Parts {
    /// `[N, G·T, D]`
    query: Value,
    /// `[N, S, D]`
    key: Value,
    /// `[N, S, E]`
    value: Value,
    /// `[N, G·T, S]` in the opmath dtype
    bias: Option<Value>,
    causal: bool,
    scale: f64,
    dtype: DType,
    /// The opmath dtype
    wide: DType,
    /// `B`, query heads, `T`
    outer: [i64; 3],
}

impl Parts {
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
        let (shared, source) = (key.dim(1), key.dim(2));
        let fits =
            heads % shared == 0 && key.dims()[..3] == value.dims()[..3] && key.dim(0) == batch && key.dim(3) == size;
        ensure(fits, || {
            Error::runtime(format!(
                "queries {:?}, keys {:?} and values {:?} do not fit",
                query.dims(),
                key.dims(),
                value.dims()
            ))
        })?;
        let (groups, rows) = (batch * shared, heads / shared * length);
        let wide = query.dtype().opmath();
        let bias = match call.tensor_opt("attn_bias") {
            Some(bias) => {
                let bias = f.convert(bias, wide)?;
                let whole = f.broadcast_to(&bias, &[batch, heads, length, source])?;
                Some(f.reshape(&whole, &[groups, rows, source])?)
            }
            None => None,
        };
        Ok(Self {
            query: in_order(f, query, &[groups, rows, size])?,
            key: in_order(f, key, &[groups, source, size])?,
            value: in_order(f, value, &[groups, source, value.dim(3)])?,
            bias,
            causal: call.flag("is_causal")?,
            scale: call.float("scale")?,
            dtype: query.dtype(),
            wide,
            outer: [batch, heads, length],
        })
    }

    /// `[N, G·T, S]`: scaled, biased, with -inf above the diagonal where causal.
    fn scores(&self, f: &mut Func) -> Result<Value> {
        // Scaled before the product, on fewer elements.
        let query = f.convert(&self.query, self.wide)?;
        let query = f.binary_const(Binary::Multiply, &query, self.scale)?;
        let query = f.convert(&query, self.dtype)?;
        let mut scores = f.dot_general(&query, &self.key, &batched(2, 2), self.wide)?;
        if let Some(bias) = &self.bias {
            scores = f.add(&scores, bias)?;
        }
        if !self.causal {
            return Ok(scores);
        }
        let dims = scores.dims().to_vec();
        let matrix = [dims[1], dims[2]];
        let rows = f.iota(DType::I32, &matrix, 0)?;
        let rows = f.binary_const(Binary::Remainder, &rows, self.outer[2])?;
        let columns = f.iota(DType::I32, &matrix, 1)?;
        let visible = f.compare(Comparison::Le, &columns, &rows)?;
        let visible = f.broadcast_to(&visible, &dims)?;
        let hidden = f.constant(self.wide, &dims, f64::NEG_INFINITY);
        f.select(&visible, &scores, &hidden)
    }

    fn keeps_weights(&self) -> bool {
        self.query.dim(0) * self.query.dim(1) * self.key.dim(1) <= KEPT_WEIGHTS
    }

    /// `[N, G·T, …]` as `[B, Hq, T, …]`.
    fn with_heads(&self, f: &mut Func, x: &Value) -> Result<Value> {
        let mut dims = self.outer.to_vec();
        dims.extend_from_slice(&x.dims()[2..]);
        f.reshape(x, &dims)
    }

    /// The opposite.
    fn without_heads(&self, f: &mut Func, x: &Value, last: i64) -> Result<Value> {
        in_order(f, x, &[self.query.dim(0), self.query.dim(1), last])
    }
}

/// Reshaped, and a transposition before it carried out: folded into a product it takes XLA:CPU off its fast path.
fn in_order(f: &mut Func, x: &Value, dims: &[i64]) -> Result<Value> {
    let x = f.reshape(x, dims)?;
    f.barrier(&x)
}

/// Batch axis 0, contracting the given axes of left and right.
fn batched(left: usize, right: usize) -> DotDims {
    DotDims {
        left_batch: vec![0],
        right_batch: vec![0],
        left_contract: vec![left],
        right_contract: vec![right],
    }
}

/// `left [N, R, S]`, `right [N, R, E]` → `leftᵀ · right [N, S, E]`. XLA:CPU has no fast product over the rows of both (measured 14.5 ms against
/// 8 for 16 × 512 × 512 by 64): the narrow one is turned before, and the result after.
fn contract_rows(f: &mut Func, left: &Value, right: &Value, out: DType) -> Result<Value> {
    let turned = f.transpose(right, &[0, 2, 1])?;
    let turned = f.barrier(&turned)?;
    let product = f.dot_general(&turned, left, &batched(2, 1), out)?;
    let product = f.barrier(&product)?;
    f.transpose(&product, &[0, 2, 1])
}

/// `query [B, Hq, T, D]`, `key [B, H, S, D]`, `value [B, H, S, E]` → `[B, Hq, T, E]`, and for the backward the weights `[N, G·T, S]` or
/// the log-sum-exp of the scores `[B, Hq, T]`. A row that sees nothing gives 0, as `_safe_softmax` has it.
fn attention(f: &mut Func, call: &Call) -> Result<Outputs> {
    let parts = Parts::of(f, call)?;
    let scores = parts.scores(f)?;
    let largest = f.reduce_keep(&scores, Monoid::Maximum, &[2])?;
    let nothing = f.compare_const(Comparison::Eq, &largest, f64::NEG_INFINITY)?;
    let zero = f.full_like(&largest, 0i64);
    let shift = f.select(&nothing, &zero, &largest)?;
    let shift = f.barrier(&shift)?;
    let spread = f.broadcast_to(&shift, scores.dims())?;
    let shifted = f.sub(&scores, &spread)?;
    let exponentials = f.unary(Unary::Exp, &shifted)?;
    let total = f.reduce_keep(&exponentials, Monoid::Add, &[2])?;
    let one = f.full_like(&total, 1i64);
    let divisor = f.select(&nothing, &one, &total)?;
    let (context, kept) = if parts.keeps_weights() {
        let divisor = f.broadcast_to(&divisor, scores.dims())?;
        let weights = f.div(&exponentials, &divisor)?;
        let weights = f.convert(&weights, parts.dtype)?;
        // Two readers: without this XLA:CPU computes them twice.
        let weights = f.barrier(&weights)?;
        let context = f.dot_general(&weights, &parts.value, &batched(2, 1), parts.wide)?;
        (context, weights)
    } else {
        // The division comes after the product, on fewer elements.
        let weights = f.convert(&exponentials, parts.dtype)?;
        let context = f.dot_general(&weights, &parts.value, &batched(2, 1), parts.wide)?;
        let divisor = f.broadcast_to(&divisor, context.dims())?;
        let logarithm = f.unary(Unary::Log, &total)?;
        let logsumexp = f.add(&logarithm, &shift)?;
        (f.div(&context, &divisor)?, f.reshape(&logsumexp, &parts.outer)?)
    };
    let context = f.convert(&context, parts.dtype)?;
    Ok(Outputs::all([parts.with_heads(f, &context)?, kept]))
}

/// `[N, G·T, S]` in the opmath dtype: kept, or `exp(scores - logsumexp)`.
fn weights(f: &mut Func, parts: &Parts, kept: &Value) -> Result<Value> {
    if parts.keeps_weights() {
        return f.convert(kept, parts.wide);
    }
    let scores = parts.scores(f)?;
    let logsumexp = parts.without_heads(f, kept, 1)?;
    let seen = f.compare_const(Comparison::Ne, &logsumexp, f64::NEG_INFINITY)?;
    let spread = f.broadcast_to(&logsumexp, scores.dims())?;
    let shifted = f.sub(&scores, &spread)?;
    let weights = f.unary(Unary::Exp, &shifted)?;
    let seen = f.broadcast_to(&seen, scores.dims())?;
    let zero = f.full_like(&weights, 0i64);
    f.select(&seen, &weights, &zero)
}

/// → the gradients of query, key, value, and of the bias with `bias_grad`. With `P` the weights and `dP = grad · valueᵀ`:
/// `dS = P · (dP - Σ grad · out)`, `dquery = scale · dS · key`, `dkey = scale · dSᵀ · query`, `dvalue = Pᵀ · grad`.
fn attention_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    let parts = Parts::of(f, call)?;
    let dtype = parts.dtype;
    let (query, key, value) = (call.tensor("query")?, call.tensor("key")?, call.tensor("value")?);
    let features = value.dim(3);
    let gradient = parts.without_heads(f, call.tensor("grad_out")?, features)?;
    let output = parts.without_heads(f, call.tensor("out")?, features)?;
    let weights = weights(f, &parts, call.tensor("logsumexp")?)?;
    let narrow = f.convert(&weights, dtype)?;
    let grad_value = contract_rows(f, &narrow, &gradient, parts.wide)?;
    let grad_weights = f.dot_general(&gradient, &parts.value, &batched(2, 2), parts.wide)?;
    let wide_gradient = f.convert(&gradient, parts.wide)?;
    let wide_output = f.convert(&output, parts.wide)?;
    let terms = f.mul(&wide_gradient, &wide_output)?;
    let mean = f.reduce_keep(&terms, Monoid::Add, &[2])?;
    let mean = f.broadcast_to(&mean, grad_weights.dims())?;
    let centred = f.sub(&grad_weights, &mean)?;
    let grad_scores = f.mul(&weights, &centred)?;

    let grad_scores = f.barrier(&grad_scores)?;
    let narrow = f.convert(&grad_scores, dtype)?;
    let grad_query = f.dot_general(&narrow, &parts.key, &batched(2, 1), parts.wide)?;
    let grad_query = f.binary_const(Binary::Multiply, &grad_query, parts.scale)?;
    let grad_key = contract_rows(f, &narrow, &parts.query, parts.wide)?;
    let grad_key = f.binary_const(Binary::Multiply, &grad_key, parts.scale)?;
    let grad_bias = match call.tensor_opt("attn_bias") {
        Some(bias) if call.flag("bias_grad")? => {
            let whole = parts.with_heads(f, &grad_scores)?;
            let summed = sum_to(f, &whole, bias.dims())?;
            Some(f.convert(&summed, bias.dtype())?)
        }
        _ => None,
    };
    let mut outputs = Vec::new();
    for (gradient, like) in [(grad_query, query), (grad_key, key), (grad_value, value)] {
        let gradient = f.convert(&gradient, dtype)?;
        outputs.push(Some(f.reshape(&gradient, like.dims())?));
    }
    outputs.push(grad_bias);
    Ok(Outputs(outputs))
}

/// The opposite of broadcasting `dims` to `x`'s.
fn sum_to(f: &mut Func, x: &Value, dims: &[i64]) -> Result<Value> {
    let extra = x.rank() - dims.len();
    let stretched = |axis: usize| axis < extra || (dims[axis - extra] == 1 && x.dim(axis) != 1);
    let axes: Vec<usize> = (0..x.rank()).filter(|&axis| stretched(axis)).collect();
    let summed = f.reduce(x, Monoid::Add, &axes)?;
    f.reshape(&summed, dims)
}
