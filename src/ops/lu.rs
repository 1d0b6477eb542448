//! LU factors with partial pivoting, and what is solved with them.
//!
//! The elimination is a loop over the columns that updates whole matrices: XLA has no such operation on every backend (the custom call
//! `LuDecomposition` exists on TPUs only).

use super::call::{Call, Operand, Outputs};
use super::common::{not_implemented_for, scalar_type};
use super::decomposition::{adjoint, broadcast_batches, ensure_square};
use super::extremum::first_true;
use super::linalg::keep_triangle;
use super::table::OpDef;
use crate::dtype::DType;
use crate::error::{Error, Kind, Result, ensure};
use crate::shape::{self, Dims};
use crate::stablehlo::{Comparison, Func, Monoid, Unary, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("linalg_lu_factor_ex", linalg_lu_factor_ex),
    OpDef::new("linalg_lu", linalg_lu),
    OpDef::new("lu_unpack", lu_unpack),
    OpDef::new("linalg_lu_solve", linalg_lu_solve).precision(),
    OpDef::new("_linalg_solve_ex", linalg_solve_ex).precision(),
    OpDef::new("linalg_inv_ex", linalg_inv_ex).precision(),
];

/// A factored batch `[B, m, n]`: `L` below the diagonal and `U` on and above it, int32 row exchanges from 1 `[B, min(m, n)]`, int32 `[B]`
/// the first zero pivot from 1 or 0, and int32 `[B, m]`: which row of the matrix stands at each place.
pub(super) struct Factors {
    pub packed: Value,
    pub pivots: Value,
    pub info: Value,
    pub order: Value,
}

pub(super) fn ensure_factorable(dtype: DType) -> Result<()> {
    ensure(dtype.is_inexact() && dtype.opmath() == dtype, || {
        not_implemented_for("lu_cpu", dtype)
    })
}

/// `[…, m, n]` → `[B, m, n]` and the batch dims.
pub(super) fn flatten(f: &mut Func, x: &Value) -> Result<(Value, Dims)> {
    let rank = x.rank();
    let batch = Dims::from_slice(&x.dims()[..rank - 2]);
    let flat = f.reshape(x, &[shape::numel(&batch), x.dim(rank - 2), x.dim(rank - 1)])?;
    Ok((flat, batch))
}

/// `[B, rest…]` → `[batch…, rest…]`
pub(super) fn unflatten(f: &mut Func, x: &Value, batch: &[i64]) -> Result<Value> {
    let mut dims = batch.to_vec();
    dims.extend_from_slice(&x.dims()[1..]);
    f.reshape(x, &dims)
}

/// Gaussian elimination of `[B, m, n]`, not empty. Pivots are chosen by LAPACK's measure, |re| + |im|.
fn factor(f: &mut Func, x: &Value, pivoting: bool) -> Result<Factors> {
    let (batch, rows, columns) = (x.dim(0), x.dim(1), x.dim(2));
    let steps = rows.min(columns);
    let step = f.constant(DType::I32, &[], 0i64);
    let pivots = f.constant(DType::I32, &[batch, steps], 0i64);
    let info = f.constant(DType::I32, &[batch], 0i64);
    let order = f.iota(DType::I32, &[batch, rows, 1], 1)?;
    let carried = [step, x.clone(), pivots, info, order];
    let done = f.while_loop(
        &carried,
        |f, carried| f.compare_const(Comparison::Lt, &carried[0], steps),
        |f, carried| eliminate(f, carried, pivoting),
    )?;
    let [_, packed, pivots, info, order] = done.as_slice() else {
        return Err(Error::runtime("a loop returned too few values"));
    };
    let order = f.reshape(order, &[batch, rows])?;
    Ok(Factors {
        packed: packed.clone(),
        pivots: pivots.clone(),
        info: info.clone(),
        order,
    })
}

