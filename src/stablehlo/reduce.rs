//! Reductions, windowed reductions and sorting.

use super::arith::{Binary, Comparison};
use super::emit::{axes as axes_text, ints, padding};
use super::func::Func;
use super::infer::reduce as infer;
use super::types::{TensorType, Value};
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};

/// An associative operation with its neutral element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[rustfmt::skip]
pub enum Monoid { Add, Multiply, Maximum, Minimum, And, Or }

impl Monoid {
    fn binary(self) -> Binary {
        match self {
            Monoid::Add => Binary::Add,
            Monoid::Multiply => Binary::Multiply,
            Monoid::Maximum => Binary::Maximum,
            Monoid::Minimum => Binary::Minimum,
            Monoid::And => Binary::And,
            Monoid::Or => Binary::Or,
        }
    }
}

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

/// The 0-d types of values, for a body's arguments.
fn scalars(values: &[Value]) -> Vec<TensorType> {
    values.iter().map(|value| value.ty.with_dims(&[])).collect()
}

fn check_results(results: &[Value], expected: &[TensorType], what: &str) -> Result<()> {
    ensure(results.iter().map(|result| &result.ty).eq(expected.iter()), || {
        Error::runtime(format!(
            "the body of {what} must return {} values of the accumulators' types",
            expected.len()
        ))
    })
}

impl Func {
    /// The neutral element of `monoid` as a 0-d constant (Maximum: lowest value).
    pub fn neutral(&mut self, monoid: Monoid, dtype: DType) -> Result<Value> {
        match monoid {
            Monoid::Add | Monoid::Or => Ok(self.constant(dtype, &[], 0i64)),
            Monoid::Multiply => Ok(self.constant(dtype, &[], 1i64)),
            Monoid::And if dtype.is_bool() => Ok(self.constant(dtype, &[], true)),
            Monoid::And => Ok(self.constant(dtype, &[], -1i64)),
            Monoid::Maximum => self.lowest(dtype),
            Monoid::Minimum => self.highest(dtype),
        }
    }

    /// `[d0 … dn]` → the listed axes removed. Adds up in the operand's own dtype: convert first where a wider one is due.
    /// Maximum and Minimum return NaN when one is present.
    pub fn reduce(&mut self, x: &Value, monoid: Monoid, axes: &[usize]) -> Result<Value> {
        if axes.is_empty() {
            return Ok(x.clone());
        }
        let initial = self.neutral(monoid, x.dtype())?;
        let results = self.reduce_with(std::slice::from_ref(x), &[initial], axes, |f, left, right| {
            Ok(vec![f.binary(monoid.binary(), &left[0], &right[0])?])
        })?;
        Ok(results[0].clone())
    }

    /// As `reduce`, with the removed axes kept as size 1.
    pub fn reduce_keep(&mut self, x: &Value, monoid: Monoid, axes: &[usize]) -> Result<Value> {
        let reduced = self.reduce(x, monoid, axes)?;
        let dims: Vec<i64> = x
            .dims()
            .iter()
            .enumerate()
            .map(|(axis, &dim)| if axes.contains(&axis) { 1 } else { dim })
            .collect();
        self.reshape(&reduced, &dims)
    }

