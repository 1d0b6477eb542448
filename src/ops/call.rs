//! The typed arguments of one call, as a lowering sees them: by name, since overloads differ in position.

use crate::dtype::DType;
use crate::error::{Error, Kind, Result};
use crate::promote::{self, Category};
use crate::shape;
use crate::stablehlo::{Func, Literal, Value};
use std::cell::Cell;
use std::ops::Deref;

/// A tensor or an operand scalar inside the program, with its weight in type promotion. Dereferences to its [`Value`].
#[derive(Clone, Debug)]
pub struct Operand {
    pub value: Value,
    pub category: Category,
}

impl Operand {
    /// A tensor: its category follows from its rank.
    pub fn tensor(value: Value) -> Self {
        let category = if value.rank() == 0 {
            Category::ZeroDim
        } else {
            Category::Dimensioned
        };
        Self { value, category }
    }

    /// A Python number: a 0-d value of dtype bool, int64, float64 or complex128.
    pub fn number(value: Value) -> Self {
        Self {
            value,
            category: Category::Number,
        }
    }

    pub fn promotion(&self) -> (DType, Category) {
        (self.value.dtype(), self.category)
    }
}

impl Deref for Operand {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

/// A host-known number (an attribute).
pub type Scalar = Literal;

/// One argument.
#[derive(Clone, Debug)]
pub enum Arg {
    /// `None`, or an optional tensor that is undefined.
    None,
    /// A tensor, or an operand number.
    Tensor(Operand),
    /// A list of tensors or operand numbers; `None` for undefined elements.
    Tensors(Vec<Option<Operand>>),
    /// An attribute number (`Scalar`, `int`, `float`, `bool`; a dtype, memory format or layout is its integer code).
    Scalar(Scalar),
    /// A list of attribute numbers.
    Scalars(Vec<Scalar>),
    Text(String),
}

/// A call of one operator: its base entry's functional form.
#[derive(Debug)]
pub struct Call<'a> {
    /// Overload name as in the schema, such as `Tensor`, `dim_IntList`; empty for the default one.
    pub overload: &'a str,
    pub names: &'a [String],
    pub args: Vec<Arg>,
    /// `torch.get_default_dtype()`
    pub default_dtype: DType,
    /// Debug mode: indices are checked by the program.
    pub debug: bool,
    /// `[2] uint64`: Philox key and counter, for entries marked `random`.
    pub random_state: Option<Value>,
    /// 128-bit Philox blocks used so far: the dispatcher advances the generator by the total.
    pub random_blocks: Cell<u64>,
}