/// One column: exchange rows, divide by the pivot, subtract the outer product from what is below and right of it.
fn eliminate(f: &mut Func, carried: &[Value], pivoting: bool) -> Result<Vec<Value>> {
    let [step, matrix, pivots, info, order] = carried else {
        return Err(Error::runtime("a loop carries too few values"));
    };
    let (batch, rows, columns) = (matrix.dim(0), matrix.dim(1), matrix.dim(2));
    let zero = f.constant(DType::I32, &[], 0i64);
    let one = f.constant(DType::I32, &[], 1i64);
    let next = f.add(step, &one)?;
    let row_of = f.iota(DType::I32, &[batch, rows, 1], 1)?;
    let here = f.broadcast_to(step, row_of.dims())?;

    let column = f.dynamic_slice(matrix, &[zero.clone(), zero.clone(), step.clone()], &[batch, rows, 1])?;
    let pivot_row = if pivoting {
        let size = cabs1(f, &column)?;
        let candidate = f.compare(Comparison::Ge, &row_of, &here)?;
        let minus_one = f.full_like(&size, -1i64);
        let size = f.select(&candidate, &size, &minus_one)?;
        let largest = f.reduce_keep(&size, Monoid::Maximum, &[1])?;
        let largest = f.broadcast_to(&largest, size.dims())?;
        let equal = f.compare(Comparison::Eq, &size, &largest)?;
        let nan = f.is_nan(&size)?;
        let hit = f.or(&equal, &nan)?;
        let first = first_true(f, &hit, 1)?;
        f.convert(&first, DType::I32)?
    } else {
        f.broadcast_to(step, &[batch, 1, 1])?
    };
    let ones = f.full_like(&pivot_row, 1i64);
    let chosen = f.add(&pivot_row, &ones)?;
    let chosen = f.reshape(&chosen, &[batch, 1])?;
    let pivots = f.dynamic_update_slice(pivots, &chosen, &[zero.clone(), step.clone()])?;

    let pivot_here = f.broadcast_to(&pivot_row, row_of.dims())?;
    let is_pivot = f.compare(Comparison::Eq, &row_of, &pivot_here)?;
    let is_here = f.compare(Comparison::Eq, &row_of, &here)?;
    let matrix = exchange(f, matrix, step, &is_pivot, &is_here)?;
    let order = exchange(f, order, step, &is_pivot, &is_here)?;

    let column = f.dynamic_slice(&matrix, &[zero.clone(), zero.clone(), step.clone()], &[batch, rows, 1])?;
    let pivot_line = f.dynamic_slice(
        &matrix,
        &[zero.clone(), step.clone(), zero.clone()],
        &[batch, 1, columns],
    )?;
    let pivot = f.dynamic_slice(&column, &[zero.clone(), step.clone(), zero], &[batch, 1, 1])?;
    let nothing = f.full_like(&pivot, 0i64);
    let singular = f.compare(Comparison::Eq, &pivot, &nothing)?;
    let singular_flat = f.reshape(&singular, &[batch])?;
    let none_yet = f.compare_const(Comparison::Eq, info, 0i64)?;
    let first = f.and(&singular_flat, &none_yet)?;
    let number = f.broadcast_to(&next, &[batch])?;
    let info = f.select(&first, &number, info)?;

    // A zero pivot leaves its column, which is zero, as it is.
    let unit = f.full_like(&pivot, 1i64);
    let divisor = f.select(&singular, &unit, &pivot)?;
    let divisor = f.broadcast_to(&divisor, column.dims())?;
    let multipliers = f.div(&column, &divisor)?;
    let below = f.compare(Comparison::Gt, &row_of, &here)?;
    let multipliers = f.select(&below, &multipliers, &column)?;

    let dims = matrix.dims().to_vec();
    let column_of = f.iota(DType::I32, &dims, 2)?;
    let here = f.broadcast_to(step, &dims)?;
    let right = f.compare(Comparison::Gt, &column_of, &here)?;
    let own_column = f.compare(Comparison::Eq, &column_of, &here)?;
    let below = f.broadcast_to(&below, &dims)?;
    let multipliers = f.broadcast_to(&multipliers, &dims)?;
    let pivot_line = f.broadcast_to(&pivot_line, &dims)?;
    let outer = f.mul(&multipliers, &pivot_line)?;
    let reduced = f.sub(&matrix, &outer)?;
    let rest = f.and(&below, &right)?;
    let updated = f.select(&rest, &reduced, &matrix)?;
    let updated = f.select(&own_column, &multipliers, &updated)?;
    Ok(vec![next, updated, pivots, info, order])
}

