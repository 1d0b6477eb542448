//! Reductions, windowed reductions and sorting.

use super::func::Func;
use super::types::Value;
use crate::error::Result;

/// An associative operation with its neutral element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Monoid { Add, Multiply, Maximum, Minimum, And, Or }

/// One entry per axis of the operand (not only the spatial ones).
#[derive(Clone, Debug)]
pub struct Window {
    pub size: Vec<i64>,
    pub stride: Vec<i64>,
    pub base_dilation: Vec<i64>,
    pub dilation: Vec<i64>,
    /// Low and high padding with the neutral element.
    pub padding: Vec<(i64, i64)>,
}

impl Func {
    /// The neutral element of `monoid` as a 0-d constant (Maximum: lowest value).
    pub fn neutral(&mut self, monoid: Monoid, dtype: crate::dtype::DType) -> Result<Value> { todo!() }
    /// `[d0 … dn]` → the listed axes removed. Adds up in the operand's own dtype: convert first where a wider one is due.
    /// Maximum and Minimum return NaN when one is present.
    pub fn reduce(&mut self, x: &Value, monoid: Monoid, axes: &[usize]) -> Result<Value> { todo!() }
    /// As `reduce`, with the removed axes kept as size 1.
    pub fn reduce_keep(&mut self, x: &Value, monoid: Monoid, axes: &[usize]) -> Result<Value> { todo!() }
    /// General: several operands of equal dims, one 0-d initial value each; `body` gets the accumulators, then the elements (0-d
    /// each), and returns the new accumulators.
    pub fn reduce_with(
        &mut self, operands: &[Value], initial: &[Value], axes: &[usize],
        body: impl FnOnce(&mut Func, &[Value], &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> { todo!() }
    pub fn reduce_window(&mut self, x: &Value, monoid: Monoid, window: &Window) -> Result<Value> { todo!() }
    /// General windowed reduction of several operands, as `reduce_with`.
    pub fn reduce_window_with(
        &mut self, operands: &[Value], initial: &[Value], window: &Window,
        body: impl FnOnce(&mut Func, &[Value], &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> { todo!() }
    /// StableHLO's `select_and_scatter` with `>=` (max pooling's gradient) and addition. Stride, size and padding only.
    pub fn select_and_scatter(&mut self, x: &Value, source: &Value, window: &Window) -> Result<Value> { todo!() }
    /// Sorts all operands along `axis` by `less(f, left, right)` where both hold one 0-d value per operand; returns 0-d bool.
    pub fn sort(
        &mut self, operands: &[Value], axis: usize, stable: bool,
        less: impl FnOnce(&mut Func, &[Value], &[Value]) -> Result<Value>,
    ) -> Result<Vec<Value>> { todo!() }
}
