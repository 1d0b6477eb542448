//! Scattering along an axis.

use super::call::{Call, Outputs};
use super::indexing::{check_index_dims, full_vectors, normalized, scatter_into};
use super::table::OpDef;
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::stablehlo::{Binary, Comparison, Func, Monoid, ScatterDims, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("scatter", scatter),
    OpDef::new("scatter_add", scatter_add),
    OpDef::new("scatter_reduce", scatter_reduce),
    OpDef::new("index_add", index_add),
    OpDef::new("index_copy", index_copy),
    OpDef::new("index_fill", index_fill),
    OpDef::new("index_reduce", index_reduce),
    OpDef::new("masked_scatter", masked_scatter),
];

/// `self[index[i][j]][j] op= source[i][j]` for axis 0; `source` None: `value` everywhere.
fn along_axis(
    f: &mut Func,
    call: &Call,
    source: Option<&Value>,
    combine: Option<Monoid>,
    base: Option<Value>,
) -> Result<Value> {
    let (x, indices) = (call.tensor("self")?, call.tensor("index")?);
    let axis = call.axis("dim", x.rank())?;
    let base = base.unwrap_or_else(|| x.value.clone());
    if indices.numel() == 0 {
        return Ok(base);
    }
    ensure(matches!(indices.dtype(), DType::I64 | DType::I32), || {
        Error::runtime("scatter(): Expected dtype int64 for index")
    })?;
    check_index_dims(x, indices, axis, "self")?;
    let lifted = |f: &mut Func, value: &Value| {
        if value.rank() == 0 {
            f.reshape(value, &[1])
        } else {
            Ok(value.clone())
        }
    };
    let original = base.clone();
    let base = lifted(f, &base)?;
    let index = normalized(f, call, indices, base.dim(axis), false)?;
    let index = lifted(f, &index)?;
    let update = match source {
        Some(source) => {
            let source = lifted(f, source)?;
            ensure(
                source.rank() == index.rank()
                    && index
                        .dims()
                        .iter()
                        .zip(source.dims())
                        .all(|(index, source)| index <= source),
                || {
                    Error::runtime(format!(
                        "Expected index {:?} to be no larger than src {:?}",
                        index.dims(),
                        source.dims()
                    ))
                },
            )?;
            let zeros = vec![0; index.rank()];
            let ones = vec![1; index.rank()];
            f.slice(&source, &zeros, index.dims(), &ones)?
        }
        None => {
            let value = f.convert(call.tensor("value")?, base.dtype())?;
            f.broadcast_to(&value, index.dims())?
        }
    };
    ensure(update.dtype() == base.dtype(), || {
        Error::runtime(format!(
            "scatter(): Expected self.dtype to be equal to src.dtype, got {} and {}",
            base.dtype().name(),
            update.dtype().name()
        ))
    })?;
    let vectors = full_vectors(f, &index, axis)?;
    let rank = base.rank();
    let dims = ScatterDims {
        inserted_window_dims: (0..rank).collect(),
        scatter_dims_to_operand_dims: (0..rank).collect(),
        index_vector_dim: rank,
        ..ScatterDims::default()
    };
    let result = scatter_into(f, &base, &vectors, &update, &dims, combine)?;
    f.reshape(&result, original.dims())
}

/// All overloads: `src` or `value`, with or without `reduce` ("add", "multiply").
fn scatter(f: &mut Func, call: &Call) -> Result<Outputs> {
    let combine = match call.text_opt("reduce") {
        None => None,
        Some("add") => Some(Monoid::Add),
        Some("multiply") => Some(Monoid::Multiply),
        Some(other) => {
            return Err(Error::runtime(format!(
                "reduce argument must be either add or multiply, got {other}"
            )));
        }
    };
    let source = call.tensor_opt("src").map(|source| source.value.clone());
    Ok(along_axis(f, call, source.as_ref(), combine, None)?.into())
}

fn scatter_add(f: &mut Func, call: &Call) -> Result<Outputs> {
    let source = call.tensor("src")?.value.clone();
    Ok(along_axis(f, call, Some(&source), Some(Monoid::Add), None)?.into())
}