/// |re| + |im|
fn cabs1(f: &mut Func, x: &Value) -> Result<Value> {
    if !x.dtype().is_complex() {
        return f.unary(Unary::Abs, x);
    }
    let (real, imaginary) = (f.real(x)?, f.imag(x)?);
    let (real, imaginary) = (f.unary(Unary::Abs, &real)?, f.unary(Unary::Abs, &imaginary)?);
    f.add(&real, &imaginary)
}

/// The rows `step` and the marked one of `x [B, m, n]` change places.
fn exchange(f: &mut Func, x: &Value, step: &Value, is_pivot: &Value, is_here: &Value) -> Result<Value> {
    let (batch, columns) = (x.dim(0), x.dim(2));
    let zero = f.constant(DType::I32, &[], 0i64);
    let here = f.dynamic_slice(x, &[zero.clone(), step.clone(), zero], &[batch, 1, columns])?;
    let is_pivot = f.broadcast_to(is_pivot, x.dims())?;
    let is_here = f.broadcast_to(is_here, x.dims())?;
    let none = f.full_like(x, 0i64);
    let only = f.select(&is_pivot, x, &none)?;
    let pivot = f.reduce_keep(&only, Monoid::Add, &[1])?;
    let pivot = f.broadcast_to(&pivot, x.dims())?;
    let here = f.broadcast_to(&here, x.dims())?;
    let moved = f.select(&is_pivot, &here, x)?;
    f.select(&is_here, &pivot, &moved)
}

/// The factors of an empty matrix: nothing was exchanged.
pub(super) fn factor_or_empty(f: &mut Func, x: &Value, pivoting: bool) -> Result<Factors> {
    let (batch, rows, columns) = (x.dim(0), x.dim(1), x.dim(2));
    if x.numel() > 0 {
        return factor(f, x, pivoting);
    }
    let steps = rows.min(columns);
    let pivots = f.constant(DType::I32, &[batch, steps], 0i64);
    let info = f.constant(DType::I32, &[batch], 0i64);
    let order = f.iota(DType::I32, &[batch, rows], 1)?;
    Ok(Factors {
        packed: x.clone(),
        pivots,
        info,
        order,
    })
}

/// `A […, m, n]` → packed factors, `pivots […, min(m, n)]`, `info […]`.
fn linalg_lu_factor_ex(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("A")?;
    ensure(x.rank() >= 2, || {
        Error::runtime(format!(
            "torch.lu_factor: Expected tensor with 2 or more dimensions. Got size: {:?} instead",
            x.dims()
        ))
    })?;
    ensure_factorable(x.dtype())?;
    let (flat, batch) = flatten(f, x)?;
    let factors = factor_or_empty(f, &flat, call.flag("pivot")?)?;
    if call.flag("check_errors")? {
        let message = "torch.linalg.lu_factor_ex: U has a zero on its diagonal and using it on lu_solve would result in a division by zero. If you still want to perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)";
        check(f, &factors.info, message)?;
    }
    Ok(Outputs::all([
        unflatten(f, &factors.packed, &batch)?,
        unflatten(f, &factors.pivots, &batch)?,
        f.reshape(&factors.info, &batch)?,
    ]))
}

fn check(f: &mut Func, info: &Value, message: &str) -> Result<()> {
    let good = f.compare_const(Comparison::Eq, info, 0i64)?;
    let good = f.reduce(&good, Monoid::And, &[0])?;
    f.check(&good, Kind::Runtime, message)
}

/// `[B, m]` rows at each place → the permutation matrix `P [B, m, m]` of `A = P L U`: column `i` has its one in the row that stands at `i`.
fn permutation(f: &mut Func, order: &Value, dtype: DType) -> Result<Value> {
    let (batch, rows) = (order.dim(0), order.dim(1));
    let dims = [batch, rows, rows];
    let row = f.iota(DType::I32, &dims, 1)?;
    let standing = f.broadcast_in_dim(order, &dims, &[0, 2])?;
    let hit = f.compare(Comparison::Eq, &row, &standing)?;
    f.convert(&hit, dtype)
}

