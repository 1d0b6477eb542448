//! Matrix products and convolutions, decompositions, FFT.

use super::emit::{ints, list, padding};
use super::func::Func;
use super::infer::contract as infer;
use super::types::{TensorType, Value};
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};

/// `precision_config` of dots and convolutions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Precision {
    Default,
    High,
    #[default]
    Highest,
}

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

/// `[b, f, 0, 1]`: what stands at each axis.
fn roles(first: (&str, usize), second: (&str, usize), spatial: &[usize]) -> String {
    let mut roles = vec![String::new(); spatial.len() + 2];
    for (name, axis) in [first, second] {
        if let Some(role) = roles.get_mut(axis) {
            *role = name.to_owned();
        }
    }
    for (number, &axis) in spatial.iter().enumerate() {
        if let Some(role) = roles.get_mut(axis) {
            *role = number.to_string();
        }
    }
    format!("[{}]", roles.join(", "))
}

impl Func {
    /// Precision of the dots and convolutions that follow (PyTorch's `float32_matmul_precision`).
    pub fn set_precision(&mut self, precision: Precision) {
        self.precision = precision;
    }

    /// Whether dots and convolutions of float16 and bfloat16 convert their operands to float32 first (XLA:CPU lacks kernels).
    pub fn set_widen(&mut self, widen: bool) {
        self.widen = widen;
    }

    fn widened(&mut self, value: &Value) -> Result<Value> {
        if self.widen && matches!(value.dtype(), DType::F16 | DType::BF16) {
            self.convert(value, DType::F32)
        } else {
            Ok(value.clone())
        }
    }

    /// `, precision_config = […]`; nothing for integers, which have none.
    fn precision_text(&self, dtype: DType) -> String {
        if !dtype.is_inexact() {
            return String::new();
        }
        let name = match self.precision {
            Precision::Default => "DEFAULT",
            Precision::High => "HIGH",
            Precision::Highest => "HIGHEST",
        };
        format!(", precision_config = [#stablehlo<precision {name}>, #stablehlo<precision {name}>]")
    }

    /// Result: batch axes, then left's free axes, then right's. `out` is the result's dtype (also the accumulator's).
    pub fn dot_general(&mut self, left: &Value, right: &Value, dims: &DotDims, out: DType) -> Result<Value> {
        let (left, right) = (&self.widened(left)?, &self.widened(right)?);
        let ty = infer::dot_general(
            &left.ty,
            &right.ty,
            dims,
            if left.dtype() == DType::F32 { DType::F32 } else { out },
        )?;
        let mut parts = Vec::new();
        for (name, axes) in [
            ("lhs_batching_dimensions", &dims.left_batch),
            ("rhs_batching_dimensions", &dims.right_batch),
            ("lhs_contracting_dimensions", &dims.left_contract),
            ("rhs_contracting_dimensions", &dims.right_contract),
        ] {
            if !axes.is_empty() {
                parts.push(format!("{name} = {}", list(axes)));
            }
        }
        let attributes = format!(
            "dot_dimension_numbers = #stablehlo.dot<{}>{}",
            parts.join(", "),
            self.precision_text(left.dtype())
        );
        let result = self.single("stablehlo.dot_general", &[left, right], attributes, ty);
        self.convert(&result, out)
    }

    /// `[…batch, M, K] · […batch, K, N]` with equal batch dims.
    pub fn matmul(&mut self, left: &Value, right: &Value, out: DType) -> Result<Value> {
        ensure(left.rank() >= 2 && right.rank() == left.rank(), || {
            Error::runtime(format!(
                "matmul wants two values of one rank of at least 2, got {} and {}",
                left.ty, right.ty
            ))
        })?;
        let batch: Vec<usize> = (0..left.rank() - 2).collect();
        let dims = DotDims {
            left_contract: vec![left.rank() - 1],
            right_contract: vec![right.rank() - 2],
            left_batch: batch.clone(),
            right_batch: batch,
        };
        self.dot_general(left, right, &dims, out)
    }

