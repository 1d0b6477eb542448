//! What several families share: promotion, computing in the operation's own type, broadcasting.

use super::call::{Call, Operand, Outputs};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::shape::{self, Dims};
use crate::stablehlo::{Func, Value};

/// Which dtype a pointwise operator computes in and returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promotion {
    /// `torch.result_type` of the operands.
    Default,
    /// As `Default`, with integers and bool becoming the default float dtype (division, `exp`, …).
    IntToFloat,
}

/// The operands converted to `dtype` and broadcast to their common shape.
pub fn broadcast_all(f: &mut Func, operands: &[&Value], dtype: DType) -> Result<Vec<Value>> {
    let mut dims = Dims::new();
    for operand in operands {
        dims = shape::broadcast(&dims, operand.dims())?;
    }
    operands
        .iter()
        .map(|operand| {
            let converted = f.convert(operand, dtype)?;
            f.broadcast_to(&converted, &dims)
        })
        .collect()
}

/// The result dtype of a pointwise operator over `operands`.
pub fn result_dtype(call: &Call, operands: &[&Operand], promotion: Promotion) -> Result<DType> {
    let dtype = call.result_type(operands)?;
    Ok(match promotion {
        Promotion::IntToFloat if !dtype.is_inexact() => call.default_dtype,
        _ => dtype,
    })
}

/// A pointwise operator: promotes, converts to the dtype's `opmath`, broadcasts, applies `body`, converts back to the result dtype.
pub fn pointwise(
    f: &mut Func,
    call: &Call,
    operands: &[&Operand],
    promotion: Promotion,
    body: impl FnOnce(&mut Func, &[Value]) -> Result<Value>,
) -> Result<Outputs> {
    let dtype = result_dtype(call, operands, promotion)?;
    let values: Vec<&Value> = operands.iter().map(|operand| &operand.value).collect();
    let values = broadcast_all(f, &values, dtype.opmath())?;
    let result = body(f, &values)?;
    Ok(f.convert(&result, dtype)?.into())
}

/// A pointwise operator whose result is bool: operands promoted among themselves.
pub fn predicate(
    f: &mut Func,
    call: &Call,
    operands: &[&Operand],
    body: impl FnOnce(&mut Func, &[Value]) -> Result<Value>,
) -> Result<Outputs> {
    let dtype = call.result_type(operands)?;
    let values: Vec<&Value> = operands.iter().map(|operand| &operand.value).collect();
    let values = broadcast_all(f, &values, dtype)?;
    Ok(body(f, &values)?.into())
}

/// A dtype as `c10::ScalarType` prints it in PyTorch's messages: `Float`, `Long`, `ComplexDouble`.
pub fn scalar_type(dtype: DType) -> &'static str {
    match dtype {
        DType::U8 => "Byte",
        DType::I8 => "Char",
        DType::I16 => "Short",
        DType::I32 => "Int",
        DType::I64 => "Long",
        DType::F16 => "Half",
        DType::F32 => "Float",
        DType::F64 => "Double",
        DType::C64 => "ComplexFloat",
        DType::C128 => "ComplexDouble",
        DType::Bool => "Bool",
        DType::BF16 => "BFloat16",
        DType::F8E5M2 => "Float8_e5m2",
        DType::F8E4M3FN => "Float8_e4m3fn",
        DType::U16 => "UInt16",
        DType::U32 => "UInt32",
        DType::U64 => "UInt64",
    }
}

/// PyTorch's error for a dtype that a kernel does not take: `"cross" not implemented for 'Bool'`.
pub fn not_implemented_for(kernel: &str, dtype: DType) -> Error {
    Error::not_implemented(format!("\"{kernel}\" not implemented for '{}'", scalar_type(dtype)))
}