/// Packed `[B, m, n]` → `L [B, m, k]` with ones on its diagonal and `U [B, k, n]`.
fn unpack(f: &mut Func, packed: &Value) -> Result<(Value, Value)> {
    let size = packed.dim(1).min(packed.dim(2));
    let lower = f.slice_axis(packed, 2, 0, size)?;
    let lower = unit_lower(f, &lower)?;
    let upper = f.slice_axis(packed, 1, 0, size)?;
    let upper = keep_triangle(f, &upper, true, 0)?;
    Ok((lower, upper))
}

fn unit_lower(f: &mut Func, x: &Value) -> Result<Value> {
    let strict = keep_triangle(f, x, false, -1)?;
    let diagonal = identity_like(f, x)?;
    f.add(&strict, &diagonal)
}

pub(super) fn identity_like(f: &mut Func, x: &Value) -> Result<Value> {
    let ones = f.full_like(x, 1i64);
    let lower = keep_triangle(f, &ones, false, 0)?;
    keep_triangle(f, &lower, true, 0)
}

/// `A […, m, n]` → `P`, `L`, `U`. Without pivoting `P` is empty.
fn linalg_lu(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("A")?;
    ensure(x.rank() >= 2, || {
        Error::runtime(format!(
            "linalg.lu: Expected tensor with 2 or more dimensions. Got size: {:?} instead",
            x.dims()
        ))
    })?;
    ensure_factorable(x.dtype())?;
    let pivoting = call.flag("pivot")?;
    let (flat, batch) = flatten(f, x)?;
    let factors = factor_or_empty(f, &flat, pivoting)?;
    let permutation = if pivoting {
        let square = permutation(f, &factors.order, x.dtype())?;
        unflatten(f, &square, &batch)?
    } else {
        f.constant(x.dtype(), &[0], 0i64)
    };
    let (lower, upper) = unpack(f, &factors.packed)?;
    Ok(Outputs::all([
        permutation,
        unflatten(f, &lower, &batch)?,
        unflatten(f, &upper, &batch)?,
    ]))
}

/// Row exchanges `[B, k]` from 1 → int32 `[B, m]`: which row stands at each place.
fn order_of(f: &mut Func, pivots: &Value, rows: i64) -> Result<Value> {
    let (batch, steps) = (pivots.dim(0), pivots.dim(1));
    let order = f.iota(DType::I32, &[batch, rows, 1], 1)?;
    if order.numel() == 0 || steps == 0 {
        return f.reshape(&order, &[batch, rows]);
    }
    let step = f.constant(DType::I32, &[], 0i64);
    let done = f.while_loop(
        &[step, order, pivots.clone()],
        |f, carried| f.compare_const(Comparison::Lt, &carried[0], steps),
        |f, carried| {
            let [step, order, pivots] = carried else {
                return Err(Error::runtime("a loop carries too few values"));
            };
            let zero = f.constant(DType::I32, &[], 0i64);
            let one = f.constant(DType::I32, &[], 1i64);
            let pivot = f.dynamic_slice(pivots, &[zero, step.clone()], &[batch, 1])?;
            let first = f.full_like(&pivot, 1i64);
            let pivot = f.sub(&pivot, &first)?;
            let pivot = f.broadcast_in_dim(&pivot, order.dims(), &[0, 2])?;
            let row_of = f.iota(DType::I32, order.dims(), 1)?;
            let here = f.broadcast_to(step, order.dims())?;
            let is_pivot = f.compare(Comparison::Eq, &row_of, &pivot)?;
            let is_here = f.compare(Comparison::Eq, &row_of, &here)?;
            let order = exchange(f, order, step, &is_pivot, &is_here)?;
            Ok(vec![f.add(step, &one)?, order, pivots.clone()])
        },
    )?;
    let order = done
        .get(1)
        .ok_or_else(|| Error::runtime("a loop returned too few values"))?;
    f.reshape(order, &[batch, rows])
}

