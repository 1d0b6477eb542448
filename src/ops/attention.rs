//! Softmax with masks, and the fused self-attention that `nn.MultiheadAttention` and `nn.TransformerEncoderLayer` call in inference.

use super::call::{Call, Operand, Outputs};
use super::table::OpDef;
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::stablehlo::{Binary, DotDims, Func, Monoid, Unary, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("_masked_softmax", masked_softmax),
    OpDef::new("_masked_softmax_backward", masked_softmax_backward),
    OpDef::new("_transform_bias_rescale_qkv", transform_bias_rescale_qkv),
    OpDef::new("_native_multi_head_attention", native_multi_head_attention).precision(),
    OpDef::new("_transformer_encoder_layer_fwd", transformer_encoder_layer).precision(),
];

/// The value in its opmath dtype.
fn wide(f: &mut Func, x: &Value) -> Result<Value> {
    f.convert(x, x.dtype().opmath())
}

/// Softmax along `axis`, `x` in its opmath dtype; with `masked` (bool, of `x`'s dims) those elements count as absent. A row without any
/// element is NaN.
fn softmax(f: &mut Func, x: &Value, axis: usize, masked: Option<&Value>) -> Result<Value> {
    let lowest = f.constant(x.dtype(), x.dims(), f64::NEG_INFINITY);
    let x = match masked {
        Some(masked) => f.select(masked, &lowest, x)?,
        None => x.clone(),
    };
    let largest = f.reduce_keep(&x, Monoid::Maximum, &[axis])?;
    let largest = f.broadcast_to(&largest, x.dims())?;
    let shifted = f.sub(&x, &largest)?;
    let exponentials = f.unary(Unary::Exp, &shifted)?;
    let total = f.reduce_keep(&exponentials, Monoid::Add, &[axis])?;
    let total = f.broadcast_to(&total, x.dims())?;
    f.div(&exponentials, &total)
}

/// How a mask lies on attention scores `[B, H, T, S]` (`nn.MultiheadAttention.merge_masks`).
const SOURCE_MASK: i64 = 0;
const PADDING_MASK: i64 = 1;
const WHOLE_MASK: i64 = 2;

/// A bool mask in `dims`: `[T, S]`, `[B, S]` or whole, by `kind`. True means absent.
fn spread_mask(f: &mut Func, mask: &Operand, kind: Option<i64>, dims: &[i64]) -> Result<Value> {
    let kind = kind.ok_or_else(|| Error::runtime("Mask Type should be defined"))?;
    ensure(mask.dtype().is_bool(), || {
        Error::runtime("Mask should be a boolean tensor")
    })?;
    match (kind, dims) {
        (SOURCE_MASK, &[.., rows, columns]) if dims.len() == 4 => {
            ensure(mask.dims() == [rows, columns], || {
                Error::runtime(format!(
                    "For mask_type == 0 mask shape should be ({rows}, {columns}), got {:?}",
                    mask.dims()
                ))
            })?;
            f.broadcast_to(mask, dims)
        }
        (PADDING_MASK, &[batch, _, _, columns]) => {
            ensure(mask.dims() == [batch, columns], || {
                Error::runtime(format!(
                    "For mask_type == 1 mask shape should be ({batch}, {columns}), got {:?}",
                    mask.dims()
                ))
            })?;
            f.broadcast_in_dim(mask, dims, &[0, 3])
        }
        (WHOLE_MASK, _) => {
            ensure(mask.dims() == dims, || {
                Error::runtime("For mask_type == 2 mask shape should match input shape")
            })?;
            Ok(mask.value.clone())
        }
        _ => Err(Error::runtime(
            "Mask Type should be 0 (src_mask), 1 (src_key_padding_mask), or 2 (default_mask)",
        )),
    }
}

/// Softmax over what the mask leaves; a row that it leaves nothing of is NaN.
fn masked_softmax(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let mask = spread_mask(f, call.tensor("mask")?, call.int_opt("mask_type")?, x.dims())?;
    let axis = if call.has("dim") {
        call.axis("dim", x.rank())?
    } else {
        x.rank().saturating_sub(1)
    };
    let own = wide(f, x)?;
    let result = if x.numel() == 0 {
        own
    } else {
        softmax(f, &own, axis, Some(&mask))?
    };
    Ok(f.convert(&result, x.dtype())?.into())
}

