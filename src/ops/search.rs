//! Looking values up in sorted sequences, membership, and histograms.

use super::call::{Call, Outputs};
use super::common::{self, not_implemented_for};
use super::sort::sort_with_positions;
use super::table::OpDef;
use crate::dtype::DType;
use crate::error::{Error, Kind, Result, ensure};
use crate::shape;
use crate::stablehlo::{Binary, Comparison, Func, Monoid, ScatterDims, Unary, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("searchsorted", searchsorted),
    OpDef::new("bucketize", bucketize),
    OpDef::new("isin", isin),
    OpDef::new("histc", histc).attributes(&["min", "max"]),
];

/// Up to this many test elements, `isin` compares with each.
const FEW: i64 = 64;

/// `sorted_sequence [b…, n]` or `[n]`, `self [b…, m]` → int64 (int32) of `self`'s dims: how many elements come before each value.
fn searchsorted(f: &mut Func, call: &Call) -> Result<Outputs> {
    let boundaries = call.tensor("sorted_sequence")?;
    let x = call.tensor("self")?;
    let fail = |message: String| Error::runtime(format!("torch.searchsorted(): {message}"));
    let side = call.text_opt("side");
    let right = call.flag("right")?;
    ensure(matches!(side, None | Some("left" | "right")), || {
        fail(format!(
            "side can only be 'left' or 'right' but got {}",
            side.unwrap_or_default()
        ))
    })?;
    ensure(!(right && side == Some("left")), || {
        fail("side and right can't be set to opposites, got side of left while right was True".into())
    })?;
    ensure(boundaries.rank() > 0, || {
        fail("boundaries tensor should have positive dimension, but got 0 dimension".into())
    })?;
    ensure(x.rank() > 0 || boundaries.rank() == 1, || {
        fail(format!(
            "input value can be a scalar only when boundaries tensor dimension is 1, but we got boundaries tensor dim({}) and input value's dim(0) numel(1)",
            boundaries.rank()
        ))
    })?;
    let outer = boundaries.rank() - 1;
    let matching = outer == 0 || (x.rank() == boundaries.rank() && x.dims()[..outer] == boundaries.dims()[..outer]);
    ensure(matching, || {
        fail(format!(
            "boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value tensor must match, but we got boundaries tensor {:?} and input value tensor {:?}",
            boundaries.dims(),
            x.dims()
        ))
    })?;
    let sorter = call.tensor_opt("sorter");
    if let Some(sorter) = sorter {
        ensure(sorter.dims() == boundaries.dims(), || {
            fail(format!(
                "boundary and sorter must have the same size, but got boundary tensor {:?}and got sorter tensor {:?}",
                boundaries.dims(),
                sorter.dims()
            ))
        })?;
        ensure(sorter.dtype() == DType::I64, || {
            fail(format!(
                "sorter must be a tensor of long dtype but got dtype {}",
                common::scalar_type(sorter.dtype())
            ))
        })?;
        call.check_indices(f, sorter, 0, boundaries.dim(outer))?;
    }
    let dtype = call.result_type(&[boundaries, x])?;
    let boundaries = f.convert(boundaries, dtype)?;
    let x = f.convert(x, dtype)?;
    let bound = if right || side == Some("right") {
        Bound::Upper
    } else {
        Bound::Lower
    };
    let places = places(f, &boundaries, &x, sorter.map(|sorter| &sorter.value), bound)?;
    finish(f, call, &places)
}

/// `self […]`, `boundaries [n]` → int64 (int32) of `self`'s dims.
fn bucketize(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let boundaries = call.tensor("boundaries")?;
    ensure(boundaries.rank() == 1, || {
        Error::runtime(format!(
            "boundaries tensor must be 1 dimension, but got dim({})",
            boundaries.rank()
        ))
    })?;
    let dtype = call.result_type(&[boundaries, x])?;
    let boundaries = f.convert(boundaries, dtype)?;
    let x = f.convert(x, dtype)?;
    let bound = if call.flag("right")? {
        Bound::Upper
    } else {
        Bound::Lower
    };
    let places = places(f, &boundaries, &x, None, bound)?;
    finish(f, call, &places)
}

fn finish(f: &mut Func, call: &Call, places: &Value) -> Result<Outputs> {
    let dtype = if call.flag("out_int32")? {
        DType::I32
    } else {
        DType::I64
    };
    Ok(f.convert(places, dtype)?.into())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    /// The first place whose boundary is not below the value.
    Lower,
    /// The first place whose boundary is above the value.
    Upper,
}

