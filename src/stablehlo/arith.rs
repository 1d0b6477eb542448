//! Constants, elementwise arithmetic, comparison, selection. Binary operations want equal types: broadcasting is the
//! caller's (see `Func::broadcast_to`).

use super::func::Func;
use super::infer::arith as infer;
use super::literal;
use super::types::{Literal, TensorType, Value};
use crate::dtype::{Class, DType};
use crate::error::{Error, Result, ensure};

/// Elementwise operations of one operand; same type out, except that `Abs` of a complex gives its real type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[rustfmt::skip]
pub enum Unary {
    Abs, Negate, Sign, Floor, Ceil, RoundNearestEven, RoundNearestAfz, Exp, Expm1, Log, Log1p, Logistic, Sqrt, Rsqrt, Cbrt,
    Sine, Cosine, Tan, Tanh, Not, PopulationCount, CountLeadingZeros,
    // CHLO
    Acos, Acosh, Asin, Asinh, Atan, Atanh, Cosh, Sinh, Erf, Erfc, ErfInv, Lgamma, Digamma, BesselI1e,
}

/// Elementwise operations of two operands of one type; same type out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[rustfmt::skip]
pub enum Binary {
    Add, Subtract, Multiply, Divide, Remainder, Power, Maximum, Minimum, Atan2, And, Or, Xor, ShiftLeft,
    ShiftRightArithmetic, ShiftRightLogical,
    // CHLO
    Polygamma, Zeta, NextAfter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[rustfmt::skip]
pub enum Comparison { Eq, Ne, Ge, Gt, Le, Lt }

impl Unary {
    pub(super) fn name(self) -> &'static str {
        match self {
            Unary::Abs => "stablehlo.abs",
            Unary::Negate => "stablehlo.negate",
            Unary::Sign => "stablehlo.sign",
            Unary::Floor => "stablehlo.floor",
            Unary::Ceil => "stablehlo.ceil",
            Unary::RoundNearestEven => "stablehlo.round_nearest_even",
            Unary::RoundNearestAfz => "stablehlo.round_nearest_afz",
            Unary::Exp => "stablehlo.exponential",
            Unary::Expm1 => "stablehlo.exponential_minus_one",
            Unary::Log => "stablehlo.log",
            Unary::Log1p => "stablehlo.log_plus_one",
            Unary::Logistic => "stablehlo.logistic",
            Unary::Sqrt => "stablehlo.sqrt",
            Unary::Rsqrt => "stablehlo.rsqrt",
            Unary::Cbrt => "stablehlo.cbrt",
            Unary::Sine => "stablehlo.sine",
            Unary::Cosine => "stablehlo.cosine",
            Unary::Tan => "chlo.tan",
            Unary::Tanh => "stablehlo.tanh",
            Unary::Not => "stablehlo.not",
            Unary::PopulationCount => "stablehlo.popcnt",
            Unary::CountLeadingZeros => "stablehlo.count_leading_zeros",
            Unary::Acos => "chlo.acos",
            Unary::Acosh => "chlo.acosh",
            Unary::Asin => "chlo.asin",
            Unary::Asinh => "chlo.asinh",
            Unary::Atan => "chlo.atan",
            Unary::Atanh => "chlo.atanh",
            Unary::Cosh => "chlo.cosh",
            Unary::Sinh => "chlo.sinh",
            Unary::Erf => "chlo.erf",
            Unary::Erfc => "chlo.erfc",
            Unary::ErfInv => "chlo.erf_inv",
            Unary::Lgamma => "chlo.lgamma",
            Unary::Digamma => "chlo.digamma",
            Unary::BesselI1e => "chlo.bessel_i1e",
        }
    }
}

impl Binary {
    pub(super) fn name(self) -> &'static str {
        match self {
            Binary::Add => "stablehlo.add",
            Binary::Subtract => "stablehlo.subtract",
            Binary::Multiply => "stablehlo.multiply",
            Binary::Divide => "stablehlo.divide",
            Binary::Remainder => "stablehlo.remainder",
            Binary::Power => "stablehlo.power",
            Binary::Maximum => "stablehlo.maximum",
            Binary::Minimum => "stablehlo.minimum",
            Binary::Atan2 => "stablehlo.atan2",
            Binary::And => "stablehlo.and",
            Binary::Or => "stablehlo.or",
            Binary::Xor => "stablehlo.xor",
            Binary::ShiftLeft => "stablehlo.shift_left",
            Binary::ShiftRightArithmetic => "stablehlo.shift_right_arithmetic",
            Binary::ShiftRightLogical => "stablehlo.shift_right_logical",
            Binary::Polygamma => "chlo.polygamma",
            Binary::Zeta => "chlo.zeta",
            Binary::NextAfter => "chlo.next_after",
        }
    }
}

