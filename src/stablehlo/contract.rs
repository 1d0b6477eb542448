//! Matrix products and convolutions, decompositions, FFT.

use super::func::Func;
use super::types::Value;
use crate::dtype::DType;
use crate::error::Result;

/// `precision_config` of dots and convolutions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Precision { Default, High, #[default] Highest }

#[derive(Clone, Debug, Default)]
pub struct DotDims {
    pub left_batch: Vec<usize>,
    pub right_batch: Vec<usize>,
    pub left_contract: Vec<usize>,
    pub right_contract: Vec<usize>,
}

/// Window and dimension numbers of a convolution. The axes lists say where each role stands: `input_*` in the left operand,
/// `kernel_*` in the right, `output_*` in the result.
#[derive(Clone, Debug)]
pub struct Convolution {
    pub stride: Vec<i64>,
    pub padding: Vec<(i64, i64)>,
    pub left_dilation: Vec<i64>,
    pub right_dilation: Vec<i64>,
    /// `window_reversal`
    pub reverse: Vec<bool>,
    pub input_batch: usize,
    pub input_feature: usize,
    pub input_spatial: Vec<usize>,
    pub kernel_input_feature: usize,
    pub kernel_output_feature: usize,
    pub kernel_spatial: Vec<usize>,
    pub output_batch: usize,
    pub output_feature: usize,
    pub output_spatial: Vec<usize>,
    pub feature_groups: i64,
    pub batch_groups: i64,
}

impl Func {
    /// Precision of the dots and convolutions that follow (PyTorch's `float32_matmul_precision`).
    pub fn set_precision(&mut self, precision: Precision) { todo!() }
    /// Result: batch axes, then left's free axes, then right's. `out` is the result's dtype (also the accumulator's).
    pub fn dot_general(&mut self, left: &Value, right: &Value, dims: &DotDims, out: DType) -> Result<Value> { todo!() }
    /// `[…batch, M, K] · […batch, K, N]` with equal batch dims.
    pub fn matmul(&mut self, left: &Value, right: &Value, out: DType) -> Result<Value> { todo!() }
    pub fn convolution(&mut self, left: &Value, right: &Value, config: &Convolution, out: DType) -> Result<Value> { todo!() }
    pub fn cholesky(&mut self, x: &Value, lower: bool) -> Result<Value> { todo!() }
    /// Solves `a · x = b` (`left`) or `x · a = b`; `transpose` of `a`: `NO_TRANSPOSE`, `TRANSPOSE`, `ADJOINT`.
    pub fn triangular_solve(&mut self, a: &Value, b: &Value, left: bool, lower: bool, unit: bool, transpose: &str) -> Result<Value> { todo!() }
    /// `kind` is `FFT`, `IFFT`, `RFFT`, `IRFFT`; over the last `lengths.len()` axes.
    pub fn fft(&mut self, x: &Value, kind: &str, lengths: &[i64]) -> Result<Value> { todo!() }
}
