//! Cholesky factors and triangular systems.

use super::call::{Call, Outputs};
use super::common::{not_implemented_for, scalar_type};
use super::linalg::keep_triangle;
use super::table::OpDef;
use crate::dtype::DType;
use crate::error::{Error, Kind, Result, ensure};
use crate::shape::{self, Dims};
use crate::stablehlo::{Comparison, Func, Monoid, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("linalg_cholesky_ex", linalg_cholesky_ex),
    OpDef::new("cholesky", cholesky),
    OpDef::new("_cholesky_solve_helper", cholesky_solve_helper),
    OpDef::new("cholesky_inverse", cholesky_inverse),
    OpDef::new("linalg_solve_triangular", linalg_solve_triangular),
    OpDef::new("triangular_solve", triangular_solve),
];

pub(super) fn ensure_square(x: &Value, name: &str, argument: &str) -> Result<()> {
    ensure(x.rank() >= 2, || {
        Error::runtime(format!(
            "{name}: The input tensor {argument} must have at least 2 dimensions."
        ))
    })?;
    let (rows, columns) = (x.dim(x.rank() - 2), x.dim(x.rank() - 1));
    ensure(rows == columns, || {
        Error::runtime(format!(
            "{name}: {argument} must be batches of square matrices, but they are {rows} by {columns} matrices"
        ))
    })
}

pub(super) fn ensure_supported(dtype: DType, name: &str, kernel: &str) -> Result<()> {
    ensure(dtype.is_inexact(), || {
        let got = scalar_type(dtype);
        Error::runtime(format!(
            "{name}: Expected a floating point or complex tensor as input. Got {got}"
        ))
    })?;
    ensure(dtype.opmath() == dtype, || not_implemented_for(kernel, dtype))
}

/// `[…, n, n]` → `L [… n, n]` with `L Lᴴ = self` (`upper`: `Uᴴ U`), and int32 `info […]`: 0, or the order of the leading minor that is not
/// positive definite; the factor is NaN then.
fn linalg_cholesky_ex(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let name = "linalg.cholesky";
    ensure_square(x, name, "A")?;
    ensure_supported(x.dtype(), name, "cholesky_cpu")?;
    let (factor, info) = factor(f, x, call.flag("upper")?)?;
    if call.flag("check_errors")? {
        check_factored(f, &info, "linalg.cholesky_ex")?;
    }
    Ok(Outputs::all([factor, info]))
}

/// As `linalg_cholesky_ex`; a matrix that is not positive definite is an error.
fn cholesky(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    ensure_square(x, "cholesky", "A")?;
    ensure_supported(x.dtype(), "cholesky", "cholesky_cpu")?;
    let (factor, info) = factor(f, x, call.flag("upper")?)?;
    check_factored(f, &info, "cholesky")?;
    Ok(factor.into())
}

fn check_factored(f: &mut Func, info: &Value, name: &str) -> Result<()> {
    let good = f.compare_const(Comparison::Eq, info, 0i64)?;
    let axes: Vec<usize> = (0..good.rank()).collect();
    let good = if axes.is_empty() {
        good
    } else {
        f.reduce(&good, Monoid::And, &axes)?
    };
    let message =
        format!("{name}: The factorization could not be completed because the input is not positive-definite");
    f.check(&good, Kind::Runtime, &message)
}

fn factor(f: &mut Func, x: &Value, upper: bool) -> Result<(Value, Value)> {
    let rank = x.rank();
    let batch = Dims::from_slice(&x.dims()[..rank - 2]);
    if x.numel() == 0 {
        return Ok((x.clone(), f.constant(DType::I32, &batch, 0i64)));
    }
    let factor = f.cholesky(x, !upper)?;
    let factor = keep_triangle(f, &factor, upper, 0)?;
    let nan = f.is_nan(&factor)?;
    let axes: Vec<usize> = (0..rank).collect();
    let failed = f.reduce(&nan, Monoid::Or, &axes)?;
    let info = f.if_else(
        &failed,
        |f| Ok(vec![first_bad_minor(f, x, upper)?]),
        |f| Ok(vec![f.constant(DType::I32, &batch, 0i64)]),
    )?;
    let info = info
        .into_iter()
        .next()
        .ok_or_else(|| Error::runtime("a branch returned no value"))?;
    Ok((factor, info))
}