/// Packed factors and row exchanges → `P`, `L`, `U`; what is not asked for is empty.
fn lu_unpack(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (packed, pivots) = (call.tensor("LU_data")?, call.tensor("LU_pivots")?);
    let (data, permuted) = (call.flag("unpack_data")?, call.flag("unpack_pivots")?);
    ensure(packed.rank() >= 2, || {
        Error::runtime(format!(
            "torch.lu_unpack: Expected tensor with 2 or more dimensions. Got size: {:?} instead",
            packed.dims()
        ))
    })?;
    ensure(!permuted || pivots.dtype() == DType::I32, || {
        Error::runtime("torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.")
    })?;
    let (flat, batch) = flatten(f, packed)?;
    let empty = f.constant(packed.dtype(), &[0], 0i64);
    let mut outputs = vec![empty.clone(); 3];
    if permuted {
        let steps = pivots.dims().last().copied().unwrap_or(0);
        let pivots = f.reshape(pivots, &[flat.dim(0), steps])?;
        let order = order_of(f, &pivots, flat.dim(1))?;
        let square = permutation(f, &order, packed.dtype())?;
        outputs[0] = unflatten(f, &square, &batch)?;
    }
    if data {
        let (lower, upper) = unpack(f, &flat)?;
        outputs[1] = unflatten(f, &lower, &batch)?;
        outputs[2] = unflatten(f, &upper, &batch)?;
    }
    Ok(Outputs::all(outputs))
}

/// Solves `A X = B` (`adjoint`: `Aᴴ X = B`) for flat batches `[B, n, n]` and `[B, n, k]`.
fn solve(f: &mut Func, packed: &Value, order: &Value, right: &Value, adjoint_system: bool) -> Result<Value> {
    if right.numel() == 0 {
        return Ok(right.clone());
    }
    let matrix = permutation(f, order, packed.dtype())?;
    if adjoint_system {
        // Aᴴ = Uᴴ Lᴴ Pᵀ
        let half = f.triangular_solve(packed, right, true, false, false, "ADJOINT")?;
        let rest = f.triangular_solve(packed, &half, true, true, true, "ADJOINT")?;
        f.matmul(&matrix, &rest, packed.dtype())
    } else {
        let transposed = f.transpose(&matrix, &[0, 2, 1])?;
        let permuted = f.matmul(&transposed, right, packed.dtype())?;
        let half = f.triangular_solve(packed, &permuted, true, true, true, "NO_TRANSPOSE")?;
        f.triangular_solve(packed, &half, true, false, false, "NO_TRANSPOSE")
    }
}

/// `X A = B` as `Aᴴ Xᴴ = Bᴴ` where `left` is false.
fn solve_side(
    f: &mut Func,
    packed: &Value,
    order: &Value,
    right: &Value,
    left: bool,
    adjoint_system: bool,
) -> Result<Value> {
    if left {
        return solve(f, packed, order, right, adjoint_system);
    }
    let turned = adjoint(f, right)?;
    let solution = solve(f, packed, order, &turned, !adjoint_system)?;
    adjoint(f, &solution)
}

fn ensure_compatible(name: &str, a: &Value, b: &Value, left: bool) -> Result<()> {
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
    })
}

fn linalg_lu_solve(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (packed, pivots, right) = (call.tensor("LU")?, call.tensor("pivots")?, call.tensor("B")?);
    let name = "linalg.lu_solve";
    let left = call.flag("left")?;
    ensure(pivots.dtype() == DType::I32, || {
        Error::runtime(format!("{name}: pivots should be a Tensor of scalar type torch.int32"))
    })?;
    ensure_square(packed, name, "LU")?;
    ensure_same(name, packed, right)?;
    ensure_factorable(packed.dtype())?;
    ensure_compatible(name, packed, right, left)?;
    let size = packed.dim(packed.rank() - 1);
    let flat_pivots = f.reshape(pivots, &[pivots.numel() / size.max(1), size])?;
    let order = order_of(f, &flat_pivots, size)?;
    let order = unflatten(f, &order, &pivots.dims()[..pivots.rank() - 1])?;
    solve_broadcast(f, packed, &order, right, left, call.flag("adjoint")?).map(Outputs::one)
}

