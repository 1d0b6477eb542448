//! Numbers as StableHLO text spells them, rounded to the dtype.

use super::types::Literal;
use crate::dtype::{Class, DType};
use half::{bf16, f16};

/// The text of `literal` as an element of `dtype`, converted as C casts do.
pub(super) fn text(dtype: DType, literal: Literal) -> String {
    match dtype.class() {
        Class::Bool => match literal {
            Literal::Bool(value) => value,
            Literal::Int(value) => value != 0,
            Literal::Float(value) => value != 0.0,
            Literal::Complex(real, imaginary) => real != 0.0 || imaginary != 0.0,
        }
        .to_string(),
        Class::Integer => integer(dtype, as_int(literal)),
        Class::Float => float(dtype, as_float(literal)),
        Class::Complex => {
            let (real, imaginary) = match literal {
                Literal::Complex(real, imaginary) => (real, imaginary),
                other => (as_float(other), 0.0),
            };
            let part = dtype.real();
            format!("({}, {})", float(part, real), float(part, imaginary))
        }
    }
}

fn as_int(literal: Literal) -> i64 {
    match literal {
        Literal::Bool(value) => value.into(),
        Literal::Int(value) => value,
        Literal::Float(value) | Literal::Complex(value, _) => value as i64,
    }
}

fn as_float(literal: Literal) -> f64 {
    match literal {
        Literal::Bool(value) => value as u8 as f64,
        Literal::Int(value) => value as f64,
        Literal::Float(value) | Literal::Complex(value, _) => value,
    }
}

/// Wrapped to the dtype's width.
fn integer(dtype: DType, value: i64) -> String {
    match dtype {
        DType::U8 => (value as u8).to_string(),
        DType::U16 => (value as u16).to_string(),
        DType::U32 => (value as u32).to_string(),
        DType::U64 => (value as u64).to_string(),
        DType::I8 => (value as i8).to_string(),
        DType::I16 => (value as i16).to_string(),
        DType::I32 => (value as i32).to_string(),
        _ => value.to_string(),
    }
}

/// Rounded to the dtype; not-a-number and infinities as bits.
fn float(dtype: DType, value: f64) -> String {
    let rounded = match dtype {
        DType::F32 => value as f32 as f64,
        DType::F16 => f16::from_f64(value).to_f64(),
        DType::BF16 => bf16::from_f64(value).to_f64(),
        _ => value,
    };
    if rounded.is_finite() {
        let text = format!("{rounded:e}");
        return if text.contains('.') {
            text
        } else {
            text.replacen('e', ".0e", 1)
        };
    }
    match dtype {
        DType::F32 => format!("0x{:08X}", (rounded as f32).to_bits()),
        DType::F16 => format!("0x{:04X}", f16::from_f64(rounded).to_bits()),
        DType::BF16 => format!("0x{:04X}", bf16::from_f64(rounded).to_bits()),
        DType::F8E5M2 => (if rounded.is_nan() {
            "0x7E"
        } else if rounded > 0.0 {
            "0x7C"
        } else {
            "0xFC"
        })
        .into(),
        DType::F8E4M3FN => "0x7F".into(), // it has no infinity
        _ => format!("0x{:016X}", rounded.to_bits()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_to_their_dtype() {
        assert_eq!(text(DType::F32, Literal::Float(0.1)), "1.0000000149011612e-1");
        assert_eq!(text(DType::F64, Literal::Float(1.0)), "1.0e0");
        assert_eq!(text(DType::F32, Literal::Float(f64::INFINITY)), "0x7F800000");
        assert_eq!(text(DType::BF16, Literal::Float(f64::NEG_INFINITY)), "0xFF80");
        assert_eq!(text(DType::U8, Literal::Int(-1)), "255");
        assert_eq!(text(DType::Bool, Literal::Float(2.0)), "true");
        assert_eq!(text(DType::C64, Literal::Int(1)), "(1.0e0, 0.0e0)");
    }
}
