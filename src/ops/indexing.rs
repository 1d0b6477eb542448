//! Gathering along an axis and advanced indexing.
//!
//! Index values are logical int64; inside a program they are int32 where the indexed size allows. Out-of-range device indices are
//! checked in debug mode; otherwise gathers clamp them and scatters drop them.

use super::call::{Call, Operand, Outputs};
use super::table::OpDef;
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::shape::{self, Dims};
use crate::stablehlo::{Comparison, Func, GatherDims, Monoid, ScatterDims, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("index_select", index_select),
    OpDef::new("gather", gather),
    OpDef::new("index", index),
    OpDef::new("_unsafe_index", index),
    OpDef::new("index_put", index_put),
    OpDef::new("_index_put_impl", index_put),
    OpDef::new("_unsafe_index_put", index_put),
    OpDef::new("masked_select", masked_select).bounded(),
    OpDef::new("nonzero", nonzero).bounded(),
    OpDef::new("take", take),
    OpDef::new("put", put),
];

/// Indices as the program uses them: negative ones wrapped (when `wrap`), int32 where `size` allows, checked in debug mode.
pub(super) fn normalized(f: &mut Func, call: &Call, indices: &Value, size: i64, wrap: bool) -> Result<Value> {
    ensure(indices.dtype().is_integer(), || {
        Error::index(format!(
            "tensors used as indices must be long, int, byte or bool tensors, got {}",
            indices.dtype().name()
        ))
    })?;
    call.check_indices(f, indices, if wrap { -size } else { 0 }, size)?;
    let narrow = f.convert(
        indices,
        if size <= i32::MAX.into() {
            DType::I32
        } else {
            DType::I64
        },
    )?;
    if !wrap || indices.dtype().is_unsigned() {
        return Ok(narrow);
    }
    let negative = f.compare_const(Comparison::Lt, &narrow, 0i64)?;
    let moved = f.binary_const(crate::stablehlo::Binary::Add, &narrow, size)?;
    f.select(&negative, &moved, &narrow)
}

/// `self` with `axis` replaced by the rows that `index` (0-d or 1-d) names.
fn index_select(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (x, indices) = (call.tensor("self")?, call.tensor("index")?);
    let axis = call.axis("dim", x.rank())?;
    ensure(indices.rank() <= 1, || {
        Error::index("index_select(): Index is supposed to be a vector")
    })?;
    ensure(matches!(indices.dtype(), DType::I32 | DType::I64), || {
        Error::runtime("index_select(): Expected dtype int32 or int64 for index")
    })?;
    if x.rank() == 0 {
        return Ok(x.value.clone().into());
    }
    let normal = normalized(f, call, indices, x.dim(axis), false)?;
    let normal = f.reshape(&normal, &[indices.numel()])?;
    Ok(f.take(x, &normal, axis)?.into())
}

/// Index vectors `[…dims, rank]` that name, for each position of `index`, the element at `index` along `axis`.
pub(super) fn full_vectors(f: &mut Func, index: &Value, axis: usize) -> Result<Value> {
    let dims = Dims::from_slice(index.dims());
    let parts: Vec<Value> = (0..dims.len())
        .map(|other| {
            let part = if other == axis {
                index.clone()
            } else {
                f.iota(index.dtype(), &dims, other)?
            };
            f.unsqueeze(&part, &[dims.len()])
        })
        .collect::<Result<_>>()?;
    f.concatenate(&parts, dims.len())
}

pub(super) fn check_index_dims(x: &Value, index: &Value, axis: usize, what: &str) -> Result<()> {
    ensure(x.rank().max(1) == index.rank().max(1), || {
        Error::runtime("Index tensor must have the same number of dimensions as input tensor")
    })?;
    for other in (0..index.rank()).filter(|&other| other != axis && x.rank() > 0) {
        ensure(index.dim(other) <= x.dim(other), || {
            Error::runtime(format!(
                "Size does not match at dimension {other} expected index {:?} to be no larger than {what} {:?} apart from dimension {axis}",
                index.dims(),
                x.dims()
            ))
        })?;
    }
    Ok(())
}

/// `out[i][j] = self[index[i][j]][j]` for axis 0.
fn gather(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (x, indices) = (call.tensor("self")?, call.tensor("index")?);
    let axis = call.axis("dim", x.rank())?;
    if indices.numel() == 0 {
        return Ok(f.constant(x.dtype(), indices.dims(), 0i64).into());
    }
    ensure(matches!(indices.dtype(), DType::I32 | DType::I64), || {
        Error::runtime("gather(): Expected dtype int64 for index")
    })?;
    check_index_dims(x, indices, axis, "self")?;
    if x.rank() == 0 {
        return Ok(f.broadcast_to(x, indices.dims())?.into());
    }
    let index = normalized(f, call, indices, x.dim(axis), false)?;
    let index = if index.rank() == 0 {
        f.reshape(&index, &[1])?
    } else {
        index
    };
    let vectors = full_vectors(f, &index, axis)?;
    let rank = x.rank();
    let dims = GatherDims {
        collapsed_slice_dims: (0..rank).collect(),
        start_index_map: (0..rank).collect(),
        index_vector_dim: rank,
        ..GatherDims::default()
    };
    let result = f.gather(x, &vectors, &dims, &vec![1; rank], false)?;
    Ok(f.reshape(&result, indices.dims())?.into())
}