/// Binary search with ATen's probes, so that NaN and unsorted boundaries end in the same place. `boundaries [b…, n]` or `[n]`,
/// `x [b…, m]` → int32 (int64 for huge ones) of `x`'s dims.
fn places(f: &mut Func, boundaries: &Value, x: &Value, sorter: Option<&Value>, bound: Bound) -> Result<Value> {
    let axis = boundaries.rank() - 1;
    let size = boundaries.dim(axis);
    let dtype = if boundaries.numel() < i32::MAX.into() {
        DType::I32
    } else {
        DType::I64
    };
    let start = f.constant(dtype, x.dims(), 0i64);
    if size == 0 || x.numel() == 0 {
        return Ok(start);
    }
    let end = f.full_like(&start, size);
    // The search runs on flat boundaries: each row of `x` begins at its own base.
    let flat = f.reshape(boundaries, &[boundaries.numel()])?;
    let sorter = match sorter {
        Some(sorter) => {
            let flat = f.reshape(sorter, &[sorter.numel()])?;
            Some(f.convert(&flat, dtype)?)
        }
        None => None,
    };
    let rows: i64 = shape::numel(&boundaries.dims()[..axis]);
    let mut row_dims = vec![1; x.rank()];
    if axis > 0 {
        row_dims[..axis].copy_from_slice(&boundaries.dims()[..axis]);
    }
    let base = f.iota(dtype, &[rows], 0)?;
    let base = f.binary_const(Binary::Multiply, &base, size)?;
    let base = f.reshape(&base, &row_dims)?;
    let base = f.broadcast_to(&base, x.dims())?;
    let steps = i64::from(64 - (size as u64).leading_zeros());
    let step = f.constant(DType::I32, &[], 0i64);

    let mut carried = vec![step, start, end, x.clone(), base, flat];
    carried.extend(sorter);
    let done = f.while_loop(
        &carried,
        |f, carried| f.compare_const(Comparison::Lt, &carried[0], steps),
        |f, carried| {
            let (step, start, end, x, base, flat) = match carried {
                [step, start, end, x, base, flat, ..] => (step, start, end, x, base, flat),
                _ => return Ok(Vec::new()),
            };
            let open = f.compare(Comparison::Lt, start, end)?;
            let length = f.sub(end, start)?;
            let half = f.binary_const(Binary::ShiftRightArithmetic, &length, 1i64)?;
            let middle = f.add(start, &half)?;
            let mut place = f.add(base, &middle)?;
            if let Some(sorter) = carried.get(6) {
                let within = f.take(sorter, &place, 0)?;
                place = f.add(base, &within)?;
            }
            let probe = f.take(flat, &place, 0)?;
            let direction = if bound == Bound::Lower {
                Comparison::Ge
            } else {
                Comparison::Gt
            };
            let reached = f.compare(direction, &probe, x)?;
            let after = f.binary_const(Binary::Add, &middle, 1i64)?;
            let not_reached = f.not(&reached)?;
            let moves_start = f.and(&open, &not_reached)?;
            let moves_end = f.and(&open, &reached)?;
            let next_start = f.select(&moves_start, &after, start)?;
            let next_end = f.select(&moves_end, &middle, end)?;
            let one = f.constant(DType::I32, &[], 1i64);
            let mut next = vec![f.add(step, &one)?, next_start, next_end];
            next.extend_from_slice(&carried[3..]);
            Ok(next)
        },
    )?;
    done.into_iter()
        .nth(1)
        .ok_or_else(|| Error::runtime("a loop returned too few values"))
}

/// bool of `elements`' dims: whether each occurs in `test_elements` (not, with `invert`).
fn isin(f: &mut Func, call: &Call) -> Result<Outputs> {
    let elements = match call.tensor_opt("elements") {
        Some(elements) => elements,
        None => call.tensor("element")?,
    };
    let tests = match call.tensor_opt("test_elements") {
        Some(tests) => tests,
        None => call.tensor("test_element")?,
    };
    let dtype = call.result_type(&[elements, tests])?;
    let elements = f.convert(elements, dtype)?;
    let tests = f.convert(tests, dtype)?;
    let count = tests.numel();
    let tests = f.reshape(&tests, &[count])?;
    let found = if count <= FEW || dtype.is_complex() || dtype.is_bool() {
        let mut spread = elements.dims().to_vec();
        spread.push(count);
        let one_more = f.unsqueeze(&elements, &[elements.rank()])?;
        let left = f.broadcast_to(&one_more, &spread)?;
        let right = f.broadcast_to(&tests, &spread)?;
        let equal = f.compare(Comparison::Eq, &left, &right)?;
        f.reduce(&equal, Monoid::Or, &[elements.rank()])?
    } else {
        let (sorted, _) = sort_with_positions(f, &tests, 0, false)?;
        let places = places(f, &sorted, &elements, None, Bound::Lower)?;
        let place = f.binary_const(Binary::Minimum, &places, count - 1)?;
        let nearest = f.take(&sorted, &place, 0)?;
        f.compare(Comparison::Eq, &nearest, &elements)?
    };
    Ok(if call.flag("invert")? { f.not(&found)? } else { found }.into())
}