/// `output · (grad - Σ grad · output)` over what the mask leaves, 0 elsewhere.
fn masked_softmax_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (gradient, output) = (call.tensor("grad_output")?, call.tensor("output")?);
    let axis = if call.has("dim") {
        call.axis("dim", output.rank())?
    } else {
        output.rank().saturating_sub(1)
    };
    let mask = f.broadcast_to(call.tensor("mask")?, output.dims())?;
    let (gradient, own) = (wide(f, gradient)?, wide(f, output)?);
    let zero = f.full_like(&own, 0i64);
    let terms = f.mul(&gradient, &own)?;
    let terms = f.select(&mask, &zero, &terms)?;
    let total = f.reduce_keep(&terms, Monoid::Add, &[axis])?;
    let total = f.broadcast_to(&total, own.dims())?;
    let centred = f.sub(&gradient, &total)?;
    let result = f.mul(&centred, &own)?;
    let result = f.select(&mask, &zero, &result)?;
    Ok(f.convert(&result, output.dtype())?.into())
}

/// `x [B, T, E]` → `[B, H, T, E / H]`.
fn split_heads(f: &mut Func, x: &Value, heads: i64) -> Result<Value> {
    let split = f.reshape(x, &[x.dim(0), x.dim(1), heads, x.dim(2) / heads])?;
    f.transpose(&split, &[0, 2, 1, 3])
}

fn add_row(f: &mut Func, x: &Value, row: &Value) -> Result<Value> {
    let row = f.convert(row, x.dtype())?;
    let row = f.broadcast_to(&row, x.dims())?;
    f.add(x, &row)
}

/// `1 / √D` for queries of `D` elements.
fn scale_queries(f: &mut Func, queries: &Value) -> Result<Value> {
    let size = queries.dim(queries.rank() - 1) as f64;
    f.binary_const(Binary::Multiply, queries, 1.0 / size.sqrt())
}

fn ensure_heads(embed: i64, heads: i64) -> Result<()> {
    ensure(heads > 0 && embed % heads == 0, || {
        Error::runtime(format!(
            "expected `embed_dim` divides `num_heads` evenly, got {embed} and {heads}"
        ))
    })
}

/// `qkv [B, T, 3E]`, `qkv_bias [3E]` → queries (times `1 / √D`), keys, values, each `[B, H, T, D]`.
fn transform_bias_rescale_qkv(f: &mut Func, call: &Call) -> Result<Outputs> {
    let qkv = call.tensor("qkv")?;
    let heads = call.int("num_heads")?;
    ensure(qkv.rank() == 3 && qkv.dim(2) % 3 == 0, || {
        Error::runtime("expected qkv as [batch, time, 3 * embed]")
    })?;
    let embed = qkv.dim(2) / 3;
    ensure_heads(embed, heads)?;
    let own = wide(f, qkv)?;
    let biased = add_row(f, &own, call.tensor("qkv_bias")?)?;
    let mut outputs = Vec::new();
    for part in 0..3 {
        let part_value = f.slice_axis(&biased, 2, part * embed, (part + 1) * embed)?;
        let split = split_heads(f, &part_value, heads)?;
        let split = if part == 0 { scale_queries(f, &split)? } else { split };
        outputs.push(f.convert(&split, qkv.dtype())?);
    }
    Ok(Outputs::all(outputs))
}

/// `x [B, T, K] · weight [N, K]ᵀ + bias [N]` → `[B, T, N]` in the opmath dtype; `x` and the weights in one dtype.
fn linear(f: &mut Func, x: &Value, weight: &Value, bias: &Value) -> Result<Value> {
    ensure(x.rank() == 3 && weight.rank() == 2 && x.dim(2) == weight.dim(1), || {
        Error::runtime(format!(
            "expected weights for {} features, got {:?}",
            x.dim(2),
            weight.dims()
        ))
    })?;
    let dims = DotDims {
        left_contract: vec![2],
        right_contract: vec![1],
        ..DotDims::default()
    };
    let product = f.dot_general(x, weight, &dims, x.dtype().opmath())?;
    add_row(f, &product, bias)
}

