//! The function under construction: parameters, statements, nested regions, results.

use super::contract::Precision;
use super::types::{TensorType, Value};
use crate::dtype::DType;
use crate::error::{Error, Kind, Result, ensure};
use rustc_hash::FxHashMap;

/// One operation: its results, its operands, the attributes as text, the nested regions.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub name: &'static str,
    pub results: Vec<Value>,
    pub operands: Vec<Value>,
    pub attributes: String,
    pub regions: Vec<Region>,
}

#[derive(Clone, Debug)]
pub(super) struct Region {
    pub arguments: Vec<Value>,
    pub statements: Vec<Statement>,
    pub results: Vec<Value>,
}

/// One StableHLO function being built. Every method that adds an operation checks its operands and returns typed values.
#[derive(Debug, Default)]
pub struct Func {
    pub(super) params: Vec<Value>,
    /// (parameter, result)
    pub(super) aliases: Vec<(usize, usize)>,
    checks: Vec<(Value, Kind, String)>,
    /// Statements of the function, then of each open region.
    pub(super) statements: Vec<Statement>,
    outer: Vec<Vec<Statement>>,
    next_id: u32,
    pub(super) precision: Precision,
    /// Dots and convolutions of 16-bit floats take float32 operands (an exact conversion): XLA:CPU has no kernel for
    /// some of them with a float32 result, TPUs do.
    pub(super) widen: bool,
    /// Splat constants of the function's own level, by type and text.
    pub(super) constants: FxHashMap<(TensorType, String), Value>,
}

/// A finished program.
#[derive(Clone, Debug)]
pub struct Module {
    pub text: String,
    /// The parameters that `@main` really has: positions in the order of the `param` calls, ascending.
    pub params: Vec<usize>,
    pub results: Vec<TensorType>,
}

impl Func {
    /// A parameter of the function, in order of the calls.
    pub fn param(&mut self, ty: TensorType) -> Value {
        let value = self.fresh(ty);
        self.params.push(value.clone());
        value
    }

    /// Parameter `param`'s buffer may be reused for result `result` (`tf.aliasing_output`; same type, each at most once).
    pub fn alias(&mut self, param: usize, result: usize) -> Result<()> {
        ensure(param < self.params.len(), || {
            Error::runtime(format!(
                "alias of parameter {param}, but there are {}",
                self.params.len()
            ))
        })?;
        ensure(
            self.aliases.iter().all(|&(other, to)| other != param && to != result),
            || Error::runtime(format!("parameter {param} or result {result} is aliased twice")),
        )?;
        self.aliases.push((param, result));
        Ok(())
    }

    /// A run-time check: the program gets one more result, a 0-d bool that is false when `ok` (0-d bool) is; the runtime
    /// raises an error of `kind` with `message` when it reads false.
    pub fn check(&mut self, ok: &Value, kind: Kind, message: &str) -> Result<()> {
        ensure(ok.dtype() == DType::Bool && ok.rank() == 0, || {
            Error::runtime(format!("a check wants a 0-d bool, got {}", ok.ty))
        })?;
        self.checks.push((ok.clone(), kind, message.to_owned()));
        Ok(())
    }

    /// The checks so far, for the caller of `finish`: `(value, kind, message)`.
    pub fn checks(&self) -> &[(Value, Kind, String)] {
        &self.checks
    }

    fn fresh(&mut self, ty: TensorType) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        Value { id, ty }
    }

    /// Whether the statement being added stands in a region.
    pub(super) fn is_nested(&self) -> bool {
        !self.outer.is_empty()
    }

    /// Adds an operation; one value per result type.
    pub(super) fn operation(
        &mut self,
        name: &'static str,
        operands: Vec<Value>,
        attributes: String,
        regions: Vec<Region>,
        results: Vec<TensorType>,
    ) -> Vec<Value> {
        let results: Vec<Value> = results.into_iter().map(|ty| self.fresh(ty)).collect();
        self.statements.push(Statement {
            name,
            results: results.clone(),
            operands,
            attributes,
            regions,
        });
        results
    }

    /// Adds an operation with one result and no region.
    pub(super) fn single(
        &mut self,
        name: &'static str,
        operands: &[&Value],
        attributes: String,
        result: TensorType,
    ) -> Value {
        let value = self.fresh(result);
        let operands = operands.iter().map(|&operand| operand.clone()).collect();
        self.statements.push(Statement {
            name,
            results: vec![value.clone()],
            operands,
            attributes,
            regions: Vec::new(),
        });
        value
    }

    /// Builds a region: `body` gets its arguments and returns its results.
    pub(super) fn region(
        &mut self,
        arguments: &[TensorType],
        body: impl FnOnce(&mut Func, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Region> {
        let arguments: Vec<Value> = arguments.iter().map(|ty| self.fresh(ty.clone())).collect();
        self.outer.push(std::mem::take(&mut self.statements));
        let results = body(self, &arguments);
        let statements = std::mem::replace(&mut self.statements, self.outer.pop().unwrap_or_default());
        Ok(Region {
            arguments,
            statements,
            results: results?,
        })
    }

    /// The module's text, with `@main` returning `results` (the caller appends the checks' values itself). Statements and parameters
    /// that no result needs are left out.
    pub fn finish(self, results: &[Value]) -> Result<Module> {
        ensure(self.outer.is_empty(), || Error::runtime("a region is still open"))?;
        for &(param, result) in &self.aliases {
            let (from, to) = (&self.params[param].ty, results.get(result).map(|value| &value.ty));
            ensure(to == Some(from), || {
                Error::runtime(format!(
                    "parameter {param} of {from} is aliased to result {result} of {to:?}"
                ))
            })?;
        }
        Ok(super::emit::module(self, results))
    }
}