/// Advanced indices, ready for gather and scatter.
pub(super) struct Advanced {
    /// `[…broadcast, n]`
    pub vectors: Value,
    /// The axes of `self` that are indexed.
    pub axes: Vec<usize>,
    /// The indices' common dims.
    pub dims: Dims,
    /// Where they stand in the result: in place of the indexed axes when those are adjacent, else in front.
    pub position: usize,
}

pub(super) fn advanced(f: &mut Func, call: &Call, x: &Value, indices: &[Option<Operand>]) -> Result<Advanced> {
    ensure(indices.len() <= x.rank(), || {
        Error::index(format!(
            "too many indices for tensor of dimension {} (got {})",
            x.rank(),
            indices.len()
        ))
    })?;
    let axes: Vec<usize> = (0..indices.len()).filter(|&axis| indices[axis].is_some()).collect();
    let given: Vec<(usize, &Operand)> = axes
        .iter()
        .filter_map(|&axis| indices[axis].as_ref().map(|index| (axis, index)))
        .collect();
    let mut dims = Dims::new();
    for (_, index) in &given {
        dims = shape::broadcast(&dims, index.dims()).map_err(|_| {
            let shapes: Vec<String> = given.iter().map(|(_, index)| format!("{:?}", index.dims())).collect();
            Error::index(format!(
                "shape mismatch: indexing tensors could not be broadcast together with shapes {}",
                shapes.join(", ")
            ))
        })?;
    }
    let count = shape::numel(&dims);
    let wide = axes.iter().any(|&axis| x.dim(axis) > i32::MAX.into());
    let mut parts = Vec::new();
    for (axis, index) in &given {
        ensure(count == 0 || x.dim(*axis) > 0, || {
            Error::index(format!(
                "index is out of bounds for dimension with size 0 (axis {axis})"
            ))
        })?;
        let normal = normalized(f, call, index, x.dim(*axis), true)?;
        let normal = f.convert(&normal, if wide { DType::I64 } else { DType::I32 })?;
        let normal = f.broadcast_to(&normal, &dims)?;
        parts.push(f.unsqueeze(&normal, &[dims.len()])?);
    }
    ensure(!parts.is_empty(), || {
        Error::index("at least one index tensor is needed")
    })?;
    let adjacent = axes.windows(2).all(|pair| pair[1] == pair[0] + 1);
    Ok(Advanced {
        vectors: f.concatenate(&parts, dims.len())?,
        position: if adjacent { axes[0] } else { 0 },
        axes,
        dims,
    })
}

/// Result axes that hold `self`'s other axes, when the indices' `count` axes stand at `position`.
fn window_axes(rank: usize, indexed: usize, position: usize, count: usize) -> Vec<usize> {
    let rest = rank - indexed;
    (0..position.min(rest))
        .chain((position.min(rest)..rest).map(|axis| axis + count))
        .collect()
}

fn index(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let indices = call.tensors_opt("indices")?;
    if indices.iter().all(Option::is_none) {
        return Ok(x.value.clone().into());
    }
    let advanced = advanced(f, call, x, indices)?;
    let slice_sizes: Vec<i64> = (0..x.rank())
        .map(|axis| {
            if advanced.axes.contains(&axis) {
                1.min(x.dim(axis))
            } else {
                x.dim(axis)
            }
        })
        .collect();
    let dims = GatherDims {
        offset_dims: window_axes(x.rank(), advanced.axes.len(), advanced.position, advanced.dims.len()),
        collapsed_slice_dims: advanced.axes.clone(),
        start_index_map: advanced.axes.clone(),
        index_vector_dim: advanced.dims.len(),
        ..GatherDims::default()
    };
    Ok(f.gather(x, &advanced.vectors, &dims, &slice_sizes, false)?.into())
}