/// The parts of self-attention that both fused operators share.
struct Attention<'a> {
    inputs: [&'a Value; 3],
    heads: i64,
    qkv_weight: &'a Operand,
    qkv_bias: &'a Operand,
    proj_weight: &'a Operand,
    proj_bias: &'a Operand,
    mask: Option<&'a Operand>,
    mask_kind: Option<i64>,
}

impl Attention<'_> {
    /// → the projected context `[B, T, E]` and the weights `[B, H, T, S]`, both in the opmath dtype.
    fn build(&self, f: &mut Func) -> Result<(Value, Value)> {
        let dtype = self.inputs[0].dtype();
        ensure(self.qkv_weight.rank() == 2, || {
            Error::runtime("expected the projection weights as a matrix")
        })?;
        let embed = self.qkv_weight.dim(0) / 3;
        for input in self.inputs {
            ensure(input.rank() == 3 && input.dim(2) == self.qkv_weight.dim(1), || {
                Error::runtime(format!(
                    "expected 3-D queries, keys and values of {embed} features, got {:?}",
                    input.dims()
                ))
            })?;
            ensure(input.numel() > 0, || {
                Error::runtime("expected inputs that are not empty")
            })?;
        }
        ensure_heads(embed, self.heads)?;
        let mut parts = Vec::new();
        for (part, input) in (0i64..).zip(self.inputs) {
            let weight = f.slice_axis(self.qkv_weight, 0, part * embed, (part + 1) * embed)?;
            let bias = f.slice_axis(self.qkv_bias, 0, part * embed, (part + 1) * embed)?;
            let projected = linear(f, input, &weight, &bias)?;
            parts.push(split_heads(f, &projected, self.heads)?);
        }
        let [queries, keys, values] = parts.as_slice() else {
            return Err(Error::runtime("attention has three inputs"));
        };
        let queries = scale_queries(f, queries)?;
        let wide_dtype = dtype.opmath();
        let scores = f.dot_general(&queries, keys, &heads_contract(3, 3), wide_dtype)?;
        let mask = match self.mask {
            // As on the CPU, -inf in a float mask means absent, and so would any other number.
            Some(mask) => {
                let mask = Operand::tensor(f.convert(mask, DType::Bool)?);
                Some(spread_mask(f, &mask, self.mask_kind, scores.dims())?)
            }
            None => None,
        };
        let weights = softmax(f, &scores, 3, mask.as_ref())?;
        let context = f.dot_general(&weights, values, &heads_contract(3, 2), wide_dtype)?;
        let context = f.transpose(&context, &[0, 2, 1, 3])?;
        let context = f.reshape(&context, &[context.dim(0), context.dim(1), embed])?;
        let context = f.convert(&context, dtype)?;
        Ok((linear(f, &context, self.proj_weight, self.proj_bias)?, weights))
    }
}

/// Batch axes B and H, contracting the given axes.
fn heads_contract(left: usize, right: usize) -> DotDims {
    DotDims {
        left_batch: vec![0, 1],
        right_batch: vec![0, 1],
        left_contract: vec![left],
        right_contract: vec![right],
    }
}

/// → the output `[B, T, E]`, and with `need_weights` the weights `[B, T, S]` averaged over the heads, or `[B, H, T, S]`.
fn native_multi_head_attention(f: &mut Func, call: &Call) -> Result<Outputs> {
    let query = call.tensor("query")?;
    let attention = Attention {
        inputs: [query, call.tensor("key")?, call.tensor("value")?],
        heads: call.int("num_head")?,
        qkv_weight: call.tensor("qkv_weight")?,
        qkv_bias: call.tensor("qkv_bias")?,
        proj_weight: call.tensor("proj_weight")?,
        proj_bias: call.tensor("proj_bias")?,
        mask: call.tensor_opt("mask"),
        mask_kind: call.int_opt("mask_type")?,
    };
    let (output, weights) = attention.build(f)?;
    let output = f.convert(&output, query.dtype())?;
    if !call.flag("need_weights")? {
        return Ok(Outputs(vec![Some(output), None]));
    }
    let weights = if call.flag("average_attn_weights")? {
        let total = f.reduce(&weights, Monoid::Add, &[1])?;
        f.binary_const(Binary::Divide, &total, attention.heads)?
    } else {
        weights
    };
    Ok(Outputs::all([output, f.convert(&weights, query.dtype())?]))
}