/// `[…]` → `[bins]` counts in the input's dtype, over `[min, max]`; equal limits stand for the data's own.
fn histc(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let bins = call.int("bins")?;
    let (low, high) = (call.float("min")?, call.float("max")?);
    ensure(x.dtype().is_float(), || not_implemented_for("histogram_cpu", x.dtype()))?;
    ensure(bins > 0, || {
        Error::runtime(format!(
            "torch.histogram(): bins must be > 0, but got {bins} for dimension 0"
        ))
    })?;
    ensure(low.is_finite() && high.is_finite(), || {
        Error::runtime(format!("torch.histc: range of [{low}, {high}] is not finite"))
    })?;
    ensure(low <= high, || {
        Error::runtime("torch.histc: max must be larger than min")
    })?;
    let wide = f.convert(x, x.dtype().opmath())?;
    let dtype = wide.dtype();
    let flat = f.reshape(&wide, &[x.numel()])?;
    let (low, high) = if low == high && x.numel() > 0 {
        data_limits(f, &flat)?
    } else if low == high {
        (f.constant(dtype, &[], low - 1.0), f.constant(dtype, &[], high + 1.0))
    } else {
        (f.constant(dtype, &[], low), f.constant(dtype, &[], high))
    };
    let width = f.sub(&high, &low)?;
    let low = f.broadcast_to(&low, flat.dims())?;
    let high = f.broadcast_to(&high, flat.dims())?;
    let width = f.broadcast_to(&width, flat.dims())?;
    let above = f.compare(Comparison::Ge, &flat, &low)?;
    let below = f.compare(Comparison::Le, &flat, &high)?;
    let inside = f.and(&above, &below)?;
    // ATen's LINEAR_INTERPOLATION: (x - low) · bins / width, the right edge belonging to the last bin.
    let distance = f.sub(&flat, &low)?;
    let scaled = f.binary_const(Binary::Multiply, &distance, bins)?;
    let place = f.div(&scaled, &width)?;
    let place = f.unary(Unary::Floor, &place)?;
    let place = f.convert(&place, DType::I32)?;
    let place = f.binary_const(Binary::Minimum, &place, bins - 1)?;
    // What is outside goes to an index that the scatter drops.
    let nowhere = f.full_like(&place, bins);
    let place = f.select(&inside, &place, &nowhere)?;
    let place = f.unsqueeze(&place, &[1])?;
    let empty = f.constant(dtype, &[bins], 0i64);
    let ones = f.full_like(&flat, 1i64);
    let dims = ScatterDims {
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        ..ScatterDims::default()
    };
    let counts = f.scatter(&[empty], &place, &[ones], &dims, false, false, |f, current, update| {
        Ok(vec![f.add(&current[0], &update[0])?])
    })?;
    let counts = counts
        .first()
        .ok_or_else(|| Error::runtime("a scatter returned no value"))?;
    Ok(f.convert(counts, x.dtype())?.into())
}

/// The smallest and the largest element, one less and one more where they are equal.
fn data_limits(f: &mut Func, flat: &Value) -> Result<(Value, Value)> {
    let low = f.reduce(flat, Monoid::Minimum, &[0])?;
    let high = f.reduce(flat, Monoid::Maximum, &[0])?;
    let (low_finite, high_finite) = (f.is_finite(&low)?, f.is_finite(&high)?);
    let finite = f.and(&low_finite, &high_finite)?;
    f.check(&finite, Kind::Runtime, "torch.histc: range of the input is not finite")?;
    let equal = f.compare(Comparison::Eq, &low, &high)?;
    let wider_low = f.binary_const(Binary::Subtract, &low, 1i64)?;
    let wider_high = f.binary_const(Binary::Add, &high, 1i64)?;
    Ok((
        f.select(&equal, &wider_low, &low)?,
        f.select(&equal, &wider_high, &high)?,
    ))
}
