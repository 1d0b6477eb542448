//! The arguments of one call as plain, borrowed data.

use crate::device::generator::Generator;
use crate::dtype::DType;
use crate::promote::Category;
use crate::stablehlo::Literal;
use crate::storage::Storage;
use std::sync::Arc;

/// A device tensor: a window onto a storage, borrowed from the caller for the length of the call.
#[derive(Clone, Copy, Debug)]
pub struct TensorArgument<'a> {
    pub storage: &'a Arc<Storage>,
    pub dtype: DType,
    pub sizes: &'a [i64],
    pub strides: &'a [i64],
    pub offset: i64,
    pub conj: bool,
    pub neg: bool,
}

/// One argument, or one element of a list: a list's header comes first, then its elements.
#[derive(Clone, Copy, Debug)]
pub enum Argument<'a> {
    None,
    Tensor(TensorArgument<'a>),
    /// A number, or a 0-d tensor on the CPU (`Category::ZeroDim`), which PyTorch lets any operator take. With the dtype that a CPU
    /// tensor has.
    Number(Literal, Category, DType),
    /// The next `.0` arguments are the elements of a list of tensors or numbers.
    List(usize),
    Ints(&'a [i64]),
    Floats(&'a [f64]),
    Text(&'a str),
    Generator(&'a Arc<Generator>),
}