/// `self` with the indexed elements replaced by `values` (broadcast), or increased by them.
fn index_put(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (x, values) = (call.tensor("self")?, call.tensor("values")?);
    let accumulate = call.flag("accumulate")?;
    let indices = call.tensors_opt("indices")?;
    ensure(
        x.dtype() == values.dtype() || values.category == crate::promote::Category::Number,
        || {
            Error::runtime(format!(
                "Index put requires the source and destination dtypes match, got {} for the destination and {} for the source.",
                x.dtype().name(),
                values.dtype().name()
            ))
        },
    )?;
    let values = f.convert(values, x.dtype())?;
    if let Some((axis, mask)) = indices.iter().enumerate().find_map(|(axis, index)| {
        index
            .as_ref()
            .filter(|index| index.dtype().is_bool())
            .map(|index| (axis, index))
    }) {
        // The shim leaves a mask only where one value goes everywhere.
        ensure(values.numel() == 1 && !accumulate, || {
            Error::runtime("a bool mask with several values must be expanded; please report this as a bug")
        })?;
        let value = f.reshape(&values, &[])?;
        let value = f.broadcast_to(&value, x.dims())?;
        let axes: Vec<usize> = (axis..axis + mask.rank()).collect();
        let mask = f.broadcast_in_dim(mask, x.dims(), &axes)?;
        return Ok(f.select(&mask, &value, x)?.into());
    }
    if indices.iter().all(Option::is_none) {
        let values = f.broadcast_to(&values, x.dims())?;
        return Ok(if accumulate { f.add(x, &values)? } else { values }.into());
    }
    let advanced = advanced(f, call, x, indices)?;
    let windows = window_axes(x.rank(), advanced.axes.len(), advanced.position, advanced.dims.len());
    let rest: Vec<i64> = (0..x.rank())
        .filter(|axis| !advanced.axes.contains(axis))
        .map(|axis| x.dim(axis))
        .collect();
    let (mut rest, mut batch) = (rest.iter(), advanced.dims.iter());
    let rank = windows.len() + advanced.dims.len();
    let update_dims: Vec<i64> = (0..rank)
        .filter_map(|axis| {
            if windows.contains(&axis) {
                rest.next()
            } else {
                batch.next()
            }
            .copied()
        })
        .collect();
    // Leading axes of size 1 beyond the result's rank are dropped, as PyTorch's expand would.
    let surplus = values.rank().saturating_sub(rank);
    let values = if surplus > 0 && values.dims()[..surplus].iter().all(|&size| size == 1) {
        let dims = values.dims()[surplus..].to_vec();
        f.reshape(&values, &dims)?
    } else {
        values
    };
    ensure(
        shape::broadcast(values.dims(), &update_dims).is_ok_and(|dims| dims.as_slice() == update_dims),
        || {
            Error::runtime(format!(
                "shape mismatch: value tensor of shape {:?} cannot be broadcast to indexing result of shape {update_dims:?}",
                values.dims()
            ))
        },
    )?;
    let update = f.broadcast_to(&values, &update_dims)?;
    let dims = ScatterDims {
        update_window_dims: windows,
        inserted_window_dims: advanced.axes.clone(),
        scatter_dims_to_operand_dims: advanced.axes.clone(),
        index_vector_dim: advanced.dims.len(),
        ..ScatterDims::default()
    };
    Ok(scatter_into(
        f,
        x,
        &advanced.vectors,
        &update,
        &dims,
        accumulate.then_some(Monoid::Add),
    )?
    .into())
}

/// Scatter that replaces (`None`) or combines; sums of the 16-bit floats are taken in float32.
pub(super) fn scatter_into(
    f: &mut Func,
    x: &Value,
    vectors: &Value,
    update: &Value,
    dims: &ScatterDims,
    combine: Option<Monoid>,
) -> Result<Value> {
    use crate::stablehlo::Binary;
    if update.numel() == 0 || x.numel() == 0 {
        return Ok(x.clone());
    }
    let op = match combine {
        None => None,
        Some(Monoid::Add) if x.dtype().is_bool() => Some(Binary::Or),
        Some(Monoid::Multiply) if x.dtype().is_bool() => Some(Binary::And),
        Some(Monoid::Add) => Some(Binary::Add),
        Some(Monoid::Multiply) => Some(Binary::Multiply),
        Some(Monoid::Maximum) => Some(Binary::Maximum),
        Some(Monoid::Minimum) => Some(Binary::Minimum),
        Some(Monoid::And) => Some(Binary::And),
        Some(Monoid::Or) => Some(Binary::Or),
    };
    let wide = if op.is_some() { x.dtype().opmath() } else { x.dtype() };
    let (base, update) = (f.convert(x, wide)?, f.convert(update, wide)?);
    let results = f.scatter(&[base], vectors, &[update], dims, false, false, |f, current, update| {
        Ok(vec![match op {
            None => update[0].clone(),
            Some(op) => f.binary(op, &current[0], &update[0])?,
        }])
    })?;
    f.convert(&results[0], x.dtype())
}