    pub fn convolution(&mut self, left: &Value, right: &Value, config: &Convolution, out: DType) -> Result<Value> {
        let (left, right) = (&self.widened(left)?, &self.widened(right)?);
        let ty = infer::convolution(
            &left.ty,
            &right.ty,
            config,
            if left.dtype() == DType::F32 { DType::F32 } else { out },
        )?;
        let numbers = format!(
            "{}x{}->{}",
            roles(
                ("b", config.input_batch),
                ("f", config.input_feature),
                &config.input_spatial
            ),
            roles(
                ("i", config.kernel_input_feature),
                ("o", config.kernel_output_feature),
                &config.kernel_spatial
            ),
            roles(
                ("b", config.output_batch),
                ("f", config.output_feature),
                &config.output_spatial
            )
        );
        let reversal: Vec<&str> = config
            .reverse
            .iter()
            .map(|&flag| if flag { "true" } else { "false" })
            .collect();
        let reversal = if reversal.is_empty() {
            "array<i1>".into()
        } else {
            format!("array<i1: {}>", reversal.join(", "))
        };
        let attributes = format!(
            "batch_group_count = {} : i64, dimension_numbers = #stablehlo.conv<{numbers}>, feature_group_count = {} : i64, \
             lhs_dilation = {}, padding = {}, rhs_dilation = {}, window_reversal = {reversal}, window_strides = {}{}",
            config.batch_groups,
            config.feature_groups,
            ints(config.left_dilation.iter().copied()),
            padding(&config.padding),
            ints(config.right_dilation.iter().copied()),
            ints(config.stride.iter().copied()),
            self.precision_text(left.dtype())
        );
        let result = self.single("stablehlo.convolution", &[left, right], attributes, ty);
        self.convert(&result, out)
    }

    pub fn cholesky(&mut self, x: &Value, lower: bool) -> Result<Value> {
        infer::square(&x.ty, "cholesky")?;
        Ok(self.single("stablehlo.cholesky", &[x], format!("lower = {lower}"), x.ty.clone()))
    }

    /// Solves `a · x = b` (`left`) or `x · a = b`; `transpose` of `a`: `NO_TRANSPOSE`, `TRANSPOSE`, `ADJOINT`.
    pub fn triangular_solve(
        &mut self,
        a: &Value,
        b: &Value,
        left: bool,
        lower: bool,
        unit: bool,
        transpose: &str,
    ) -> Result<Value> {
        infer::square(&a.ty, "triangular_solve")?;
        ensure(a.dtype() == b.dtype() && a.rank() == b.rank(), || {
            Error::runtime(format!(
                "triangular_solve of {} and {}: dtypes and ranks must agree",
                a.ty, b.ty
            ))
        })?;
        ensure(matches!(transpose, "NO_TRANSPOSE" | "TRANSPOSE" | "ADJOINT"), || {
            Error::runtime(format!("triangular_solve: unknown transpose {transpose}"))
        })?;
        let attributes = format!(
            "left_side = {left}, lower = {lower}, transpose_a = #stablehlo<transpose {transpose}>, unit_diagonal = {unit}"
        );
        Ok(self.single("stablehlo.triangular_solve", &[a, b], attributes, b.ty.clone()))
    }

    /// `kind` is `FFT`, `IFFT`, `RFFT`, `IRFFT`; over the last `lengths.len()` axes.
    pub fn fft(&mut self, x: &Value, kind: &str, lengths: &[i64]) -> Result<Value> {
        let ty: TensorType = infer::fft(&x.ty, kind, lengths)?;
        let attributes = format!(
            "fft_length = {}, fft_type = #stablehlo<fft_type {kind}>",
            ints(lengths.iter().copied())
        );
        Ok(self.single("stablehlo.fft", &[x], attributes, ty))
    }
}