impl Call<'_> {
    fn find(&self, name: &str) -> Option<&Arg> {
        self.names
            .iter()
            .position(|candidate| candidate == name)
            .map(|index| &self.args[index])
    }

    fn get(&self, name: &str) -> Result<&Arg> {
        self.find(name)
            .ok_or_else(|| Error::runtime(format!("overload {:?} has no argument `{name}`", self.overload)))
    }

    fn wrong(&self, name: &str, expected: &str) -> Error {
        Error::type_error(format!(
            "argument `{name}` must be {expected}, got {:?}",
            self.find(name)
        ))
    }

    /// Whether the overload has the argument and it is not `None`.
    pub fn has(&self, name: &str) -> bool {
        !matches!(self.find(name), None | Some(Arg::None))
    }

    /// A tensor or an operand number; an error when absent or `None`.
    pub fn tensor(&self, name: &str) -> Result<&Operand> {
        match self.get(name)? {
            Arg::Tensor(operand) => Ok(operand),
            _ => Err(self.wrong(name, "a tensor")),
        }
    }

    /// As `tensor`; `None` when the overload lacks it or it is undefined.
    pub fn tensor_opt(&self, name: &str) -> Option<&Operand> {
        match self.find(name)? {
            Arg::Tensor(operand) => Some(operand),
            _ => None,
        }
    }

    /// A list of tensors (or operand numbers), all defined.
    pub fn tensors(&self, name: &str) -> Result<Vec<&Operand>> {
        match self.get(name)? {
            Arg::Tensors(list) => list
                .iter()
                .map(|item| item.as_ref().ok_or_else(|| self.wrong(name, "a list of tensors")))
                .collect(),
            _ => Err(self.wrong(name, "a list of tensors")),
        }
    }

    /// A list of optional tensors (`index`'s indices).
    pub fn tensors_opt(&self, name: &str) -> Result<&[Option<Operand>]> {
        match self.get(name)? {
            Arg::Tensors(list) => Ok(list),
            _ => Err(self.wrong(name, "a list of tensors")),
        }
    }

    /// An attribute number.
    pub fn scalar(&self, name: &str) -> Result<Scalar> {
        self.scalar_opt(name)?.ok_or_else(|| self.wrong(name, "a number"))
    }

    pub fn scalar_opt(&self, name: &str) -> Result<Option<Scalar>> {
        match self.find(name) {
            None | Some(Arg::None) => Ok(None),
            Some(Arg::Scalar(scalar)) => Ok(Some(*scalar)),
            _ => Err(self.wrong(name, "a number known when the program is built")),
        }
    }

    pub fn int(&self, name: &str) -> Result<i64> {
        self.int_opt(name)?.ok_or_else(|| self.wrong(name, "an integer"))
    }

    pub fn int_opt(&self, name: &str) -> Result<Option<i64>> {
        match self.scalar_opt(name)? {
            None => Ok(None),
            Some(Literal::Int(value)) => Ok(Some(value)),
            Some(Literal::Bool(value)) => Ok(Some(value.into())),
            _ => Err(self.wrong(name, "an integer")),
        }
    }

    pub fn float(&self, name: &str) -> Result<f64> {
        self.float_opt(name)?.ok_or_else(|| self.wrong(name, "a number"))
    }

    pub fn float_opt(&self, name: &str) -> Result<Option<f64>> {
        match self.scalar_opt(name)? {
            None => Ok(None),
            Some(Literal::Float(value)) => Ok(Some(value)),
            Some(Literal::Int(value)) => Ok(Some(value as f64)),
            Some(Literal::Bool(value)) => Ok(Some(value.into())),
            _ => Err(self.wrong(name, "a real number")),
        }
    }

    /// A bool argument; false when the overload lacks it or it is `None`.
    pub fn flag(&self, name: &str) -> Result<bool> {
        Ok(self.int_opt(name)?.unwrap_or(0) != 0)
    }

    /// A list of integers; `None` when absent.
    pub fn ints_opt(&self, name: &str) -> Result<Option<Vec<i64>>> {
        match self.find(name) {
            None | Some(Arg::None) => Ok(None),
            Some(Arg::Scalar(Literal::Int(value))) => Ok(Some(vec![*value])),
            Some(Arg::Scalars(list)) => list
                .iter()
                .map(|scalar| match scalar {
                    Literal::Int(value) => Ok(*value),
                    Literal::Bool(value) => Ok((*value).into()),
                    _ => Err(self.wrong(name, "a list of integers")),
                })
                .collect::<Result<_>>()
                .map(Some),
            _ => Err(self.wrong(name, "a list of integers")),
        }
    }

    pub fn ints(&self, name: &str) -> Result<Vec<i64>> {
        self.ints_opt(name)?
            .ok_or_else(|| self.wrong(name, "a list of integers"))
    }

    pub fn floats_opt(&self, name: &str) -> Result<Option<Vec<f64>>> {
        match self.find(name) {
            None | Some(Arg::None) => Ok(None),
            Some(Arg::Scalars(list)) => list
                .iter()
                .map(|scalar| match scalar {
                    Literal::Float(value) => Ok(*value),
                    Literal::Int(value) => Ok(*value as f64),
                    _ => Err(self.wrong(name, "a list of numbers")),
                })
                .collect::<Result<_>>()
                .map(Some),
            _ => Err(self.wrong(name, "a list of numbers")),
        }
    }

    pub fn text_opt(&self, name: &str) -> Option<&str> {
        match self.find(name)? {
            Arg::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A `ScalarType?` argument.
    pub fn dtype_opt(&self, name: &str) -> Result<Option<DType>> {
        self.int_opt(name)?.map(DType::from_torch).transpose()
    }

    /// One axis, wrapped (`IndexError` when out of range).
    pub fn axis(&self, name: &str, rank: usize) -> Result<usize> {
        shape::wrap_axis(self.int(name)?, rank)
    }

    /// A list of axes, wrapped, ascending; absent or empty means all. Duplicates are an error.
    pub fn axes(&self, name: &str, rank: usize) -> Result<Vec<usize>> {
        let listed = self.ints_opt(name)?.unwrap_or_default();
        if listed.is_empty() {
            return Ok((0..rank).collect());
        }
        let mut axes = listed
            .into_iter()
            .map(|axis| shape::wrap_axis(axis, rank))
            .collect::<Result<Vec<_>>>()?;
        axes.sort_unstable();
        if let Some(pair) = axes.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::runtime(format!(
                "dim {} appears multiple times in the list of dims",
                pair[0]
            )));
        }
        axes.retain(|&axis| axis < rank); // a 0-d tensor takes dim 0 and -1
        Ok(axes)
    }

    /// `torch.result_type` of the operands.
    pub fn result_type(&self, operands: &[&Operand]) -> Result<DType> {
        promote::result_type(operands.iter().map(|operand| operand.promotion()), self.default_dtype)
    }

    /// Fresh Philox bits of an unsigned dtype (`U32` or `U64`); the entry must be marked `random`.
    pub fn random_bits(&self, f: &mut Func, dtype: DType, dims: &[i64]) -> Result<Value> {
        let state = self
            .random_state
            .as_ref()
            .ok_or_else(|| Error::runtime("entry is not marked random"))?;
        let used = self.random_blocks.get();
        let blocks = (shape::numel(dims) as u64 * dtype.bytes() as u64).div_ceil(16).max(1);
        self.random_blocks.set(used + blocks);
        let offset = f.constant_ints(DType::U64, &[0, used as i64]);
        let state = f.add(state, &offset)?;
        f.random_bits(&state, dtype, dims)
    }

    /// In debug mode: the program checks that `indices` (an integer value) lie in `-size..size` (`low` = -size) or `0..size`.
    pub fn check_indices(&self, f: &mut Func, indices: &Value, low: i64, size: i64) -> Result<()> {
        use crate::stablehlo::{Comparison, Monoid};
        if !self.debug || indices.numel() == 0 {
            return Ok(());
        }
        let above = f.compare_const(Comparison::Ge, indices, low)?;
        let below = f.compare_const(Comparison::Lt, indices, size)?;
        let inside = f.and(&above, &below)?;
        let axes: Vec<usize> = (0..inside.rank()).collect();
        let ok = f.reduce(&inside, Monoid::And, &axes)?;
        f.check(
            &ok,
            Kind::Index,
            &format!("index out of range: it must lie in [{low}, {}]", size - 1),
        )
    }
}

/// The results of a lowering, in the schema's order; a tensor list is flattened; `None` is an undefined tensor (or, for a written
/// argument, one left unchanged).
#[derive(Clone, Debug, Default)]
pub struct Outputs(pub Vec<Option<Value>>);

impl Outputs {
    pub fn one(value: Value) -> Self {
        Self(vec![Some(value)])
    }

    pub fn all(values: impl IntoIterator<Item = Value>) -> Self {
        Self(values.into_iter().map(Some).collect())
    }
}

impl From<Value> for Outputs {
    fn from(value: Value) -> Self {
        Self::one(value)
    }
}