/// LAPACK's `info`: elimination without roots, one pivot after the other, until one is not positive. Only run when the factor failed.
fn first_bad_minor(f: &mut Func, x: &Value, upper: bool) -> Result<Value> {
    let rank = x.rank();
    let size = x.dim(rank - 1);
    let batch = shape::numel(&x.dims()[..rank - 2]);
    let flat = f.reshape(x, &[batch, size, size])?;
    // Both triangles from the one that counts.
    let own = keep_triangle(f, &flat, upper, 0)?;
    let strict = keep_triangle(f, &flat, upper, if upper { 1 } else { -1 })?;
    let other = adjoint(f, &strict)?;
    let matrix = f.add(&own, &other)?;
    let step = f.constant(DType::I32, &[], 0i64);
    let info = f.constant(DType::I32, &[batch], 0i64);
    let results = f.while_loop(
        &[step, info, matrix],
        |f, carried| f.compare_const(Comparison::Lt, &carried[0], size),
        |f, carried| {
            let [step, info, matrix] = carried else {
                return Ok(Vec::new());
            };
            let zero = f.constant(DType::I32, &[], 0i64);
            let column = f.dynamic_slice(matrix, &[zero.clone(), zero.clone(), step.clone()], &[batch, size, 1])?;
            let row = f.dynamic_slice(matrix, &[zero.clone(), step.clone(), zero.clone()], &[batch, 1, size])?;
            let pivot = f.dynamic_slice(&column, &[zero.clone(), step.clone(), zero], &[batch, 1, 1])?;
            let real = if pivot.dtype().is_complex() {
                f.real(&pivot)?
            } else {
                pivot.clone()
            };
            let positive = f.compare_const(Comparison::Gt, &real, 0i64)?;
            let positive = f.reshape(&positive, &[batch])?;
            let one = f.constant(DType::I32, &[], 1i64);
            let next = f.add(step, &one)?;
            let order = f.broadcast_to(&next, &[batch])?;
            let not_yet = f.compare_const(Comparison::Eq, info, 0i64)?;
            let bad = f.not(&positive)?;
            let first = f.and(&not_yet, &bad)?;
            let info = f.select(&first, &order, info)?;
            let column = f.broadcast_to(&column, matrix.dims())?;
            let row = f.broadcast_to(&row, matrix.dims())?;
            let pivot = f.broadcast_to(&pivot, matrix.dims())?;
            let outer = f.mul(&column, &row)?;
            let outer = f.div(&outer, &pivot)?;
            let matrix = f.sub(matrix, &outer)?;
            Ok(vec![next, info, matrix])
        },
    )?;
    let info = results
        .into_iter()
        .nth(1)
        .ok_or_else(|| Error::runtime("a loop returned too few values"))?;
    f.reshape(&info, &x.dims()[..rank - 2])
}

/// The conjugate transpose of the last two axes.
pub(super) fn adjoint(f: &mut Func, x: &Value) -> Result<Value> {
    let rank = x.rank();
    let mut swapped: Vec<usize> = (0..rank).collect();
    swapped.swap(rank - 2, rank - 1);
    let transposed = f.transpose(x, &swapped)?;
    if !x.dtype().is_complex() {
        return Ok(transposed);
    }
    let (real, imaginary) = (f.real(&transposed)?, f.imag(&transposed)?);
    let imaginary = f.neg(&imaginary)?;
    f.complex(&real, &imaginary)
}

/// `[… n, k]` with `A Aᴴ X = self` for a factor `A` (`upper`: `Aᴴ A`); batch dims are equal already.
fn cholesky_solve_helper(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (right, factor) = (call.tensor("self")?, call.tensor("A")?);
    ensure_supported(right.dtype(), "cholesky_solve", "cholesky_solve_cpu")?;
    Ok(solve_factored(f, factor, right, call.flag("upper")?)?.into())
}

fn solve_factored(f: &mut Func, factor: &Value, right: &Value, upper: bool) -> Result<Value> {
    if right.numel() == 0 {
        return Ok(right.clone());
    }
    let (first, second) = if upper {
        ("ADJOINT", "NO_TRANSPOSE")
    } else {
        ("NO_TRANSPOSE", "ADJOINT")
    };
    let half = f.triangular_solve(factor, right, true, !upper, false, first)?;
    f.triangular_solve(factor, &half, true, !upper, false, second)
}

