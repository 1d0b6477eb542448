//! Element types: PyTorch's `ScalarType` codes, StableHLO's names and PJRT's codes in one table.

use crate::error::{Error, Result};

macro_rules! dtypes {
    ($($variant:ident, $torch:literal, $pjrt:literal, $bytes:literal, $mlir:literal, $name:literal, $class:ident;)*) => {
        /// An element type that tensors of this device can have.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DType { $($variant = $torch,)* }

        impl DType {
            pub const ALL: &'static [DType] = &[$(DType::$variant,)*];

            /// From `c10::ScalarType` (its integer code).
            pub fn from_torch(code: i64) -> Result<DType> {
                match code {
                    $($torch => Ok(DType::$variant),)*
                    _ => Err(Error::not_implemented(format!(
                        "dtype with torch code {code} is not supported on this device; convert the tensor first, for instance with .to(torch.float32)"))),
                }
            }

            /// From `PJRT_Buffer_Type`.
            pub fn from_pjrt(code: u32) -> Result<DType> {
                match code {
                    $($pjrt => Ok(DType::$variant),)*
                    _ => Err(Error::runtime(format!("the plugin returned a buffer of unknown element type {code}"))),
                }
            }

            /// `PJRT_Buffer_Type` (values of the public `pjrt_c_api.h`).
            pub const fn pjrt(self) -> u32 {
                match self { $(DType::$variant => $pjrt,)* }
            }

            /// Bytes of one element in PyTorch's memory layout.
            pub const fn bytes(self) -> usize {
                match self { $(DType::$variant => $bytes,)* }
            }

            /// The element type as StableHLO text spells it.
            pub const fn mlir(self) -> &'static str {
                match self { $(DType::$variant => $mlir,)* }
            }

            /// As PyTorch's messages spell it, without `torch.`
            pub const fn name(self) -> &'static str {
                match self { $(DType::$variant => $name,)* }
            }

            pub const fn class(self) -> Class {
                match self { $(DType::$variant => Class::$class,)* }
            }
        }
    };
}

/// Kind of number, in PyTorch's promotion order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    Bool,
    Integer,
    Float,
    Complex,
}

dtypes! {
    // variant, c10::ScalarType, PJRT_Buffer_Type, bytes, StableHLO, torch name, class
    U8, 0, 6, 1, "ui8", "uint8", Integer;
    I8, 1, 2, 1, "i8", "int8", Integer;
    I16, 2, 3, 2, "i16", "int16", Integer;
    I32, 3, 4, 4, "i32", "int32", Integer;
    I64, 4, 5, 8, "i64", "int64", Integer;
    F16, 5, 10, 2, "f16", "float16", Float;
    F32, 6, 11, 4, "f32", "float32", Float;
    F64, 7, 12, 8, "f64", "float64", Float;
    C64, 9, 14, 8, "complex<f32>", "complex64", Complex;
    C128, 10, 15, 16, "complex<f64>", "complex128", Complex;
    Bool, 11, 1, 1, "i1", "bool", Bool;
    BF16, 15, 13, 2, "bf16", "bfloat16", Float;
    F8E5M2, 23, 16, 1, "f8E5M2", "float8_e5m2", Float;
    F8E4M3FN, 24, 17, 1, "f8E4M3FN", "float8_e4m3fn", Float;
    U16, 27, 7, 2, "ui16", "uint16", Integer;
    U32, 28, 8, 4, "ui32", "uint32", Integer;
    U64, 29, 9, 8, "ui64", "uint64", Integer;
}

impl DType {
    pub const fn torch(self) -> i64 {
        self as u8 as i64
    }

    pub fn is_float(self) -> bool {
        self.class() == Class::Float
    }

    pub fn is_complex(self) -> bool {
        self.class() == Class::Complex
    }

    /// Integer, not bool.
    pub fn is_integer(self) -> bool {
        self.class() == Class::Integer
    }

    pub fn is_bool(self) -> bool {
        self == DType::Bool
    }

    /// Float or complex.
    pub fn is_inexact(self) -> bool {
        self.class() >= Class::Float
    }

    pub fn is_unsigned(self) -> bool {
        matches!(self, DType::U8 | DType::U16 | DType::U32 | DType::U64)
    }

    /// The type in which this one's arithmetic is carried out on the CPU: float32 for the 8 and 16 bit floats, itself otherwise
    /// (`at::opmath_type`).
    pub fn opmath(self) -> DType {
        match self {
            DType::F16 | DType::BF16 | DType::F8E5M2 | DType::F8E4M3FN => DType::F32,
            other => other,
        }
    }

    /// Real and imaginary part's type of a complex type; a real type is its own.
    pub fn real(self) -> DType {
        match self {
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            other => other,
        }
    }

    /// The complex type whose parts have this type (float16 has none here: complex64).
    pub fn complex(self) -> DType {
        match self {
            DType::F64 | DType::C128 => DType::C128,
            _ => DType::C64,
        }
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "torch.{}", self.name())
    }
}