    /// General: several operands of equal dims, one 0-d initial value each; `body` gets the accumulators, then the elements (0-d
    /// each), and returns the new accumulators.
    pub fn reduce_with(
        &mut self,
        operands: &[Value],
        initial: &[Value],
        axes: &[usize],
        body: impl FnOnce(&mut Func, &[Value], &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        let types = infer::reduce(&types(operands), &types(initial), axes)?;
        let region = self.accumulator("reduce", initial, operands, body)?;
        let all = operands.iter().chain(initial).cloned().collect();
        let mut sorted = axes.to_vec();
        sorted.sort_unstable();
        Ok(self.operation(
            "stablehlo.reduce",
            all,
            format!("dimensions = {}", axes_text(&sorted)),
            vec![region],
            types,
        ))
    }

    fn accumulator(
        &mut self,
        what: &str,
        initial: &[Value],
        operands: &[Value],
        body: impl FnOnce(&mut Func, &[Value], &[Value]) -> Result<Vec<Value>>,
    ) -> Result<super::func::Region> {
        let count = operands.len();
        let mut arguments = scalars(initial);
        arguments.extend(scalars(operands));
        let region = self.region(&arguments, |f, values| body(f, &values[..count], &values[count..]))?;
        check_results(&region.results, &arguments[..count], what)?;
        Ok(region)
    }

    pub fn reduce_window(&mut self, x: &Value, monoid: Monoid, window: &Window) -> Result<Value> {
        let initial = self.neutral(monoid, x.dtype())?;
        let results = self.reduce_window_with(std::slice::from_ref(x), &[initial], window, |f, left, right| {
            Ok(vec![f.binary(monoid.binary(), &left[0], &right[0])?])
        })?;
        Ok(results[0].clone())
    }

    /// General windowed reduction of several operands, as `reduce_with`.
    pub fn reduce_window_with(
        &mut self,
        operands: &[Value],
        initial: &[Value],
        window: &Window,
        body: impl FnOnce(&mut Func, &[Value], &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        let types = infer::reduce_window(&types(operands), &types(initial), window)?;
        let region = self.accumulator("reduce_window", initial, operands, body)?;
        let all = operands.iter().chain(initial).cloned().collect();
        let attributes = format!(
            "window_dimensions = {}, window_strides = {}, base_dilations = {}, window_dilations = {}, padding = {}",
            ints(window.size.iter().copied()),
            ints(window.stride.iter().copied()),
            ints(window.base_dilation.iter().copied()),
            ints(window.dilation.iter().copied()),
            padding(&window.padding)
        );
        Ok(self.operation("stablehlo.reduce_window", all, attributes, vec![region], types))
    }

    /// StableHLO's `select_and_scatter` with `>=` (max pooling's gradient) and addition. Stride, size and padding only.
    pub fn select_and_scatter(&mut self, x: &Value, source: &Value, window: &Window) -> Result<Value> {
        let pooled = infer::reduce_window(&[&x.ty], &[&x.ty.with_dims(&[])], window)?;
        ensure(pooled.first() == Some(&source.ty), || {
            Error::runtime(format!(
                "select_and_scatter: source {} is not what the window makes of {}",
                source.ty, x.ty
            ))
        })?;
        let scalar = x.ty.with_dims(&[]);
        let select = self.region(&[scalar.clone(), scalar.clone()], |f, values| {
            Ok(vec![f.compare(Comparison::Ge, &values[0], &values[1])?])
        })?;
        let scatter = self.region(&[scalar.clone(), scalar], |f, values| {
            Ok(vec![f.add(&values[0], &values[1])?])
        })?;
        let zero = self.constant(x.dtype(), &[], 0i64);
        let attributes = format!(
            "window_dimensions = {}, window_strides = {}, padding = {}",
            ints(window.size.iter().copied()),
            ints(window.stride.iter().copied()),
            padding(&window.padding)
        );
        let operands = vec![x.clone(), source.clone(), zero];
        let results = self.operation(
            "stablehlo.select_and_scatter",
            operands,
            attributes,
            vec![select, scatter],
            vec![x.ty.clone()],
        );
        Ok(results[0].clone())
    }

    /// Sorts all operands along `axis` by `less(f, left, right)` where both hold one 0-d value per operand; returns 0-d bool.
    pub fn sort(
        &mut self,
        operands: &[Value],
        axis: usize,
        stable: bool,
        less: impl FnOnce(&mut Func, &[Value], &[Value]) -> Result<Value>,
    ) -> Result<Vec<Value>> {
        let types = infer::sort(&types(operands), axis)?;
        let arguments: Vec<TensorType> = operands
            .iter()
            .flat_map(|operand| [operand.ty.with_dims(&[]), operand.ty.with_dims(&[])])
            .collect();
        let region = self.region(&arguments, |f, values| {
            let left: Vec<Value> = values.iter().step_by(2).cloned().collect();
            let right: Vec<Value> = values.iter().skip(1).step_by(2).cloned().collect();
            Ok(vec![less(f, &left, &right)?])
        })?;
        check_results(&region.results, &[TensorType::new(DType::Bool, &[])], "sort")?;
        let attributes = format!("dimension = {axis} : i64, is_stable = {stable}");
        Ok(self.operation("stablehlo.sort", operands.to_vec(), attributes, vec![region], types))
    }
}

fn types(values: &[Value]) -> Vec<&TensorType> {
    values.iter().map(|value| &value.ty).collect()
}