impl Func {
    /// A constant with every element `value`.
    pub fn constant(&mut self, dtype: DType, dims: &[i64], value: impl Into<Literal>) -> Value {
        let text = literal::text(dtype, value.into());
        let ty = TensorType::new(dtype, dims);
        // A region must not read a constant from outside of it.
        if self.is_nested() {
            return self.dense(ty, &text);
        }
        let key = (ty, text);
        if let Some(value) = self.constants.get(&key) {
            return value.clone();
        }
        let value = self.dense(key.0.clone(), &key.1);
        self.constants.insert(key, value.clone());
        value
    }

    fn dense(&mut self, ty: TensorType, elements: &str) -> Value {
        let elements = if ty.numel() == 0 { "" } else { elements };
        let attributes = format!("value = dense<{elements}> : {ty}");
        self.single("stablehlo.constant", &[], attributes, ty)
    }

    fn dense_list(&mut self, dtype: DType, values: impl Iterator<Item = Literal>) -> Value {
        let texts: Vec<String> = values.map(|value| literal::text(dtype, value)).collect();
        let ty = TensorType::new(dtype, &[texts.len() as i64]);
        self.dense(ty, &format!("[{}]", texts.join(", ")))
    }

    /// A 1-d int64 constant holding `values`, or of another integer dtype.
    pub fn constant_ints(&mut self, dtype: DType, values: &[i64]) -> Value {
        self.dense_list(dtype, values.iter().map(|&value| Literal::Int(value)))
    }

    /// A 1-d constant of a float dtype.
    pub fn constant_floats(&mut self, dtype: DType, values: &[f64]) -> Value {
        self.dense_list(dtype, values.iter().map(|&value| Literal::Float(value)))
    }

    /// A constant like `x` (dtype and dims) with every element `value`.
    pub fn full_like(&mut self, x: &Value, value: impl Into<Literal>) -> Value {
        let ty = x.ty.clone();
        self.constant(ty.dtype, &ty.dims, value)
    }

    /// Lowest value of the dtype (-inf for floats, false for bool), as a 0-d constant.
    pub fn lowest(&mut self, dtype: DType) -> Result<Value> {
        let literal = match dtype.class() {
            Class::Bool => Literal::Bool(false),
            Class::Float => Literal::Float(f64::NEG_INFINITY),
            Class::Integer if dtype.is_unsigned() => Literal::Int(0),
            Class::Integer => Literal::Int(i64::MIN >> (64 - 8 * dtype.bytes())),
            Class::Complex => return Err(Error::runtime(format!("{dtype} has no lowest value"))),
        };
        Ok(self.constant(dtype, &[], literal))
    }

    /// Highest value of the dtype (inf for floats, true for bool), as a 0-d constant.
    pub fn highest(&mut self, dtype: DType) -> Result<Value> {
        let literal = match dtype.class() {
            Class::Bool => Literal::Bool(true),
            Class::Float => Literal::Float(f64::INFINITY),
            Class::Integer if dtype.is_unsigned() => Literal::Int(-1), // wraps to all ones
            Class::Integer => Literal::Int(i64::MAX >> (64 - 8 * dtype.bytes())),
            Class::Complex => return Err(Error::runtime(format!("{dtype} has no highest value"))),
        };
        Ok(self.constant(dtype, &[], literal))
    }

    /// 0, 1, 2, … along `axis`.
    pub fn iota(&mut self, dtype: DType, dims: &[i64], axis: usize) -> Result<Value> {
        ensure(axis < dims.len(), || {
            Error::runtime(format!("iota along axis {axis} of rank {}", dims.len()))
        })?;
        if dtype.is_bool() {
            let numbers = self.iota(DType::I32, dims, axis)?;
            return self.convert(&numbers, dtype);
        }
        Ok(self.single(
            "stablehlo.iota",
            &[],
            format!("iota_dimension = {axis} : i64"),
            TensorType::new(dtype, dims),
        ))
    }

    pub fn unary(&mut self, op: Unary, x: &Value) -> Result<Value> {
        // The unsigned are their own absolute value, and their sign is 0 or 1.
        if x.dtype().is_unsigned() || x.dtype().is_bool() {
            match op {
                Unary::Abs => return Ok(x.clone()),
                Unary::Sign if !x.dtype().is_bool() => return self.binary_const(Binary::Minimum, x, 1i64),
                _ => {}
            }
        }
        let ty = infer::unary(op, &x.ty)?;
        Ok(self.single(op.name(), &[x], String::new(), ty))
    }

    pub fn binary(&mut self, op: Binary, left: &Value, right: &Value) -> Result<Value> {
        let ty = infer::binary(op, &left.ty, &right.ty)?;
        Ok(self.single(op.name(), &[left, right], String::new(), ty))
    }

    pub fn add(&mut self, left: &Value, right: &Value) -> Result<Value> {
        self.binary(Binary::Add, left, right)
    }