/// Layer norm over the last axis, in the opmath dtype.
fn layer_norm(f: &mut Func, x: &Value, weight: &Value, bias: &Value, epsilon: f64) -> Result<Value> {
    let axis = x.rank() - 1;
    let count = x.dim(axis) as f64;
    let total = f.reduce_keep(x, Monoid::Add, &[axis])?;
    let mean = f.binary_const(Binary::Divide, &total, count)?;
    let mean = f.broadcast_to(&mean, x.dims())?;
    let centred = f.sub(x, &mean)?;
    let squares = f.mul(&centred, &centred)?;
    let total = f.reduce_keep(&squares, Monoid::Add, &[axis])?;
    let variance = f.binary_const(Binary::Divide, &total, count)?;
    let variance = f.binary_const(Binary::Add, &variance, epsilon)?;
    let inverse = f.unary(Unary::Rsqrt, &variance)?;
    let inverse = f.broadcast_to(&inverse, x.dims())?;
    let normal = f.mul(&centred, &inverse)?;
    let weight = f.convert(weight, x.dtype())?;
    let weight = f.broadcast_to(&weight, x.dims())?;
    let scaled = f.mul(&normal, &weight)?;
    add_row(f, &scaled, bias)
}

/// `x · (1 + erf(x / √2)) / 2`
fn gelu(f: &mut Func, x: &Value) -> Result<Value> {
    let scaled = f.binary_const(Binary::Multiply, x, std::f64::consts::FRAC_1_SQRT_2)?;
    let error = f.unary(Unary::Erf, &scaled)?;
    let gate = f.binary_const(Binary::Add, &error, 1i64)?;
    let gate = f.binary_const(Binary::Multiply, &gate, 0.5)?;
    f.mul(x, &gate)
}

/// A whole encoder layer: attention and feed-forward, each with its residual; norms before (`norm_first`) or after.
fn transformer_encoder_layer(f: &mut Func, call: &Call) -> Result<Outputs> {
    let source = call.tensor("src")?;
    let dtype: DType = source.dtype();
    let norm_first = call.flag("norm_first")?;
    let epsilon = call.float("eps")?;
    let norm = |f: &mut Func, x: &Value, which: usize| {
        let weight = call.tensor(["norm_weight_1", "norm_weight_2"][which])?;
        let bias = call.tensor(["norm_bias_1", "norm_bias_2"][which])?;
        layer_norm(f, x, weight, bias, epsilon)
    };
    let input = wide(f, source)?;
    let attended = if norm_first { norm(f, &input, 0)? } else { input.clone() };
    let attended = f.convert(&attended, dtype)?;
    let attention = Attention {
        inputs: [&attended, &attended, &attended],
        heads: call.int("num_heads")?,
        qkv_weight: call.tensor("qkv_weight")?,
        qkv_bias: call.tensor("qkv_bias")?,
        proj_weight: call.tensor("proj_weight")?,
        proj_bias: call.tensor("proj_bias")?,
        mask: call.tensor_opt("mask"),
        mask_kind: call.int_opt("mask_type")?,
    };
    let (context, _) = attention.build(f)?;
    let x = f.add(&context, &input)?;
    let x = if norm_first { x } else { norm(f, &x, 0)? };
    let hidden = if norm_first { norm(f, &x, 1)? } else { x.clone() };
    let hidden = f.convert(&hidden, dtype)?;
    let hidden = linear(f, &hidden, call.tensor("ffn_weight_1")?, call.tensor("ffn_bias_1")?)?;
    let hidden = if call.flag("use_gelu")? {
        gelu(f, &hidden)?
    } else {
        let zero = f.full_like(&hidden, 0i64);
        f.max(&hidden, &zero)?
    };
    let hidden = f.convert(&hidden, dtype)?;
    let hidden = linear(f, &hidden, call.tensor("ffn_weight_2")?, call.tensor("ffn_bias_2")?)?;
    let x = f.add(&hidden, &x)?;
    let x = if norm_first { x } else { norm(f, &x, 1)? };
    Ok(f.convert(&x, dtype)?.into())
}
