//! Operations that move elements: broadcast, reshape, transpose, slice, pad, concatenate, reverse, dynamic slices.

use super::func::Func;
use super::types::Value;
use crate::error::Result;

impl Func {
    /// StableHLO's own: operand axis `i` becomes result axis `axes[i]`.
    pub fn broadcast_in_dim(&mut self, x: &Value, dims: &[i64], axes: &[usize]) -> Result<Value> { todo!() }
    /// PyTorch's `expand`: aligned at the last axis, sizes 1 stretch. The value itself when the dims are equal.
    pub fn broadcast_to(&mut self, x: &Value, dims: &[i64]) -> Result<Value> { todo!() }
    /// Both, broadcast to their common shape (PyTorch's rules and error).
    pub fn broadcast_pair(&mut self, left: &Value, right: &Value) -> Result<(Value, Value)> { todo!() }
    /// Same number of elements, row-major order. The value itself when the dims are equal.
    pub fn reshape(&mut self, x: &Value, dims: &[i64]) -> Result<Value> { todo!() }
    /// Result axis `i` is operand axis `permutation[i]`. The value itself when nothing moves.
    pub fn transpose(&mut self, x: &Value, permutation: &[usize]) -> Result<Value> { todo!() }
    /// Axes of size 1 put in so that they stand at `axes` (positions in the result, ascending).
    pub fn unsqueeze(&mut self, x: &Value, axes: &[usize]) -> Result<Value> { todo!() }
    /// The listed axes, each of size 1, taken out.
    pub fn squeeze(&mut self, x: &Value, axes: &[usize]) -> Result<Value> { todo!() }
    /// Elements `start..limit` by `stride` on every axis.
    pub fn slice(&mut self, x: &Value, start: &[i64], limit: &[i64], stride: &[i64]) -> Result<Value> { todo!() }
    /// Elements `start..limit` of one axis, all of the others.
    pub fn slice_axis(&mut self, x: &Value, axis: usize, start: i64, limit: i64) -> Result<Value> { todo!() }
    /// `low`/`high` may be negative (cropping); `interior` elements go between neighbours. `value` is 0-d of `x`'s dtype.
    pub fn pad(&mut self, x: &Value, value: &Value, low: &[i64], high: &[i64], interior: &[i64]) -> Result<Value> { todo!() }
    /// One or more values of one dtype, equal but for `axis`.
    pub fn concatenate(&mut self, values: &[Value], axis: usize) -> Result<Value> { todo!() }
    pub fn reverse(&mut self, x: &Value, axes: &[usize]) -> Result<Value> { todo!() }
    /// `starts`: one 0-d integer per axis, clamped by the program.
    pub fn dynamic_slice(&mut self, x: &Value, starts: &[Value], sizes: &[i64]) -> Result<Value> { todo!() }
    pub fn dynamic_update_slice(&mut self, x: &Value, update: &Value, starts: &[Value]) -> Result<Value> { todo!() }
}