    pub fn sub(&mut self, left: &Value, right: &Value) -> Result<Value> {
        self.binary(Binary::Subtract, left, right)
    }

    pub fn mul(&mut self, left: &Value, right: &Value) -> Result<Value> {
        self.binary(Binary::Multiply, left, right)
    }

    pub fn div(&mut self, left: &Value, right: &Value) -> Result<Value> {
        self.binary(Binary::Divide, left, right)
    }

    pub fn max(&mut self, left: &Value, right: &Value) -> Result<Value> {
        self.binary(Binary::Maximum, left, right)
    }

    pub fn min(&mut self, left: &Value, right: &Value) -> Result<Value> {
        self.binary(Binary::Minimum, left, right)
    }

    pub fn and(&mut self, left: &Value, right: &Value) -> Result<Value> {
        self.binary(Binary::And, left, right)
    }

    pub fn or(&mut self, left: &Value, right: &Value) -> Result<Value> {
        self.binary(Binary::Or, left, right)
    }

    pub fn neg(&mut self, x: &Value) -> Result<Value> {
        self.unary(Unary::Negate, x)
    }

    pub fn not(&mut self, x: &Value) -> Result<Value> {
        self.unary(Unary::Not, x)
    }

    /// `x op value`, the value becoming a constant of `x`'s type.
    pub fn binary_const(&mut self, op: Binary, x: &Value, value: impl Into<Literal>) -> Result<Value> {
        let constant = self.full_like(x, value);
        self.binary(op, x, &constant)
    }

    /// Elementwise comparison; bool out. Floats compare as IEEE (NaN: only `Ne` is true).
    pub fn compare(&mut self, direction: Comparison, left: &Value, right: &Value) -> Result<Value> {
        let ty = infer::compare(direction, &left.ty, &right.ty)?;
        let direction = match direction {
            Comparison::Eq => "EQ",
            Comparison::Ne => "NE",
            Comparison::Ge => "GE",
            Comparison::Gt => "GT",
            Comparison::Le => "LE",
            Comparison::Lt => "LT",
        };
        let kind = match left.dtype().class() {
            Class::Bool => "UNSIGNED",
            Class::Integer if left.dtype().is_unsigned() => "UNSIGNED",
            Class::Integer => "SIGNED",
            Class::Float | Class::Complex => "FLOAT",
        };
        let attributes = format!(
            "compare_type = #stablehlo<comparison_type {kind}>, comparison_direction = #stablehlo<comparison_direction {direction}>"
        );
        Ok(self.single("stablehlo.compare", &[left, right], attributes, ty))
    }

    /// `x direction value`.
    pub fn compare_const(&mut self, direction: Comparison, x: &Value, value: impl Into<Literal>) -> Result<Value> {
        let constant = self.full_like(x, value);
        self.compare(direction, x, &constant)
    }

    /// `condition` is bool, of the same dims or 0-d.
    pub fn select(&mut self, condition: &Value, on_true: &Value, on_false: &Value) -> Result<Value> {
        let ty = infer::select(&condition.ty, &on_true.ty, &on_false.ty)?;
        Ok(self.single("stablehlo.select", &[condition, on_true, on_false], String::new(), ty))
    }

    /// `min(max(x, low), high)`; `low` and `high` are 0-d or of `x`'s dims.
    pub fn clamp(&mut self, low: &Value, x: &Value, high: &Value) -> Result<Value> {
        let ty = infer::clamp(&low.ty, &x.ty, &high.ty)?;
        Ok(self.single("stablehlo.clamp", &[low, x, high], String::new(), ty))
    }

    pub fn is_finite(&mut self, x: &Value) -> Result<Value> {
        match x.dtype().class() {
            Class::Float => Ok(self.single("stablehlo.is_finite", &[x], String::new(), x.ty.with_dtype(DType::Bool))),
            Class::Complex => {
                let (real, imaginary) = (self.real(x)?, self.imag(x)?);
                let (real, imaginary) = (self.is_finite(&real)?, self.is_finite(&imaginary)?);
                self.and(&real, &imaginary)
            }
            _ => Ok(self.constant(DType::Bool, x.dims(), true)),
        }
    }

    /// True where a float (or either part of a complex) is NaN; false for other dtypes.
    pub fn is_nan(&mut self, x: &Value) -> Result<Value> {
        if x.dtype().is_inexact() {
            self.compare(Comparison::Ne, x, x)
        } else {
            Ok(self.constant(DType::Bool, x.dims(), false))
        }
    }

    /// A hint to keep the value from being fused or folded (`optimization_barrier`).
    pub fn barrier(&mut self, x: &Value) -> Result<Value> {
        Ok(self.single("stablehlo.optimization_barrier", &[x], String::new(), x.ty.clone()))
    }
}
