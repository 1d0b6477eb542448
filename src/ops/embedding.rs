//! Embedding tables.

use super::call::{Call, Outputs};
use super::indexing::{normalized, scatter_into};
use super::table::OpDef;
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::stablehlo::{Binary, Comparison, DotDims, Func, Monoid, ScatterDims, Unary, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("embedding", embedding),
    OpDef::new("embedding_renorm", embedding_renorm),
    OpDef::new("embedding_dense_backward", embedding_dense_backward).precision(),
];

/// `weight [V, D]`, `indices […]` → `[…, D]`
fn embedding(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (weight, indices) = (call.tensor("weight")?, call.tensor("indices")?);
    ensure(weight.rank() == 2, || Error::runtime("'weight' must be 2-D"))?;
    ensure(matches!(indices.dtype(), DType::I32 | DType::I64), || {
        Error::runtime(format!(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got {}",
            indices.dtype().name()
        ))
    })?;
    let index = normalized(f, call, indices, weight.dim(0), false)?;
    Ok(f.take(weight, &index, 0)?.into())
}

/// `self [V, D]`: the rows that `indices` names and whose norm exceeds `max_norm` are scaled to it.
fn embedding_renorm(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (weight, indices) = (call.tensor("self")?, call.tensor("indices")?);
    let (limit, order) = (call.float("max_norm")?, call.float("norm_type")?);
    let (rows, count) = (weight.dim(0), indices.numel());
    let index = normalized(f, call, indices, rows, false)?;
    let index = f.reshape(&index, &[count, 1])?;
    let (nothing, ones) = (
        f.constant(DType::I32, &[rows], 0i64),
        f.constant(DType::I32, &[count], 1i64),
    );
    let dims = ScatterDims {
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        ..ScatterDims::default()
    };
    let named = scatter_into(f, &nothing, &index, &ones, &dims, None)?;
    let named = f.convert(&named, DType::Bool)?;
    let wide = f.convert(weight, weight.dtype().opmath())?;
    let magnitude = f.unary(Unary::Abs, &wide)?;
    let norm = if order == f64::INFINITY {
        f.reduce(&magnitude, Monoid::Maximum, &[1])?
    } else {
        let powers = f.binary_const(Binary::Power, &magnitude, order)?;
        let sum = f.reduce(&powers, Monoid::Add, &[1])?;
        f.binary_const(Binary::Power, &sum, 1.0 / order)?
    };
    let above = f.compare_const(Comparison::Gt, &norm, limit)?;
    let scaled = f.and(&named, &above)?;
    let divisor = f.binary_const(Binary::Add, &norm, 1e-7f64)?;
    let limit = f.full_like(&norm, limit);
    let factor = f.div(&limit, &divisor)?;
    let one = f.full_like(&factor, 1i64);
    let factor = f.select(&scaled, &factor, &one)?;
    let factor = f.broadcast_in_dim(&factor, wide.dims(), &[0])?;
    let result = f.mul(&wide, &factor)?;
    Ok(f.convert(&result, weight.dtype())?.into())
}

/// Up to this many `vocabulary × tokens` elements the sum over tokens is a product with the one-hot matrix: XLA:CPU's scatter is a
/// sequential loop, a matrix product is not.
const ONE_HOT_LIMIT: i64 = 1 << 20;

/// `grad_output […, D]`, `indices […]` → `[num_weights, D]`: the sum of the gradients of each row.
fn embedding_dense_backward(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (gradient, indices) = (call.tensor("grad_output")?, call.tensor("indices")?);
    let (rows, padding) = (call.int("num_weights")?, call.int("padding_idx")?);
    let width = gradient.dims().last().copied().unwrap_or(1);
    let count = indices.numel();
    let wide = gradient.dtype().opmath();
    let index = normalized(f, call, indices, rows, false)?;
    let index = f.reshape(&index, &[count])?;
    let update = f.convert(gradient, wide)?;
    let mut update = f.reshape(&update, &[count, width])?;
    let keep = f.compare_const(Comparison::Ne, &index, padding)?;
    if padding >= 0 {
        let spread = f.broadcast_in_dim(&keep, &[count, width], &[0])?;
        let zero = f.full_like(&update, 0i64);
        update = f.select(&spread, &update, &zero)?;
    }
    let one_hot = rows * count <= ONE_HOT_LIMIT;
    let hot = if one_hot || call.flag("scale_grad_by_freq")? {
        Some(one_hot_matrix(f, &index, rows, wide)?)
    } else {
        None
    };
    if call.flag("scale_grad_by_freq")?
        && let Some(hot) = &hot
    {
        // Each token's gradient is divided by how often its row is named.
        let frequency = f.reduce(hot, Monoid::Add, &[0])?;
        let frequency = f.broadcast_in_dim(&frequency, &[count, rows], &[1])?;
        let own = f.mul(hot, &frequency)?;
        let own = f.reduce(&own, Monoid::Add, &[1])?;
        let own = f.broadcast_in_dim(&own, &[count, width], &[0])?;
        update = f.div(&update, &own)?;
    }
    let result = match hot {
        Some(hot) if one_hot => {
            let dims = DotDims {
                left_contract: vec![0],
                right_contract: vec![0],
                ..DotDims::default()
            };
            f.dot_general(&hot, &update, &dims, wide)?
        }
        _ => {
            let zeros = f.constant(wide, &[rows, width], 0i64);
            let vectors = f.unsqueeze(&index, &[1])?;
            let dims = ScatterDims {
                update_window_dims: vec![1],
                inserted_window_dims: vec![0],
                scatter_dims_to_operand_dims: vec![0],
                index_vector_dim: 1,
                ..ScatterDims::default()
            };
            scatter_into(f, &zeros, &vectors, &update, &dims, Some(Monoid::Add))?
        }
    };
    Ok(f.convert(&result, gradient.dtype())?.into())
}

/// `[count, rows]`: 1 where the row is the index.
fn one_hot_matrix(f: &mut Func, index: &Value, rows: i64, dtype: DType) -> Result<Value> {
    let dims = [index.numel(), rows];
    let spread = f.broadcast_in_dim(index, &dims, &[0])?;
    let positions = f.iota(index.dtype(), &dims, 1)?;
    let hot = f.compare(Comparison::Eq, &spread, &positions)?;
    f.convert(&hot, dtype)
}