/// Running count of a flat mask, inclusive, as int32 or int64.
pub(super) fn running_count(f: &mut Func, mask: &Value) -> Result<Value> {
    let size = mask.numel();
    let dtype = if size <= i32::MAX.into() {
        DType::I32
    } else {
        DType::I64
    };
    let mut count = f.convert(mask, dtype)?;
    let zero = f.constant(dtype, &[], 0i64);
    let mut shift = 1;
    while shift < size {
        let head = f.slice_axis(&count, 0, 0, size - shift)?;
        let moved = f.pad(&head, &zero, &[shift], &[0], &[0])?;
        count = f.add(&count, &moved)?;
        shift *= 2;
    }
    Ok(count)
}

/// For a flat mask: where each chosen element goes (beyond the end for the others), and how many there are (0-d int64).
fn compaction(f: &mut Func, mask: &Value) -> Result<(Value, Value)> {
    let size = mask.numel();
    let count = running_count(f, mask)?;
    let position = f.binary_const(crate::stablehlo::Binary::Subtract, &count, 1i64)?;
    let beyond = f.full_like(&position, size);
    let target = f.select(mask, &position, &beyond)?;
    let last = f.slice_axis(&count, 0, size - 1, size)?;
    let total = f.reshape(&last, &[])?;
    Ok((target, f.convert(&total, DType::I64)?))
}

/// Rows of `values [n, …]` moved to `target`'s positions; rows that go beyond the end are dropped.
fn compact(f: &mut Func, values: &Value, target: &Value) -> Result<Value> {
    let zeros = f.full_like(values, 0i64);
    let vectors = f.unsqueeze(target, &[1])?;
    let dims = ScatterDims {
        update_window_dims: (1..values.rank()).collect(),
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        ..ScatterDims::default()
    };
    scatter_into(f, &zeros, &vectors, values, &dims, None)
}

fn masked_select(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (x, mask) = (call.tensor("self")?, call.tensor("mask")?);
    ensure(mask.dtype().is_bool(), || {
        Error::runtime("masked_select: expected BoolTensor for mask")
    })?;
    let (x, mask) = f.broadcast_pair(x, mask)?;
    let size = x.numel();
    let (x, mask) = (f.reshape(&x, &[size])?, f.reshape(&mask, &[size])?);
    if size == 0 {
        let none = f.constant(DType::I64, &[], 0i64);
        return Ok(Outputs::all([x, none]));
    }
    let (target, count) = compaction(f, &mask)?;
    let chosen = compact(f, &x, &target)?;
    Ok(Outputs::all([chosen, count]))
}

/// `[count, rank]` int64 positions of the elements that are not zero, in row-major order.
fn nonzero(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let (size, rank) = (x.numel(), x.rank());
    let mask = f.convert(x, DType::Bool)?;
    let mask = f.reshape(&mask, &[size])?;
    if size == 0 {
        let rows = f.constant(DType::I64, &[0, rank as i64], 0i64);
        let none = f.constant(DType::I64, &[], 0i64);
        return Ok(Outputs::all([rows, none]));
    }
    let (target, count) = compaction(f, &mask)?;
    if rank == 0 {
        let rows = f.constant(DType::I64, &[1, 0], 0i64);
        return Ok(Outputs::all([rows, count]));
    }
    let columns: Vec<Value> = (0..rank)
        .map(|axis| {
            let positions = f.iota(DType::I64, x.dims(), axis)?;
            f.reshape(&positions, &[size, 1])
        })
        .collect::<Result<_>>()?;
    let rows = f.concatenate(&columns, 1)?;
    let chosen = compact(f, &rows, &target)?;
    Ok(Outputs::all([chosen, count]))
}

/// Elements of the flattened `self`.
fn take(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (x, indices) = (call.tensor("self")?, call.tensor("index")?);
    let size = x.numel();
    ensure(size > 0 || indices.numel() == 0, || {
        Error::index("take(): tried to take from an empty tensor")
    })?;
    let flat = f.reshape(x, &[size])?;
    let normal = normalized(f, call, indices, size, true)?;
    Ok(f.take(&flat, &normal, 0)?.into())
}

/// The flattened `self` with `source` at `index`.
fn put(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (x, indices, source) = (call.tensor("self")?, call.tensor("index")?, call.tensor("source")?);
    ensure(indices.numel() == source.numel(), || {
        Error::runtime(format!(
            "put_(): Expected source and index to have the same number of elements, but got source.numel() = {}, index.numel() = {}",
            source.numel(),
            indices.numel()
        ))
    })?;
    let (size, count) = (x.numel(), indices.numel());
    let flat = f.reshape(x, &[size])?;
    let normal = normalized(f, call, indices, size, true)?;
    let vectors = f.reshape(&normal, &[count, 1])?;
    let source = f.reshape(source, &[count])?;
    let dims = ScatterDims {
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        ..ScatterDims::default()
    };
    let result = scatter_into(
        f,
        &flat,
        &vectors,
        &source,
        &dims,
        call.flag("accumulate")?.then_some(Monoid::Add),
    )?;
    Ok(f.reshape(&result, x.dims())?.into())
}