fn monoid_of(reduce: &str) -> Result<Option<Monoid>> {
    Ok(Some(match reduce {
        "sum" | "mean" => Monoid::Add,
        "prod" => Monoid::Multiply,
        "amax" => Monoid::Maximum,
        "amin" => Monoid::Minimum,
        other => {
            return Err(Error::runtime(format!(
                "reduce argument must be either sum, prod, mean, amax or amin, got {other}"
            )));
        }
    }))
}

/// `base`, or where something is scattered and `self` does not take part the neutral element.
fn start(f: &mut Func, x: &Value, touched: &Value, monoid: Monoid, include_self: bool) -> Result<Value> {
    if include_self {
        return Ok(x.clone());
    }
    let neutral = f.neutral(monoid, x.dtype())?;
    let neutral = f.broadcast_to(&neutral, x.dims())?;
    f.select(touched, &neutral, x)
}

/// The mean's last step: `sum / count`, rounded down for integers; where nothing was counted, the sum.
fn divide_by_count(f: &mut Func, sum: &Value, count: &Value) -> Result<Value> {
    let one = f.full_like(count, 1i64);
    let count = f.max(count, &one)?;
    let quotient = f.div(sum, &count)?;
    if !sum.dtype().is_integer() {
        return Ok(quotient);
    }
    let rest = f.binary(Binary::Remainder, sum, &count)?;
    let negative = f.compare_const(Comparison::Lt, &rest, 0i64)?;
    let below = f.binary_const(Binary::Subtract, &quotient, 1i64)?;
    f.select(&negative, &below, &quotient)
}

fn scatter_reduce(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (x, source) = (call.tensor("self")?, call.tensor("src")?);
    let reduce = call.text_opt("reduce").unwrap_or("sum").to_owned();
    let include_self = !call.has("include_self") || call.flag("include_self")?;
    let monoid = monoid_of(&reduce)?.unwrap_or(Monoid::Add);
    let ones = f.full_like(source, 1i64);
    let zeros = f.full_like(x, 0i64);
    let counts = along_axis(f, call, Some(&ones), Some(Monoid::Add), Some(zeros.clone()))?;
    let touched = f.compare(Comparison::Ne, &counts, &zeros)?;
    let base = start(f, x, &touched, monoid, include_self)?;
    let source = source.value.clone();
    let result = along_axis(f, call, Some(&source), Some(monoid), Some(base))?;
    if reduce != "mean" {
        return Ok(result.into());
    }
    let counts = if include_self {
        f.binary_const(Binary::Add, &counts, 1i64)?
    } else {
        counts
    };
    Ok(divide_by_count(f, &result, &counts)?.into())
}

/// `self[index[i]] op= source[i]` of whole rows along `axis`.
fn rows(f: &mut Func, call: &Call, base: &Value, source: &Value, combine: Option<Monoid>) -> Result<Value> {
    let indices = call.tensor("index")?;
    let axis = call.axis("dim", base.rank())?;
    ensure(indices.rank() <= 1, || {
        Error::index("index: Index should have dimension 1 or 0")
    })?;
    ensure(source.dtype() == base.dtype(), || {
        Error::runtime(format!(
            "self ({}) and source ({}) must have the same scalar type",
            base.dtype().name(),
            source.dtype().name()
        ))
    })?;
    let original = base.clone();
    let base = if base.rank() == 0 {
        f.reshape(base, &[1])?
    } else {
        base.clone()
    };
    let mut wanted = base.dims().to_vec();
    wanted[axis] = indices.numel();
    ensure(source.numel() == crate::shape::numel(&wanted), || {
        Error::runtime(format!(
            "source of shape {:?} does not match the destination {:?} at {} indices along {axis}",
            source.dims(),
            original.dims(),
            indices.numel()
        ))
    })?;
    let source = f.reshape(source, &wanted)?;
    let index = normalized(f, call, indices, base.dim(axis), false)?;
    let vectors = f.reshape(&index, &[indices.numel(), 1])?;
    let dims = ScatterDims {
        update_window_dims: (0..base.rank()).filter(|&other| other != axis).collect(),
        inserted_window_dims: vec![axis],
        scatter_dims_to_operand_dims: vec![axis],
        index_vector_dim: 1,
        ..ScatterDims::default()
    };
    let result = scatter_into(f, &base, &vectors, &source, &dims, combine)?;
    f.reshape(&result, original.dims())
}