/// The inverse of the matrix whose factor is given.
fn cholesky_inverse(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("self")?;
    ensure_square(x, "cholesky_inverse", "A")?;
    ensure_supported(x.dtype(), "cholesky_inverse", "cholesky_inverse_cpu")?;
    let ones = f.full_like(x, 1i64);
    let lower = keep_triangle(f, &ones, false, 0)?;
    let identity = keep_triangle(f, &lower, true, 0)?;
    Ok(solve_factored(f, x, &identity, call.flag("upper")?)?.into())
}

/// `[…, m, n]` of both with their batch dims broadcast.
pub(super) fn broadcast_batches(f: &mut Func, left: &Value, right: &Value) -> Result<(Value, Value)> {
    let batch = shape::broadcast(&left.dims()[..left.rank() - 2], &right.dims()[..right.rank() - 2])?;
    let expanded = |x: &Value| {
        let mut dims = batch.clone();
        dims.extend_from_slice(&x.dims()[x.rank() - 2..]);
        dims
    };
    let (left_dims, right_dims) = (expanded(left), expanded(right));
    Ok((f.broadcast_to(left, &left_dims)?, f.broadcast_to(right, &right_dims)?))
}

/// `X` with `A X = B`, or `X A = B` without `left`; `A` is `self`, of which the other triangle is not read.
fn linalg_solve_triangular(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (a, b) = (call.tensor("self")?, call.tensor("B")?);
    let name = "linalg.solve_triangular";
    let left = call.flag("left")?;
    ensure_square(a, name, "A")?;
    ensure(b.rank() >= 2, || {
        Error::runtime(format!("{name}: The input tensor B must have at least 2 dimensions."))
    })?;
    let (rows, columns) = (b.dim(b.rank() - 2), b.dim(b.rank() - 1));
    let size = a.dim(a.rank() - 1);
    ensure(size == if left { rows } else { columns }, || {
        let equation = if left { "AX = B" } else { "XA = B" };
        Error::runtime(format!(
            "{name}: Incompatible shapes of A and B for the equation {equation} ({size}x{size} and {rows}x{columns})"
        ))
    })?;
    ensure(a.dtype().is_inexact() && a.dtype().opmath() == a.dtype(), || {
        not_implemented_for("triangular_solve_cpu", a.dtype())
    })?;
    let b = f.convert(b, a.dtype())?;
    let (a, b) = broadcast_batches(f, a, &b)?;
    let (lower, unit) = (!call.flag("upper")?, call.flag("unitriangular")?);
    Ok(solve(f, &a, &b, left, lower, unit, "NO_TRANSPOSE")?.into())
}

fn solve(f: &mut Func, a: &Value, b: &Value, left: bool, lower: bool, unit: bool, transpose: &str) -> Result<Value> {
    if b.numel() == 0 {
        Ok(b.clone())
    } else {
        f.triangular_solve(a, b, left, lower, unit, transpose)
    }
}

/// The older form: `X` with `A X = self`, and `A` with its batch dims broadcast.
fn triangular_solve(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (b, a) = (call.tensor("self")?, call.tensor("A")?);
    let name = "triangular_solve";
    ensure_square(a, name, "A")?;
    ensure(b.rank() >= 2, || {
        Error::runtime(format!("{name}: The input tensor b must have at least 2 dimensions."))
    })?;
    ensure(a.dim(a.rank() - 1) == b.dim(b.rank() - 2), || {
        let (size, rows, columns) = (a.dim(a.rank() - 1), b.dim(b.rank() - 2), b.dim(b.rank() - 1));
        Error::runtime(format!(
            "{name}: Incompatible matrix sizes: each A matrix is {size} by {size} but each b matrix is {rows} by {columns}"
        ))
    })?;
    ensure(a.dtype() == b.dtype(), || {
        Error::runtime(format!(
            "{name}: Expected b and A to have the same dtype, but found {} and {}",
            scalar_type(b.dtype()),
            scalar_type(a.dtype())
        ))
    })?;
    ensure_supported(a.dtype(), name, "triangular_solve_cpu")?;
    let (a, b) = broadcast_batches(f, a, b)?;
    let transpose = if call.flag("transpose")? {
        "TRANSPOSE"
    } else {
        "NO_TRANSPOSE"
    };
    let solution = solve(
        f,
        &a,
        &b,
        true,
        !call.flag("upper")?,
        call.flag("unitriangular")?,
        transpose,
    )?;
    Ok(Outputs::all([solution, a]))
}
