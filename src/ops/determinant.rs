//! Determinants, from LU factors. They stand under names of our own: `cpp_shim/linalg.cc` gives them the matrix or its transpose, depending
//! on strides that a lowering does not see, as PyTorch's gradients expect of the factors.

use super::call::{Call, Outputs};
use super::common::scalar_type;
use super::decomposition::ensure_square;
use super::lu::{Factors, ensure_factorable, factor_or_empty, flatten, identity_like, unflatten};
use super::table::OpDef;
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::shape::Dims;
use crate::stablehlo::{Binary, Comparison, Func, Monoid, Unary, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("_torch_tpu_det", determinant),
    OpDef::new("_torch_tpu_slogdet", logarithm_of_determinant),
];

/// A batch's factors, the diagonal of `U` spread over `[B, n, n]` as a mask, and the sign of the row exchanges `[B]`.
fn factored_square(f: &mut Func, call: &Call, name: &str) -> Result<(Factors, Value, Value, Dims)> {
    let x = call.tensor("A")?;
    ensure_square(x, name, "A")?;
    ensure(x.dtype().is_inexact(), || {
        let got = scalar_type(x.dtype());
        Error::runtime(format!(
            "{name}: Expected a floating point or complex tensor as input. Got {got}"
        ))
    })?;
    ensure_factorable(x.dtype())?;
    let (flat, batch) = flatten(f, x)?;
    let factors = factor_or_empty(f, &flat, true)?;
    let diagonal = identity_like(f, &flat)?;
    let diagonal = f.convert(&diagonal, DType::Bool)?;
    // A row that did not move was its own pivot.
    let places = f.iota(DType::I32, factors.pivots.dims(), 1)?;
    let one = f.full_like(&places, 1i64);
    let places = f.add(&places, &one)?;
    let moved = f.compare(Comparison::Ne, &places, &factors.pivots)?;
    let moves = f.convert(&moved, DType::I32)?;
    let moves = f.reduce(&moves, Monoid::Add, &[1])?;
    let odd = f.binary_const(Binary::And, &moves, 1i64)?;
    let odd = f.convert(&odd, DType::Bool)?;
    let plus = f.constant(x.dtype(), odd.dims(), 1i64);
    let minus = f.constant(x.dtype(), odd.dims(), -1i64);
    let sign = f.select(&odd, &minus, &plus)?;
    Ok((factors, diagonal, sign, batch))
}

/// The product of the diagonal of `x [B, n, n]`, times `sign [B]`.
fn diagonal_product(f: &mut Func, x: &Value, diagonal: &Value, sign: &Value) -> Result<Value> {
    let one = f.full_like(x, 1i64);
    let only = f.select(diagonal, x, &one)?;
    let product = f.reduce(&only, Monoid::Multiply, &[1, 2])?;
    f.mul(sign, &product)
}

/// `A […, n, n]` → its determinant, and the factors and `pivots`.
fn determinant(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (factors, diagonal, sign, batch) = factored_square(f, call, "linalg.det")?;
    let result = diagonal_product(f, &factors.packed, &diagonal, &sign)?;
    Ok(Outputs::all([
        f.reshape(&result, &batch)?,
        unflatten(f, &factors.packed, &batch)?,
        unflatten(f, &factors.pivots, &batch)?,
    ]))
}

/// `A […, n, n]` → the determinant's sign and the logarithm of its magnitude, and the factors and `pivots`.
fn logarithm_of_determinant(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (factors, diagonal, sign, batch) = factored_square(f, call, "linalg.slogdet")?;
    let signs = f.unary(Unary::Sign, &factors.packed)?;
    let sign = diagonal_product(f, &signs, &diagonal, &sign)?;
    let magnitude = f.unary(Unary::Abs, &factors.packed)?;
    let logarithms = f.unary(Unary::Log, &magnitude)?;
    let zero = f.full_like(&logarithms, 0i64);
    let only = f.select(&diagonal, &logarithms, &zero)?;
    let total = f.reduce(&only, Monoid::Add, &[1, 2])?;
    Ok(Outputs::all([
        f.reshape(&sign, &batch)?,
        f.reshape(&total, &batch)?,
        unflatten(f, &factors.packed, &batch)?,
        unflatten(f, &factors.pivots, &batch)?,
    ]))
}
