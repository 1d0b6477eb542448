//! The function under construction: parameters, statements, nested regions, results and the text.

use super::types::{TensorType, Value};
use crate::error::Result;

/// One StableHLO function being built. Every method that adds an operation checks its operands and returns typed values.
#[derive(Debug, Default)]
pub struct Func {}

impl Func {
    /// A parameter of the function, in order of the calls.
    pub fn param(&mut self, ty: TensorType) -> Value {
        todo!()
    }

    /// Parameter `param`'s buffer may be reused for result `result` (`tf.aliasing_output`; same type, each at most once).
    pub fn alias(&mut self, param: usize, result: usize) -> Result<()> {
        todo!()
    }

    /// A run-time check: the program gets one more result, a 0-d bool that is false when `ok` (0-d bool) is; the runtime
    /// raises an error of `kind` with `message` when it reads false.
    pub fn check(&mut self, ok: &Value, kind: crate::error::Kind, message: &str) -> Result<()> {
        todo!()
    }

    /// The checks so far, for the caller of `finish`: `(value, kind, message)`.
    pub fn checks(&self) -> &[(Value, crate::error::Kind, String)] {
        todo!()
    }

    /// The module's text, with `@main` returning `results` (the caller appends the checks' values itself). Statements and parameters
    /// that no result needs are left out.
    pub fn finish(self, results: &[Value]) -> Result<Module> {
        todo!()
    }
}

/// A finished program.
#[derive(Clone, Debug)]
pub struct Module {
    pub text: String,
    /// The parameters that `@main` really has: positions in the order of the `param` calls, ascending.
    pub params: Vec<usize>,
    pub results: Vec<TensorType>,
}
