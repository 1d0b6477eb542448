//! Constants, elementwise arithmetic, comparison, selection, conversion. Binary operations want equal types: broadcasting is the
//! caller's (see `Func::broadcast_to`).

use super::func::Func;
use super::types::{Literal, TensorType, Value};
use crate::dtype::DType;
use crate::error::Result;

/// Elementwise operations of one operand; same type out, except that `Abs` of a complex gives its real type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    Abs, Negate, Sign, Floor, Ceil, RoundNearestEven, RoundNearestAfz, Exp, Expm1, Log, Log1p, Logistic, Sqrt, Rsqrt, Cbrt,
    Sine, Cosine, Tan, Tanh, Not, PopulationCount, CountLeadingZeros,
    // CHLO
    Acos, Acosh, Asin, Asinh, Atan, Atanh, Cosh, Sinh, Erf, Erfc, ErfInv, Lgamma, Digamma, BesselI1e,
}

/// Elementwise operations of two operands of one type; same type out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    Add, Subtract, Multiply, Divide, Remainder, Power, Maximum, Minimum, Atan2, And, Or, Xor, ShiftLeft,
    ShiftRightArithmetic, ShiftRightLogical,
    // CHLO
    Polygamma, Zeta, NextAfter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison { Eq, Ne, Ge, Gt, Le, Lt }

impl Func {
    /// A constant with every element `value`.
    pub fn constant(&mut self, dtype: DType, dims: &[i64], value: impl Into<Literal>) -> Value { todo!() }
    /// A 1-d int64 constant holding `values`, or of another integer dtype.
    pub fn constant_ints(&mut self, dtype: DType, values: &[i64]) -> Value { todo!() }
    /// A 1-d constant of a float dtype.
    pub fn constant_floats(&mut self, dtype: DType, values: &[f64]) -> Value { todo!() }
    /// A constant like `x` (dtype and dims) with every element `value`.
    pub fn full_like(&mut self, x: &Value, value: impl Into<Literal>) -> Value { todo!() }
    /// Lowest and highest value of the dtype (-inf/inf for floats, false/true for bool), as 0-d constants.
    pub fn lowest(&mut self, dtype: DType) -> Result<Value> { todo!() }
    pub fn highest(&mut self, dtype: DType) -> Result<Value> { todo!() }
    /// 0, 1, 2, … along `axis`.
    pub fn iota(&mut self, dtype: DType, dims: &[i64], axis: usize) -> Result<Value> { todo!() }

    pub fn unary(&mut self, op: Unary, x: &Value) -> Result<Value> { todo!() }
    pub fn binary(&mut self, op: Binary, left: &Value, right: &Value) -> Result<Value> { todo!() }

    pub fn add(&mut self, left: &Value, right: &Value) -> Result<Value> { self.binary(Binary::Add, left, right) }
    pub fn sub(&mut self, left: &Value, right: &Value) -> Result<Value> { self.binary(Binary::Subtract, left, right) }
    pub fn mul(&mut self, left: &Value, right: &Value) -> Result<Value> { self.binary(Binary::Multiply, left, right) }
    pub fn div(&mut self, left: &Value, right: &Value) -> Result<Value> { self.binary(Binary::Divide, left, right) }
    pub fn max(&mut self, left: &Value, right: &Value) -> Result<Value> { self.binary(Binary::Maximum, left, right) }
    pub fn min(&mut self, left: &Value, right: &Value) -> Result<Value> { self.binary(Binary::Minimum, left, right) }
    pub fn and(&mut self, left: &Value, right: &Value) -> Result<Value> { self.binary(Binary::And, left, right) }
    pub fn or(&mut self, left: &Value, right: &Value) -> Result<Value> { self.binary(Binary::Or, left, right) }
    pub fn neg(&mut self, x: &Value) -> Result<Value> { self.unary(Unary::Negate, x) }
    pub fn not(&mut self, x: &Value) -> Result<Value> { self.unary(Unary::Not, x) }
    /// `x op value`, the value becoming a constant of `x`'s type.
    pub fn binary_const(&mut self, op: Binary, x: &Value, value: impl Into<Literal>) -> Result<Value> {
        let constant = self.full_like(x, value);
        self.binary(op, x, &constant)
    }

    /// Elementwise comparison; bool out. Floats compare as IEEE (NaN: only `Ne` is true).
    pub fn compare(&mut self, direction: Comparison, left: &Value, right: &Value) -> Result<Value> { todo!() }
    /// `x direction value`.
    pub fn compare_const(&mut self, direction: Comparison, x: &Value, value: impl Into<Literal>) -> Result<Value> {
        let constant = self.full_like(x, value);
        self.compare(direction, x, &constant)
    }
    /// `condition` is bool, of the same dims or 0-d.
    pub fn select(&mut self, condition: &Value, on_true: &Value, on_false: &Value) -> Result<Value> { todo!() }
    /// `min(max(x, low), high)`; `low` and `high` are 0-d or of `x`'s dims.
    pub fn clamp(&mut self, low: &Value, x: &Value, high: &Value) -> Result<Value> { todo!() }
    pub fn is_finite(&mut self, x: &Value) -> Result<Value> { todo!() }
    /// True where a float (or either part of a complex) is NaN; false for other dtypes.
    pub fn is_nan(&mut self, x: &Value) -> Result<Value> { todo!() }

    /// PyTorch's cast (`x.to(dtype)`): to bool is `x != 0`; float to integer truncates towards zero and wraps as the CPU does for
    /// in-range values; complex to real drops the imaginary part; the value itself when the dtype is already right.
    pub fn convert(&mut self, x: &Value, dtype: DType) -> Result<Value> { todo!() }
    /// Same bits, other type: equal sizes keep the dims, a smaller type adds a last axis, a larger one removes it (StableHLO's rule). Not for
    /// bool and complex.
    pub fn bitcast(&mut self, x: &Value, dtype: DType) -> Result<Value> { todo!() }
    pub fn complex(&mut self, real: &Value, imag: &Value) -> Result<Value> { todo!() }
    pub fn real(&mut self, x: &Value) -> Result<Value> { todo!() }
    pub fn imag(&mut self, x: &Value) -> Result<Value> { todo!() }
    /// A hint to keep the value from being fused or folded (`optimization_barrier`).
    pub fn barrier(&mut self, x: &Value) -> Result<Value> { todo!() }
}
