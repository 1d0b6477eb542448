//! QR factors, by XLA's custom calls for Householder reflections, which every backend expands.

use super::call::{Call, Outputs};
use super::common::{not_implemented_for, scalar_type};
use super::decomposition::{adjoint, ensure_supported};
use super::linalg::keep_triangle;
use super::table::OpDef;
use crate::error::{Error, Result, ensure};
use crate::stablehlo::{Func, TensorType, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("linalg_qr", linalg_qr).precision(),
    OpDef::new("geqrf", geqrf).precision(),
    OpDef::new("linalg_householder_product", linalg_householder_product).precision(),
    OpDef::new("ormqr", ormqr).precision(),
];

/// `[…, m, n]`, not empty → the reflections packed below the diagonal with `R` on and above it, and their factors `[…, min(m, n)]`.
fn reflections(f: &mut Func, x: &Value) -> Result<(Value, Value)> {
    let mut factors = x.dims()[..x.rank() - 2].to_vec();
    factors.push(x.dim(x.rank() - 2).min(x.dim(x.rank() - 1)));
    let types = [x.ty().clone(), TensorType::new(x.dtype(), &factors)];
    let results = f.custom_call("Qr", std::slice::from_ref(x), &types, "")?;
    match results.as_slice() {
        [packed, factors] => Ok((packed.clone(), factors.clone())),
        _ => Err(Error::runtime("a custom call returned the wrong number of values")),
    }
}

/// `[…, m, n]` reflections and `[…, k]` factors → the first `n` columns of their product.
fn product(f: &mut Func, packed: &Value, factors: &Value) -> Result<Value> {
    let results = f.custom_call(
        "ProductOfElementaryHouseholderReflectors",
        &[packed.clone(), factors.clone()],
        &[packed.ty().clone()],
        "",
    )?;
    results
        .into_iter()
        .next()
        .ok_or_else(|| Error::runtime("a custom call returned no value"))
}

