//! Products of matrices and vectors, the cross product, triangles of a matrix.
//!
//! float16 and bfloat16 products are accumulated in float32 and rounded once. `beta` and `alpha` are operands: a factor of 0 drops its
//! term altogether, NaN included, as BLAS and PyTorch have it.

use super::call::{Call, Operand, Outputs};
use super::common::{self, not_implemented_for, scalar_type};
use super::integer_product;
use super::table::OpDef;
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::stablehlo::{Comparison, DotDims, Func, Unary, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("mm", mm).precision(),
    OpDef::new("_int_mm", int_mm),
    OpDef::new("bmm", bmm).precision(),
    OpDef::new("mv", mv).precision(),
    OpDef::new("dot", |f, call| dot(f, call, "dot", "tensor")).precision(),
    OpDef::new("vdot", |f, call| dot(f, call, "vdot", "other")).precision(),
    OpDef::new("addmm", addmm).precision(),
    OpDef::new("_addmm_activation", addmm_activation).precision(),
    OpDef::new("baddbmm", baddbmm).precision(),
    OpDef::new("addbmm", addbmm).precision(),
    OpDef::new("addmv", addmv).precision(),
    OpDef::new("addr", addr),
    OpDef::new("linalg_cross", linalg_cross),
    OpDef::new("triu", |f, call| triangle(f, call, "triu")),
    OpDef::new("tril", |f, call| triangle(f, call, "tril")),
];

/// A dtype as C++ prints its type in some messages.
fn type_meta(dtype: DType) -> &'static str {
    match dtype {
        DType::F16 => "c10::Half",
        DType::BF16 => "c10::BFloat16",
        DType::F32 => "float",
        DType::F64 => "double",
        DType::C64 => "c10::complex<float>",
        DType::C128 => "c10::complex<double>",
        DType::I64 => "long",
        DType::I32 => "int",
        DType::I16 => "short",
        DType::I8 => "signed char",
        DType::U8 => "unsigned char",
        DType::Bool => "bool",
        other => other.name(),
    }
}

fn ensure_number(dtype: DType, kernel: &str) -> Result<()> {
    ensure(!dtype.is_bool(), || not_implemented_for(kernel, dtype))
}

/// `left [… M, K] · right [… K, N]` in the accumulator's dtype.
fn product(f: &mut Func, left: &Value, right: &Value) -> Result<Value> {
    let batch: Vec<usize> = (0..left.rank().saturating_sub(2)).collect();
    let dims = DotDims {
        left_contract: vec![batch.len() + 1],
        right_contract: vec![batch.len()],
        left_batch: batch.clone(),
        right_batch: batch,
    };
    contract(f, left, right, &dims)
}

/// As `product`, over the given axes.
fn contract(f: &mut Func, left: &Value, right: &Value, dims: &DotDims) -> Result<Value> {
    if matches!(left.dtype(), DType::I64 | DType::U64) {
        return integer_product::contract(f, left, right, dims);
    }
    let (left, right, out) = accumulated(f, left, right)?;
    f.dot_general(&left, &right, dims, out)
}

/// The operands, and the dtype their products are added up in: opmath for floats, int32 for narrower integers. Both wrap alike, but XLA:CPU
/// multiplies int8 matrices into int32 as fast as float32 ones.
fn accumulated(f: &mut Func, left: &Value, right: &Value) -> Result<(Value, Value, DType)> {
    match left.dtype() {
        DType::I8 => Ok((left.clone(), right.clone(), DType::I32)),
        DType::U8 | DType::I16 | DType::U16 => {
            Ok((f.convert(left, DType::I32)?, f.convert(right, DType::I32)?, DType::I32))
        }
        dtype => Ok((left.clone(), right.clone(), dtype.opmath())),
    }
}

/// `beta · x + alpha · product`, `x` broadcast to the product's dims; a factor of 0 drops its term.
fn scaled_sum(f: &mut Func, call: &Call, x: &Value, product: &Value) -> Result<Value> {
    let wide = f.convert(x, product.dtype())?;
    let wide = expand(f, &wide, product.dims())?;
    let own = scaled(f, call.tensor("beta")?, &wide)?;
    let product = scaled(f, call.tensor("alpha")?, product)?;
    f.add(&own, &product)
}

