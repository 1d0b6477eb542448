//! PyTorch's type promotion (`c10::promoteTypes`, `at::native::result_type`).

use crate::dtype::{Class, DType};
use crate::error::{Error, Result};

/// How much weight an operand has in promotion: a tensor with axes decides first, then 0-d tensors, then Python numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Category {
    Dimensioned,
    ZeroDim,
    /// A Python number ("wrapped number").
    Number,
}

/// The smallest dtype both convert to (`torch.promote_types`). An error for uint16/32/64 with another integer and for float8 with
/// anything else, as in PyTorch.
pub fn promote_types(left: DType, right: DType) -> Result<DType> {
    use DType::*;
    if left == right {
        return Ok(left);
    }
    let (low, high) = if left.class() <= right.class() {
        (left, right)
    } else {
        (right, left)
    };
    let eight_bit_float = |dtype| matches!(dtype, F8E5M2 | F8E4M3FN);
    if eight_bit_float(left) || eight_bit_float(right) {
        return Err(Error::runtime(format!(
            "Promotion for Float8 Types is not supported, attempted to promote {} and {}",
            left.name(),
            right.name()
        )));
    }
    if low.class() < high.class() && high.class() == Class::Complex {
        return Ok(if low == F64 { C128 } else { high });
    }
    if low.class() < high.class() {
        return Ok(high);
    }
    match high.class() {
        Class::Float => Ok(match (left, right) {
            (F64, _) | (_, F64) => F64,
            _ => F32, // two different ones of float16, bfloat16, float32
        }),
        Class::Complex => Ok(C128),
        Class::Bool => Ok(Bool),
        Class::Integer => {
            let barebones = |dtype| matches!(dtype, U16 | U32 | U64);
            if barebones(left) || barebones(right) {
                return Err(Error::runtime(format!(
                    "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote {} and {}",
                    left.name(),
                    right.name()
                )));
            }
            Ok(match (left, right) {
                (U8, I8) | (I8, U8) => I16,
                _ if left.bytes() == right.bytes() => left,
                _ if left.bytes() > right.bytes() => left,
                _ => right,
            })
        }
    }
}

/// The result dtype of an operation over `operands` (`torch.result_type`); `default` is `torch.get_default_dtype()`.
pub fn result_type(operands: impl IntoIterator<Item = (DType, Category)>, default: DType) -> Result<DType> {
    let mut by_category: [Option<DType>; 3] = [None; 3];
    for (dtype, category) in operands {
        let dtype = match (category, dtype.class()) {
            (Category::Number, Class::Complex) => default.complex(),
            (Category::Number, Class::Float) => default,
            _ => dtype,
        };
        let slot = &mut by_category[category as usize];
        *slot = Some(match *slot {
            None => dtype,
            Some(before) => promote_types(before, dtype)?,
        });
    }
    let [dimensioned, zero_dim, number] = by_category;
    let lower = combine(zero_dim, number)?;
    combine(dimensioned, lower)?.ok_or_else(|| Error::runtime("result type of no operands"))
}

fn combine(higher: Option<DType>, lower: Option<DType>) -> Result<Option<DType>> {
    let (Some(high), Some(low)) = (higher, lower) else {
        return Ok(higher.or(lower));
    };
    Ok(Some(match (high.class(), low.class()) {
        (Class::Complex, _) => high,
        (Class::Float, Class::Complex) => high.complex(),
        (Class::Float, _) => high,
        (Class::Bool, _) | (_, Class::Float | Class::Complex) => promote_types(high, low)?,
        _ => high,
    }))
}

/// Whether PyTorch lets a result of `from` be stored into a tensor of `to` (`torch.can_cast`).
pub fn can_cast(from: DType, to: DType) -> bool {
    match (from.class(), to.class()) {
        (Class::Complex, to) => to == Class::Complex,
        (Class::Float, to) => to >= Class::Float,
        (Class::Integer, Class::Bool) => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_do_not_widen_tensors() {
        let kind = |items: &[(DType, Category)]| result_type(items.iter().copied(), DType::F32).unwrap();
        assert_eq!(
            kind(&[(DType::BF16, Category::Dimensioned), (DType::F64, Category::Number)]),
            DType::BF16
        );
        assert_eq!(
            kind(&[(DType::I64, Category::Dimensioned), (DType::F64, Category::Number)]),
            DType::F32
        );
        assert_eq!(
            kind(&[(DType::I32, Category::Dimensioned), (DType::I64, Category::ZeroDim)]),
            DType::I32
        );
        assert_eq!(
            kind(&[
                (DType::F16, Category::Dimensioned),
                (DType::BF16, Category::Dimensioned)
            ]),
            DType::F32
        );
        assert_eq!(
            kind(&[(DType::F64, Category::Dimensioned), (DType::C64, Category::Dimensioned)]),
            DType::C128
        );
        assert_eq!(
            kind(&[(DType::Bool, Category::Dimensioned), (DType::I64, Category::Number)]),
            DType::I64
        );
    }
}
