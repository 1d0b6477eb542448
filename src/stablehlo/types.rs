//! Tensor types, SSA values and literals.

use crate::dtype::DType;
use crate::shape::Dims;

/// Element type and static dims.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    pub dtype: DType,
    pub dims: Dims,
}

impl TensorType {
    pub fn new(dtype: DType, dims: &[i64]) -> Self {
        Self {
            dtype,
            dims: Dims::from_slice(dims),
        }
    }

    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    pub fn numel(&self) -> i64 {
        crate::shape::numel(&self.dims)
    }

    pub fn with_dims(&self, dims: &[i64]) -> Self {
        Self::new(self.dtype, dims)
    }

    pub fn with_dtype(&self, dtype: DType) -> Self {
        Self {
            dtype,
            dims: self.dims.clone(),
        }
    }
}

/// `tensor<2x3xf32>`, as StableHLO text spells it.
impl std::fmt::Display for TensorType {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("tensor<")?;
        for dim in &self.dims {
            write!(formatter, "{dim}x")?;
        }
        write!(formatter, "{}>", self.dtype.mlir())
    }
}

/// One SSA value of a [`super::Func`]: its number and its type. Cheap to clone; only valid in the `Func` that made it.
#[derive(Clone, Debug)]
pub struct Value {
    pub(super) id: u32,
    pub(super) ty: TensorType,
}

impl Value {
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    pub fn dtype(&self) -> DType {
        self.ty.dtype
    }

    pub fn dims(&self) -> &[i64] {
        &self.ty.dims
    }

    pub fn rank(&self) -> usize {
        self.ty.dims.len()
    }

    pub fn dim(&self, axis: usize) -> i64 {
        self.ty.dims[axis]
    }

    pub fn numel(&self) -> i64 {
        self.ty.numel()
    }
}

/// A host-known number; converted to the dtype of the constant it becomes (as C's casts do, as PyTorch does).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Literal {
    Bool(bool),
    Int(i64),
    Float(f64),
    Complex(f64, f64),
}

impl From<bool> for Literal {
    fn from(value: bool) -> Self {
        Literal::Bool(value)
    }
}

impl From<i64> for Literal {
    fn from(value: i64) -> Self {
        Literal::Int(value)
    }
}

impl From<f64> for Literal {
    fn from(value: f64) -> Self {
        Literal::Float(value)
    }
}