fn scaled(f: &mut Func, factor: &Value, x: &Value) -> Result<Value> {
    let factor = f.convert(factor, x.dtype())?;
    let zero = f.full_like(&factor, 0i64);
    let is_zero = f.compare(Comparison::Eq, &factor, &zero)?;
    let factor = f.broadcast_to(&factor, x.dims())?;
    let scaled = f.mul(&factor, x)?;
    let zeros = f.full_like(x, 0i64);
    f.select(&is_zero, &zeros, &scaled)
}

/// `expand`, with PyTorch's messages.
fn expand(f: &mut Func, x: &Value, dims: &[i64]) -> Result<Value> {
    ensure(x.rank() <= dims.len(), || {
        Error::runtime(format!(
            "expand(torch.{}Tensor{{{:?}}}, size={dims:?}): the number of sizes provided ({}) must be greater or equal to the number of dimensions in the tensor ({})",
            scalar_type(x.dtype()),
            x.dims(),
            dims.len(),
            x.rank()
        ))
    })?;
    let offset = dims.len() - x.rank();
    let wrong = x
        .dims()
        .iter()
        .enumerate()
        .find(|&(axis, &dim)| dim != 1 && dim != dims[axis + offset]);
    if let Some((axis, &dim)) = wrong {
        return Err(Error::runtime(format!(
            "The expanded size of the tensor ({}) must match the existing size ({dim}) at non-singleton dimension {}.  Target sizes: {dims:?}.  Tensor sizes: {:?}",
            dims[axis + offset],
            axis + offset,
            x.dims()
        )));
    }
    f.broadcast_to(x, dims)
}

fn ensure_multipliable(left: &Value, right: &Value) -> Result<()> {
    ensure(left.dim(1) == right.dim(0), || {
        Error::runtime(format!(
            "mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})",
            left.dim(0),
            left.dim(1),
            right.dim(0),
            right.dim(1)
        ))
    })?;
    ensure(left.dtype() == right.dtype(), || {
        Error::runtime(format!(
            "expected m1 and m2 to have the same dtype, but got: {} != {}",
            type_meta(left.dtype()),
            type_meta(right.dtype())
        ))
    })?;
    ensure_number(left.dtype(), "addmm_impl_cpu_")
}

/// `[M, K] · [K, N] → [M, N]`; `out_dtype` where the overload has it.
fn mm(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (left, right) = (call.tensor("self")?, call.tensor("mat2")?);
    ensure(left.rank() == 2, || Error::runtime("self must be a matrix"))?;
    ensure(right.rank() == 2, || Error::runtime("mat2 must be a matrix"))?;
    ensure_multipliable(left, right)?;
    let product = product(f, left, right)?;
    Ok(
        f.convert(&product, call.dtype_opt("out_dtype")?.unwrap_or(left.dtype()))?
            .into(),
    )
}

/// int8 (uint8) `[M, K] · [K, N] → [M, N]` int32.
fn int_mm(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (left, right) = (call.tensor("self")?, call.tensor("mat2")?);
    for (name, x) in [("self", left), ("mat2", right)] {
        ensure(x.rank() == 2, || {
            Error::runtime(format!("Expected {name} to be of dimension 2 but got {}", x.rank()))
        })?;
        ensure(matches!(x.dtype(), DType::I8 | DType::U8), || {
            Error::runtime(format!(
                "int_mm: Expected {name} dtype to be int8 or uint8 but got {}",
                type_meta(x.dtype())
            ))
        })?;
    }
    ensure(left.dim(1) == right.dim(0), || {
        Error::runtime(format!(
            "self.size(1) needs to match mat2.size(0) but got {} and {}",
            left.dim(1),
            right.dim(0)
        ))
    })?;
    if left.dtype() == right.dtype() {
        return Ok(product(f, left, right)?.into());
    }
    let left = f.convert(left, DType::I32)?;
    let right = f.convert(right, DType::I32)?;
    Ok(f.matmul(&left, &right, DType::I32)?.into())
}