fn index_add(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (x, source) = (call.tensor("self")?, call.tensor("source")?);
    let mut value = source.value.clone();
    if let Some(alpha) = call.tensor_opt("alpha") {
        let alpha = f.convert(alpha, value.dtype())?;
        let alpha = f.broadcast_to(&alpha, value.dims())?;
        value = if value.dtype().is_bool() {
            f.and(&value, &alpha)?
        } else {
            f.mul(&value, &alpha)?
        };
    }
    Ok(rows(f, call, x, &value, Some(Monoid::Add))?.into())
}

fn index_copy(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (x, source) = (call.tensor("self")?, call.tensor("source")?.value.clone());
    Ok(rows(f, call, x, &source, None)?.into())
}

fn index_fill(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (x, value, indices) = (call.tensor("self")?, call.tensor("value")?, call.tensor("index")?);
    ensure(value.rank() == 0, || {
        Error::runtime(format!(
            "index_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
            value.rank()
        ))
    })?;
    let axis = call.axis("dim", x.rank())?;
    let mut dims = if x.rank() == 0 { vec![1] } else { x.dims().to_vec() };
    dims[axis] = indices.numel();
    let value = f.convert(value, x.dtype())?;
    let source = f.broadcast_to(&value, &dims)?;
    Ok(rows(f, call, x, &source, None)?.into())
}

fn index_reduce(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (x, source) = (call.tensor("self")?, call.tensor("source")?.value.clone());
    let reduce = call.text_opt("reduce").unwrap_or("prod").to_owned();
    let include_self = !call.has("include_self") || call.flag("include_self")?;
    let monoid = monoid_of(&reduce)?.unwrap_or(Monoid::Multiply);
    let (ones, zeros) = (f.full_like(&source, 1i64), f.full_like(x, 0i64));
    let counts = rows(f, call, &zeros, &ones, Some(Monoid::Add))?;
    let touched = f.compare(Comparison::Ne, &counts, &zeros)?;
    let base = start(f, x, &touched, monoid, include_self)?;
    let result = rows(f, call, &base, &source, Some(monoid))?;
    if reduce != "mean" {
        return Ok(result.into());
    }
    let counts = if include_self {
        f.binary_const(Binary::Add, &counts, 1i64)?
    } else {
        counts
    };
    Ok(divide_by_count(f, &result, &counts)?.into())
}

/// Elements of `source`, in order, where `mask`.
fn masked_scatter(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (x, mask, source) = (call.tensor("self")?, call.tensor("mask")?, call.tensor("source")?);
    ensure(mask.dtype().is_bool(), || {
        Error::runtime("masked_scatter_ only supports boolean masks")
    })?;
    ensure(x.dtype() == source.dtype(), || {
        Error::runtime(format!(
            "masked_scatter: expected self and source to have same dtypes but got {} and {}",
            x.dtype().name(),
            source.dtype().name()
        ))
    })?;
    let (x, mask) = f.broadcast_pair(x, mask)?;
    let size = x.numel();
    if size == 0 || source.numel() == 0 {
        return Ok(x.into());
    }
    let flat_mask = f.reshape(&mask, &[size])?;
    let count = super::indexing::running_count(f, &flat_mask)?;
    let position = f.binary_const(Binary::Subtract, &count, 1i64)?;
    let position = f.binary_const(Binary::Maximum, &position, 0i64)?;
    let last = f.slice_axis(&count, 0, size - 1, size)?;
    let last = f.reshape(&last, &[])?;
    let enough = f.compare_const(Comparison::Le, &last, source.numel())?;
    f.check(
        &enough,
        crate::error::Kind::Runtime,
        "masked_scatter: Number of elements of source < number of ones in mask",
    )?;
    let flat = f.reshape(source, &[source.numel()])?;
    let values = f.take(&flat, &position, 0)?;
    let values = f.reshape(&values, x.dims())?;
    Ok(f.select(&mask, &values, &x)?.into())
}
