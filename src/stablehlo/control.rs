//! Loops, branches, random bits, custom calls.

use super::func::Func;
use super::types::{TensorType, Value};
use crate::dtype::DType;
use crate::error::Result;

impl Func {
    /// `while`: `condition` returns a 0-d bool, `body` the next carried values (types unchanged).
    pub fn while_loop(
        &mut self, initial: &[Value],
        condition: impl FnOnce(&mut Func, &[Value]) -> Result<Value>,
        body: impl FnOnce(&mut Func, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> { todo!() }
    /// `if`: both branches return values of equal types.
    pub fn if_else(
        &mut self, condition: &Value,
        on_true: impl FnOnce(&mut Func) -> Result<Vec<Value>>,
        on_false: impl FnOnce(&mut Func) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> { todo!() }
    /// Philox bits: `state` is `[2] uint64` (key, counter) → random bits of an unsigned dtype (`U32`, `U64`).
    pub fn random_bits(&mut self, state: &Value, dtype: DType, dims: &[i64]) -> Result<Value> { todo!() }
    /// A custom call by its target name. `backend_config` as MLIR text of the attribute, or empty.
    pub fn custom_call(&mut self, target: &str, operands: &[Value], results: &[TensorType], backend_config: &str) -> Result<Vec<Value>> { todo!() }
    /// The `k` largest of the last axis, descending, and their int32 positions (`chlo.top_k`).
    pub fn top_k(&mut self, x: &Value, k: i64) -> Result<(Value, Value)> { todo!() }
}