fn ensure_batches(left: &Operand, right: &Operand) -> Result<()> {
    ensure(left.rank() == 3, || Error::runtime("batch1 must be a 3D tensor"))?;
    ensure(right.rank() == 3, || Error::runtime("batch2 must be a 3D tensor"))?;
    ensure(left.dim(0) == right.dim(0) && left.dim(2) == right.dim(1), || {
        Error::runtime(format!(
            "Expected size for first two dimensions of batch2 tensor to be: [{}, {}] but got: [{}, {}].",
            left.dim(0),
            left.dim(2),
            right.dim(0),
            right.dim(1)
        ))
    })?;
    ensure(left.dtype() == right.dtype(), || {
        Error::runtime(format!(
            "expected scalar type {} but found {}",
            scalar_type(left.dtype()),
            scalar_type(right.dtype())
        ))
    })
}

/// `[B, M, K] · [B, K, N] → [B, M, N]`.
fn bmm(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (left, right) = (call.tensor("self")?, call.tensor("mat2")?);
    ensure_batches(left, right)?;
    ensure_number(left.dtype(), "bmm")?;
    let product = product(f, left, right)?;
    Ok(
        f.convert(&product, call.dtype_opt("out_dtype")?.unwrap_or(left.dtype()))?
            .into(),
    )
}

/// `[M, K] · [K] → [M]`.
fn mv(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (matrix, vector) = (call.tensor("self")?, call.tensor("vec")?);
    ensure_matrix_vector(matrix, vector, 1, matrix.dims().first().copied().unwrap_or(1))?;
    ensure(matrix.dtype() == vector.dtype(), || {
        let (matrix, vector) = (scalar_type(matrix.dtype()), scalar_type(vector.dtype()));
        Error::runtime(format!(
            "addmv input tensors must have the same dtype, but got {vector}, {matrix}, and {vector}"
        ))
    })?;
    ensure_number(matrix.dtype(), "addmv_impl_cpu")?;
    let product = matrix_vector(f, matrix, vector)?;
    Ok(f.convert(&product, matrix.dtype())?.into())
}

fn ensure_matrix_vector(matrix: &Value, vector: &Value, own_rank: usize, own_size: i64) -> Result<()> {
    ensure(matrix.rank() == 2 && vector.rank() == 1 && own_rank <= 1, || {
        Error::runtime(format!(
            "vector + matrix @ vector expected, got {own_rank}, {}, {}",
            matrix.rank(),
            vector.rank()
        ))
    })?;
    ensure(
        matrix.dim(1) == vector.dim(0) && (own_size == matrix.dim(0) || own_size == 1),
        || {
            Error::runtime(format!(
                "size mismatch, got input ({own_size}), mat ({}x{}), vec ({})",
                matrix.dim(0),
                matrix.dim(1),
                vector.dim(0)
            ))
        },
    )
}

fn matrix_vector(f: &mut Func, matrix: &Value, vector: &Value) -> Result<Value> {
    let dims = DotDims {
        left_contract: vec![1],
        right_contract: vec![0],
        ..DotDims::default()
    };
    contract(f, matrix, vector, &dims)
}

/// `[N] · [N] → []`; `vdot` conjugates the left.
fn dot(f: &mut Func, call: &Call, name: &str, other: &str) -> Result<Outputs> {
    let (left, right) = (call.tensor("self")?, call.tensor(other)?);
    ensure(left.rank() == 1 && right.rank() == 1, || {
        Error::runtime(format!(
            "1D tensors expected, but got {}D and {}D tensors",
            left.rank(),
            right.rank()
        ))
    })?;
    ensure(left.dtype() == right.dtype(), || {
        let (left, right) = (scalar_type(left.dtype()), scalar_type(right.dtype()));
        Error::runtime(format!(
            "dot : expected both vectors to have same dtype, but found {left} and {right}"
        ))
    })?;
    ensure(left.dim(0) == right.dim(0), || {
        let (left, right) = (left.dim(0), right.dim(0));
        Error::runtime(format!(
            "inconsistent tensor size, expected tensor [{left}] and src [{right}] to have the same number of elements, but got {left} and {right} elements respectively"
        ))
    })?;
    ensure_number(left.dtype(), name)?;
    let conjugated = if name == "vdot" && left.dtype().is_complex() {
        let (real, imaginary) = (f.real(left)?, f.imag(left)?);
        let imaginary = f.neg(&imaginary)?;
        f.complex(&real, &imaginary)?
    } else {
        left.value.clone()
    };
    let dims = DotDims {
        left_contract: vec![0],
        right_contract: vec![0],
        ..DotDims::default()
    };
    let product = contract(f, &conjugated, right, &dims)?;
    Ok(f.convert(&product, left.dtype())?.into())
}

