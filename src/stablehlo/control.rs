//! Loops, branches, random bits, custom calls.

use super::func::Func;
use super::types::{TensorType, Value};
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};

fn types(values: &[Value]) -> Vec<TensorType> {
    values.iter().map(|value| value.ty.clone()).collect()
}

impl Func {
    /// `while`: `condition` returns a 0-d bool, `body` the next carried values (types unchanged).
    pub fn while_loop(
        &mut self,
        initial: &[Value],
        condition: impl FnOnce(&mut Func, &[Value]) -> Result<Value>,
        body: impl FnOnce(&mut Func, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        let carried = types(initial);
        let condition = self.region(&carried, |f, values| Ok(vec![condition(f, values)?]))?;
        ensure(types(&condition.results) == [TensorType::new(DType::Bool, &[])], || {
            Error::runtime("the condition of while must be a 0-d bool")
        })?;
        let body = self.region(&carried, body)?;
        ensure(types(&body.results) == carried, || {
            Error::runtime("the body of while must return the carried types")
        })?;
        Ok(self.operation(
            "stablehlo.while",
            initial.to_vec(),
            String::new(),
            vec![condition, body],
            carried,
        ))
    }

    /// `if`: both branches return values of equal types.
    pub fn if_else(
        &mut self,
        condition: &Value,
        on_true: impl FnOnce(&mut Func) -> Result<Vec<Value>>,
        on_false: impl FnOnce(&mut Func) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        ensure(condition.ty == TensorType::new(DType::Bool, &[]), || {
            Error::runtime(format!("the condition of if must be a 0-d bool, got {}", condition.ty))
        })?;
        let on_true = self.region(&[], |f, _| on_true(f))?;
        let on_false = self.region(&[], |f, _| on_false(f))?;
        let results = types(&on_true.results);
        ensure(results == types(&on_false.results), || {
            Error::runtime("the branches of if must return equal types")
        })?;
        Ok(self.operation(
            "stablehlo.if",
            vec![condition.clone()],
            String::new(),
            vec![on_true, on_false],
            results,
        ))
    }

    /// Philox bits: `state` is `[2] uint64` (key, counter) → random bits of an unsigned dtype (`U32`, `U64`).
    pub fn random_bits(&mut self, state: &Value, dtype: DType, dims: &[i64]) -> Result<Value> {
        ensure(state.ty == TensorType::new(DType::U64, &[2]), || {
            Error::runtime(format!("the random state must be tensor<2xui64>, got {}", state.ty))
        })?;
        ensure(matches!(dtype, DType::U32 | DType::U64), || {
            Error::runtime(format!("random bits come as uint32 or uint64, not {dtype}"))
        })?;
        let results = self.operation(
            "stablehlo.rng_bit_generator",
            vec![state.clone()],
            "rng_algorithm = #stablehlo<rng_algorithm PHILOX>".into(),
            Vec::new(),
            vec![state.ty.clone(), TensorType::new(dtype, dims)],
        );
        Ok(results[1].clone())
    }

    /// A custom call by its target name. `backend_config` as MLIR text of the attribute, or empty.
    pub fn custom_call(
        &mut self,
        target: &str,
        operands: &[Value],
        results: &[TensorType],
        backend_config: &str,
    ) -> Result<Vec<Value>> {
        let mut attributes = format!("call_target_name = \"{target}\"");
        if !backend_config.is_empty() {
            attributes.push_str(&format!(", backend_config = {backend_config}"));
        }
        Ok(self.operation(
            "stablehlo.custom_call",
            operands.to_vec(),
            attributes,
            Vec::new(),
            results.to_vec(),
        ))
    }

    /// The `k` largest of the last axis, descending, and their int32 positions (`chlo.top_k`).
    pub fn top_k(&mut self, x: &Value, k: i64) -> Result<(Value, Value)> {
        let size = x.dims().last().copied().unwrap_or(-1);
        ensure(0 <= k && k <= size, || {
            Error::runtime(format!("top_k of {k} along an axis of {size}"))
        })?;
        let mut dims = x.ty.dims.clone();
        if let Some(last) = dims.last_mut() {
            *last = k;
        }
        let types = vec![x.ty.with_dims(&dims), TensorType::new(DType::I32, &dims)];
        let results = self.operation(
            "chlo.top_k",
            vec![x.clone()],
            format!("k = {k} : i64"),
            Vec::new(),
            types,
        );
        Ok((results[0].clone(), results[1].clone()))
    }
}