/// `packed […, n, n]`, `order […, n]`, `right […, n, k]` with their batch dims broadcast.
fn solve_broadcast(
    f: &mut Func,
    packed: &Value,
    order: &Value,
    right: &Value,
    left: bool,
    adjoint_system: bool,
) -> Result<Value> {
    let (packed, right) = broadcast_batches(f, packed, right)?;
    let mut order_dims = packed.dims()[..packed.rank() - 1].to_vec();
    if let (Some(last), Some(size)) = (order_dims.last_mut(), order.dims().last()) {
        *last = *size;
    }
    let order = f.broadcast_to(order, &order_dims)?;
    let (packed, _) = flatten(f, &packed)?;
    let (right, batch) = flatten(f, &right)?;
    let order = f.reshape(&order, &[packed.dim(0), packed.dim(1)])?;
    let solution = solve_side(f, &packed, &order, &right, left, adjoint_system)?;
    unflatten(f, &solution, &batch)
}

fn ensure_same(name: &str, a: &Operand, b: &Operand) -> Result<()> {
    ensure(a.dtype() == b.dtype(), || {
        Error::runtime(format!(
            "{name}: Expected A and B to have the same dtype, but found A of type {} and B of type {} instead",
            scalar_type(a.dtype()),
            scalar_type(b.dtype())
        ))
    })
}

/// `A […, n, n]` and `B […, n, k]`, or vectors `[…, n]` → the solution, and the factors of `A`, `pivots`, `info`.
fn linalg_solve_ex(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (a, b) = (call.tensor("A")?, call.tensor("B")?);
    let name = "linalg.solve";
    let left = call.flag("left")?;
    ensure_square(a, name, "A")?;
    ensure_same(name, a, b)?;
    ensure_factorable(a.dtype())?;
    // A vector, or a batch of vectors with exactly A's batch dims.
    let vector = b.rank() == 1 || (a.rank() - 1 == b.rank() && b.dims() == &a.dims()[..a.rank() - 1]);
    ensure(left || !vector, || {
        Error::runtime(format!(
            "{name}: Vector broadcasting of the left hand side is not supported for left=False. In this case linalg.solve is equivalent to B / A.squeeze(-1)"
        ))
    })?;
    let right = if vector {
        f.unsqueeze(b, &[b.rank()])?
    } else {
        b.value.clone()
    };
    ensure_compatible(name, a, &right, left)?;
    let (flat, batch) = flatten(f, a)?;
    let factors = factor_or_empty(f, &flat, true)?;
    if call.flag("check_errors")? {
        check(
            f,
            &factors.info,
            "torch.linalg.solve_ex: The solver failed because the input matrix is singular.",
        )?;
    }
    let packed = unflatten(f, &factors.packed, &batch)?;
    let order = unflatten(f, &factors.order, &batch)?;
    let solution = solve_broadcast(f, &packed, &order, &right, left, false)?;
    let solution = if vector {
        f.squeeze(&solution, &[solution.rank() - 1])?
    } else {
        solution
    };
    let pivots = unflatten(f, &factors.pivots, &batch)?;
    Ok(Outputs::all([
        solution,
        packed,
        pivots,
        f.reshape(&factors.info, &batch)?,
    ]))
}

/// `A […, n, n]` → its inverse and `info […]`.
fn linalg_inv_ex(f: &mut Func, call: &Call) -> Result<Outputs> {
    let x = call.tensor("A")?;
    ensure_square(x, "linalg.inv", "A")?;
    ensure(x.dtype().is_inexact(), || {
        let got = scalar_type(x.dtype());
        Error::runtime(format!(
            "linalg.inv: Expected a floating point or complex tensor as input. Got {got}"
        ))
    })?;
    ensure_factorable(x.dtype())?;
    let (flat, batch) = flatten(f, x)?;
    let factors = factor_or_empty(f, &flat, true)?;
    if call.flag("check_errors")? {
        let message = "linalg.inv_ex: A diagonal element is zero, the inversion could not be completed because the input matrix is singular.";
        check(f, &factors.info, message)?;
    }
    let identity = identity_like(f, &flat)?;
    let inverse = solve(f, &factors.packed, &factors.order, &identity, false)?;
    Ok(Outputs::all([
        unflatten(f, &inverse, &batch)?,
        f.reshape(&factors.info, &batch)?,
    ]))
}