/// The checks of `addmm`, then `beta · self + alpha · mat1 · mat2` in the opmath dtype.
fn addmm_wide(f: &mut Func, call: &Call) -> Result<Value> {
    let (x, left, right) = (call.tensor("self")?, call.tensor("mat1")?, call.tensor("mat2")?);
    for (name, matrix) in [("mat1", left), ("mat2", right)] {
        ensure(matrix.rank() == 2, || {
            Error::runtime(format!("{name} must be a matrix, got {}-D tensor", matrix.rank()))
        })?;
    }
    ensure_multipliable(left, right)?;
    ensure_same(x, right, "mat2")?;
    let product = product(f, left, right)?;
    scaled_sum(f, call, x, &product)
}

fn ensure_same(x: &Value, other: &Value, name: &str) -> Result<()> {
    ensure(x.dtype() == other.dtype(), || {
        let (own, other) = (scalar_type(x.dtype()), scalar_type(other.dtype()));
        Error::runtime(format!(
            "self and {name} must have the same dtype, but got {own} and {other}"
        ))
    })
}

/// `self` broadcast to `[M, N]`, `mat1 [M, K]`, `mat2 [K, N]` → `[M, N]`.
fn addmm(f: &mut Func, call: &Call) -> Result<Outputs> {
    let sum = addmm_wide(f, call)?;
    let dtype = call.dtype_opt("out_dtype")?.unwrap_or(call.tensor("mat1")?.dtype());
    Ok(f.convert(&sum, dtype)?.into())
}

/// `addmm`, then ReLU or exact GELU (as the CPU; CUDA's epilogue is the tanh form).
fn addmm_activation(f: &mut Func, call: &Call) -> Result<Outputs> {
    let dtype = call.tensor("mat1")?.dtype();
    let sum = addmm_wide(f, call)?;
    // Rounded before the activation, since the CPU's are two steps.
    let rounded = f.convert(&sum, dtype)?;
    let x = f.convert(&rounded, dtype.opmath())?;
    let zero = f.full_like(&x, 0i64);
    let result = if call.flag("use_gelu")? {
        let half = f.full_like(&x, 0.5);
        let scale = f.full_like(&x, std::f64::consts::FRAC_1_SQRT_2);
        let scaled = f.mul(&x, &scale)?;
        let error = f.unary(Unary::Erf, &scaled)?;
        let one = f.full_like(&x, 1i64);
        let gate = f.add(&error, &one)?;
        let gate = f.mul(&gate, &half)?;
        f.mul(&x, &gate)?
    } else {
        f.max(&x, &zero)?
    };
    Ok(f.convert(&result, dtype)?.into())
}

/// `self` broadcast to `[B, M, N]`, `batch1 [B, M, K]`, `batch2 [B, K, N]` → `[B, M, N]`.
fn baddbmm(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (x, left, right) = (call.tensor("self")?, call.tensor("batch1")?, call.tensor("batch2")?);
    ensure_batches(left, right)?;
    ensure_number(left.dtype(), "baddbmm")?;
    ensure(x.dtype() == left.dtype(), || {
        let names = [x, left, right].map(|operand| type_meta(operand.dtype()));
        Error::runtime(format!(
            "Input dtypes must be the same, got: input {}, batch1: {}, batch2: {}",
            names[0], names[1], names[2]
        ))
    })?;
    let product = product(f, left, right)?;
    let sum = scaled_sum(f, call, x, &product)?;
    Ok(f.convert(&sum, call.dtype_opt("out_dtype")?.unwrap_or(left.dtype()))?
        .into())
}

