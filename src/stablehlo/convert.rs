//! Conversions between element types, bits, complex parts.

use super::arith::Comparison;
use super::func::Func;
use super::types::{TensorType, Value};
use crate::dtype::{Class, DType};
use crate::error::{Error, Result, ensure};

impl Func {
    /// PyTorch's cast (`x.to(dtype)`): to bool is `x != 0`; float to integer truncates towards zero and wraps as the CPU does for
    /// in-range values; complex to real drops the imaginary part; the value itself when the dtype is already right.
    pub fn convert(&mut self, x: &Value, dtype: DType) -> Result<Value> {
        let from = x.dtype();
        if from == dtype {
            return Ok(x.clone());
        }
        match (from.class(), dtype.class()) {
            (_, Class::Bool) => self.compare_const(Comparison::Ne, x, 0i64),
            (Class::Complex, Class::Complex) => Ok(self.plain_convert(x, dtype)),
            (Class::Complex, _) => {
                let real = self.real(x)?;
                self.convert(&real, dtype)
            }
            (_, Class::Complex) => {
                let real = self.convert(x, dtype.real())?;
                let imaginary = self.full_like(&real, 0i64);
                self.complex(&real, &imaginary)
            }
            // XLA saturates where C's casts wrap: a wider signed integer in between wraps too.
            (Class::Float, Class::Integer) if dtype.bytes() < 4 => {
                let wide = self.plain_convert(x, DType::I32);
                Ok(self.plain_convert(&wide, dtype))
            }
            (Class::Float, Class::Integer) if dtype == DType::U32 => {
                let wide = self.plain_convert(x, DType::I64);
                Ok(self.plain_convert(&wide, dtype))
            }
            _ => Ok(self.plain_convert(x, dtype)),
        }
    }

    fn plain_convert(&mut self, x: &Value, dtype: DType) -> Value {
        self.single("stablehlo.convert", &[x], String::new(), x.ty.with_dtype(dtype))
    }

    /// Same bits, other type: equal sizes keep the dims, a smaller type adds a last axis, a larger one removes it (StableHLO's rule). Not for
    /// bool and complex.
    pub fn bitcast(&mut self, x: &Value, dtype: DType) -> Result<Value> {
        let from = x.dtype();
        let plain = |dtype: DType| !dtype.is_bool() && !dtype.is_complex();
        ensure(plain(from) && plain(dtype), || {
            Error::runtime(format!("bits of {from} cannot be read as {dtype}"))
        })?;
        if from == dtype {
            return Ok(x.clone());
        }
        let mut dims = x.ty.dims.clone();
        if from.bytes() > dtype.bytes() {
            dims.push((from.bytes() / dtype.bytes()) as i64);
        } else if from.bytes() < dtype.bytes() {
            let ratio = (dtype.bytes() / from.bytes()) as i64;
            ensure(dims.last() == Some(&ratio), || {
                Error::runtime(format!(
                    "bits of {} can be read as {dtype} only with a last axis of {ratio}",
                    x.ty
                ))
            })?;
            dims.pop();
        }
        Ok(self.single(
            "stablehlo.bitcast_convert",
            &[x],
            String::new(),
            TensorType { dtype, dims },
        ))
    }

    /// float32 or float64 parts → complex64 or complex128.
    pub fn complex(&mut self, real: &Value, imag: &Value) -> Result<Value> {
        ensure(
            real.ty == imag.ty && matches!(real.dtype(), DType::F32 | DType::F64),
            || {
                Error::runtime(format!(
                    "complex wants two equal float32 or float64 parts, got {} and {}",
                    real.ty, imag.ty
                ))
            },
        )?;
        let ty = real.ty.with_dtype(real.dtype().complex());
        Ok(self.single("stablehlo.complex", &[real, imag], String::new(), ty))
    }

    /// The real part; a real value itself.
    pub fn real(&mut self, x: &Value) -> Result<Value> {
        if !x.dtype().is_complex() {
            return Ok(x.clone());
        }
        Ok(self.single("stablehlo.real", &[x], String::new(), x.ty.with_dtype(x.dtype().real())))
    }

    /// The imaginary part; zeros for a real value.
    pub fn imag(&mut self, x: &Value) -> Result<Value> {
        if !x.dtype().is_complex() {
            return Ok(self.full_like(x, 0i64));
        }
        Ok(self.single("stablehlo.imag", &[x], String::new(), x.ty.with_dtype(x.dtype().real())))
    }
}