/// `A […, m, n]` → `Q` and `R`: `reduced` `[…, m, k]`, `[…, k, n]`; `complete` `[…, m, m]`, `[…, m, n]`; `r` no `Q`.
fn linalg_qr(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("A")?;
    let name = "linalg.qr";
    ensure(x.rank() >= 2, || {
        Error::runtime(format!("{name}: The input tensor A must have at least 2 dimensions."))
    })?;
    let mode = call.text_opt("mode").unwrap_or("reduced");
    ensure(matches!(mode, "reduced" | "complete" | "r"), || {
        Error::runtime(format!(
            "qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        ))
    })?;
    ensure_supported(x.dtype(), name, "geqrf_cpu")?;
    let (row_axis, column_axis) = (x.rank() - 2, x.rank() - 1);
    let (rows, columns) = (x.dim(row_axis), x.dim(column_axis));
    let size = rows.min(columns);
    let kept = if mode == "complete" { rows } else { size };
    if x.numel() == 0 {
        let mut dims = x.dims().to_vec();
        dims[row_axis] = kept;
        let upper = f.constant(x.dtype(), &dims, 0i64);
        (dims[row_axis], dims[column_axis]) = (rows, kept);
        let ones = f.constant(x.dtype(), &dims, 1i64);
        let lower = keep_triangle(f, &ones, false, 0)?;
        let identity = keep_triangle(f, &lower, true, 0)?;
        let orthogonal = if mode == "r" {
            f.constant(x.dtype(), &[0], 0i64)
        } else {
            identity
        };
        return Ok(Outputs::all([orthogonal, upper]));
    }
    let (packed, factors) = reflections(f, x)?;
    let upper = f.slice_axis(&packed, row_axis, 0, kept)?;
    let upper = keep_triangle(f, &upper, true, 0)?;
    if mode == "r" {
        return Ok(Outputs::all([f.constant(x.dtype(), &[0], 0i64), upper]));
    }
    let vectors = with_columns(f, &packed, kept)?;
    Ok(Outputs::all([product(f, &vectors, &factors)?, upper]))
}

/// `[…, m, n]` with its first `count` columns, or zeros beside it.
fn with_columns(f: &mut Func, x: &Value, count: i64) -> Result<Value> {
    let axis = x.rank() - 1;
    let columns = x.dim(axis);
    if count <= columns {
        return f.slice_axis(x, axis, 0, count);
    }
    let zero = f.constant(x.dtype(), &[], 0i64);
    let none = vec![0; x.rank()];
    let mut more = none.clone();
    more[axis] = count - columns;
    f.pad(x, &zero, &none, &more, &none)
}

/// `other` times the whole product of the reflections `self […, m, k]` with factors `input2 […, k]`: `Q·C`, `C·Q`, or with `Qᴴ`.
fn ormqr(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (packed, factors, other) = (call.tensor("self")?, call.tensor("input2")?, call.tensor("input3")?);
    let fail = |message: String| Error::runtime(format!("torch.ormqr: {message}"));
    let left = call.flag("left")?;
    ensure(packed.rank() >= 2 && other.rank() >= 2, || {
        fail("input and other must have at least 2 dimensions.".into())
    })?;
    let size = other.dim(if left { other.rank() - 2 } else { other.rank() - 1 });
    let (rows, count) = (
        packed.dim(packed.rank() - 2),
        factors.dims().last().copied().unwrap_or(0),
    );
    ensure(rows == size && count <= size, || {
        let side = if left { "other.shape[-2]" } else { "other.shape[-1]" };
        fail(format!(
            "{side} must be greater than or equal to tau.shape[-1] and equal to input.shape[-2]"
        ))
    })?;
    ensure(
        packed.dtype() == factors.dtype() && packed.dtype() == other.dtype(),
        || fail("input, tau and other must have the same dtype".into()),
    )?;
    ensure(
        packed.dtype().is_inexact() && packed.dtype().opmath() == packed.dtype(),
        || not_implemented_for("ormqr_cpu", packed.dtype()),
    )?;
    if other.numel() == 0 || count == 0 {
        return Ok(other.value.clone().into());
    }
    let vectors = with_columns(f, packed, count)?;
    let vectors = with_columns(f, &vectors, rows)?;
    let whole = product(f, &vectors, factors)?;
    let whole = if call.flag("transpose")? {
        adjoint(f, &whole)?
    } else {
        whole
    };
    let dtype = other.dtype();
    Ok(if left {
        f.matmul(&whole, other, dtype)?
    } else {
        f.matmul(other, &whole, dtype)?
    }
    .into())
}

/// LAPACK's packed form.
fn geqrf(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    ensure(x.rank() >= 2, || {
        Error::runtime("torch.geqrf: input must have at least 2 dimensions.")
    })?;
    ensure(x.dtype().is_inexact() && x.dtype().opmath() == x.dtype(), || {
        not_implemented_for("geqrf_cpu", x.dtype())
    })?;
    if x.numel() == 0 {
        let mut dims = x.dims()[..x.rank() - 2].to_vec();
        dims.push(x.dim(x.rank() - 2).min(x.dim(x.rank() - 1)));
        return Ok(Outputs::all([x.value.clone(), f.constant(x.dtype(), &dims, 0i64)]));
    }
    let (packed, factors) = reflections(f, x)?;
    Ok(Outputs::all([packed, factors]))
}

/// `input […, m, n]`, `tau […, k]` → `[…, m, n]`: the first `n` columns of the reflections' product.
fn linalg_householder_product(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (input, factors) = (call.tensor("input")?, call.tensor("tau")?);
    let name = "torch.linalg.householder_product";
    let fail = |message: String| Error::runtime(format!("{name}: {message}"));
    ensure(input.rank() >= 2, || {
        fail("input must have at least 2 dimensions.".into())
    })?;
    let (rows, columns) = (input.dim(input.rank() - 2), input.dim(input.rank() - 1));
    let count = factors.dims().last().copied().unwrap_or(0);
    ensure(rows >= columns, || {
        fail("input.shape[-2] must be greater than or equal to input.shape[-1]".into())
    })?;
    ensure(columns >= count, || {
        fail("input.shape[-1] must be greater than or equal to tau.shape[-1]".into())
    })?;
    ensure(
        factors.rank() + 1 == input.rank() && factors.dims()[..factors.rank() - 1] == input.dims()[..input.rank() - 2],
        || {
            fail(format!(
                "Expected tau to have the batch dims of input, got {:?} and {:?}",
                factors.dims(),
                input.dims()
            ))
        },
    )?;
    ensure(input.dtype() == factors.dtype(), || {
        let (own, other) = (scalar_type(factors.dtype()), scalar_type(input.dtype()));
        fail(format!("tau dtype {own} does not match input dtype {other}"))
    })?;
    ensure(
        input.dtype().is_inexact() && input.dtype().opmath() == input.dtype(),
        || not_implemented_for("orgqr_cpu", input.dtype()),
    )?;
    if input.numel() == 0 || count == 0 {
        let ones = f.full_like(input, 1i64);
        let lower = keep_triangle(f, &ones, false, 0)?;
        return Ok(keep_triangle(f, &lower, true, 0)?.into());
    }
    Ok(product(f, input, factors)?.into())
}