/// `self` broadcast to `[M, N]`, `batch1 [B, M, K]`, `batch2 [B, K, N]` → `[M, N]`: the products are summed.
fn addbmm(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (x, left, right) = (call.tensor("self")?, call.tensor("batch1")?, call.tensor("batch2")?);
    ensure(left.rank() == 3, || Error::runtime("batch1 must be a 3D tensor"))?;
    ensure(right.rank() == 3, || Error::runtime("batch2 must be a 3D tensor"))?;
    ensure(left.dim(0) == right.dim(0), || {
        Error::runtime(format!(
            "batch1 and batch2 must have same number of batches, got {} and {}",
            left.dim(0),
            right.dim(0)
        ))
    })?;
    ensure(left.dim(2) == right.dim(1), || {
        Error::runtime(format!(
            "Incompatible matrix sizes for bmm ({}x{} and {}x{})",
            left.dim(1),
            left.dim(2),
            right.dim(1),
            right.dim(2)
        ))
    })?;
    ensure_same(x, right, "mat2")?;
    ensure_same(left, right, "mat2")?;
    ensure_number(left.dtype(), "addmm_impl_cpu_")?;
    let dims = DotDims {
        left_contract: vec![0, 2],
        right_contract: vec![0, 1],
        ..DotDims::default()
    };
    let product = contract(f, left, right, &dims)?;
    let sum = scaled_sum(f, call, x, &product)?;
    Ok(f.convert(&sum, left.dtype())?.into())
}

/// `self` broadcast to `[M]`, `mat [M, K]`, `vec [K]` → `[M]`.
fn addmv(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (x, matrix, vector) = (call.tensor("self")?, call.tensor("mat")?, call.tensor("vec")?);
    ensure_matrix_vector(matrix, vector, x.rank(), x.numel())?;
    ensure(x.dtype() == matrix.dtype() && matrix.dtype() == vector.dtype(), || {
        let names = [x, matrix, vector].map(|operand| scalar_type(operand.dtype()));
        Error::runtime(format!(
            "addmv input tensors must have the same dtype, but got {}, {}, and {}",
            names[0], names[1], names[2]
        ))
    })?;
    ensure_number(matrix.dtype(), "addmv_impl_cpu")?;
    let product = matrix_vector(f, matrix, vector)?;
    let sum = scaled_sum(f, call, x, &product)?;
    Ok(f.convert(&sum, matrix.dtype())?.into())
}

/// `self` broadcast to `[M, N]`, `vec1 [M]`, `vec2 [N]` → `[M, N]`, with type promotion; on bool `or` of `and`.
fn addr(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (x, left, right) = (call.tensor("self")?, call.tensor("vec1")?, call.tensor("vec2")?);
    for (name, vector) in [("vec1", left), ("vec2", right)] {
        ensure(vector.rank() == 1, || {
            Error::runtime(format!(
                "addr: Expected 1-D argument {name}, but got {}-D",
                vector.rank()
            ))
        })?;
    }
    let dtype = call.result_type(&[x, left, right])?;
    for name in ["beta", "alpha"] {
        let factor = call.tensor(name)?.dtype();
        ensure(dtype.is_inexact() || !factor.is_inexact(), || {
            let kind = if dtype.is_bool() { "bool" } else { "integral" };
            Error::runtime(format!(
                "For {kind} input tensors, argument {name} must not be a floating point number."
            ))
        })?;
    }
    let wide = dtype.opmath();
    let dims = [left.dim(0), right.dim(0)];
    let left = f.convert(left, wide)?;
    let left = f.broadcast_in_dim(&left, &dims, &[0])?;
    let right = f.convert(right, wide)?;
    let right = f.broadcast_in_dim(&right, &dims, &[1])?;
    if dtype.is_bool() {
        let outer = f.and(&left, &right)?;
        let alpha = f.convert(call.tensor("alpha")?, DType::Bool)?;
        let alpha = f.broadcast_to(&alpha, &dims)?;
        let outer = f.and(&outer, &alpha)?;
        let own = f.convert(x, DType::Bool)?;
        let own = expand(f, &own, &dims)?;
        let beta = f.convert(call.tensor("beta")?, DType::Bool)?;
        let beta = f.broadcast_to(&beta, &dims)?;
        let own = f.and(&own, &beta)?;
        return Ok(f.or(&own, &outer)?.into());
    }
    let outer = f.mul(&left, &right)?;
    let own = f.convert(x, wide)?;
    let own = expand(f, &own, &dims)?;
    let own = scaled(f, call.tensor("beta")?, &own)?;
    // Unlike the matrix products, `addr` has no special case for alpha = 0.
    let alpha = f.convert(call.tensor("alpha")?, wide)?;
    let alpha = f.broadcast_to(&alpha, &dims)?;
    let outer = f.mul(&alpha, &outer)?;
    let sum = f.add(&own, &outer)?;
    Ok(f.convert(&sum, dtype)?.into())
}

/// `[…, 3, …] × […, 3, …]` along `dim`, the other axes broadcast.
fn linalg_cross(f: &mut Func, call: &Call) -> Result<Outputs> {
    let (left, right) = (call.tensor("self")?, call.tensor("other")?);
    ensure(left.rank() == right.rank(), || {
        Error::runtime("linalg.cross: inputs must have the same number of dimensions.")
    })?;
    let axis = call.axis("dim", left.rank())?;
    let length = |x: &Value| x.dims().get(axis).copied().unwrap_or(1);
    ensure(length(left) == 3 && length(right) == 3, || {
        let dim = call.int("dim").unwrap_or(-1);
        Error::runtime(format!(
            "linalg.cross: inputs dimension {dim} must have length 3. Got {} and {}",
            length(left),
            length(right)
        ))
    })?;
    let dtype = left.dtype();
    ensure(dtype == right.dtype(), || {
        Error::runtime(format!(
            "expected scalar type {} but found {}",
            scalar_type(dtype),
            scalar_type(right.dtype())
        ))
    })?;
    ensure_number(dtype, "cross")?;
    let pair = common::broadcast_all(f, &[left, right], dtype.opmath())?;
    let [left, right] = pair.as_slice() else {
        return Err(Error::runtime("linalg.cross takes two tensors"));
    };
    let mut parts = Vec::new();
    for component in 0..3 {
        let (next, after) = ((component + 1) % 3, (component + 2) % 3);
        let part = |f: &mut Func, x: &Value, index: i64| f.slice_axis(x, axis, index, index + 1);
        let (a, b) = (part(f, left, next)?, part(f, right, after)?);
        let plus = f.mul(&a, &b)?;
        let (a, b) = (part(f, left, after)?, part(f, right, next)?);
        let minus = f.mul(&a, &b)?;
        parts.push(f.sub(&plus, &minus)?);
    }
    let result = f.concatenate(&parts, axis)?;
    Ok(f.convert(&result, dtype)?.into())
}

/// `triu`, `tril` of `[…, M, N]`: zero below (above) the given diagonal.
fn triangle(f: &mut Func, call: &Call, name: &str) -> Result<Outputs> {
    let x = call.tensor("self")?;
    ensure(x.rank() >= 2, || {
        Error::runtime(format!("{name}: input tensor must have at least 2 dimensions"))
    })?;
    Ok(keep_triangle(f, x, name == "triu", call.int("diagonal")?)?.into())
}

/// The elements with `column - row >= diagonal` (`upper`) or `<= diagonal`, zero elsewhere.
pub(super) fn keep_triangle(f: &mut Func, x: &Value, upper: bool, diagonal: i64) -> Result<Value> {
    let rank = x.rank();
    let matrix = [x.dim(rank - 2), x.dim(rank - 1)];
    // Beyond the corners nothing changes any more; clamping keeps the sum in int32.
    let diagonal = diagonal.clamp(-matrix[0] - 1, matrix[1] + 1);
    let rows = f.iota(DType::I32, &matrix, 0)?;
    let columns = f.iota(DType::I32, &matrix, 1)?;
    let offset = f.sub(&columns, &rows)?;
    let direction = if upper { Comparison::Ge } else { Comparison::Le };
    let kept = f.compare_const(direction, &offset, diagonal)?;
    let kept = f.broadcast_to(&kept, x.dims())?;
    let zero = f.full_like(x, 0i64);
    f.select(&kept, x, &zero)
}
