//! A built program: its executable and the plan of what goes in and what comes out.

use crate::cache::pool::Slot;
use crate::dtype::DType;
use crate::error::Kind;
use crate::shape::Dims;
use crate::storage::TypeId;
use std::sync::Arc;

/// Where a parameter's buffer comes from. `ordinal` counts the call's distinct storages, or its operand numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    Storage { ordinal: usize, donated: bool },
    Number { ordinal: usize },
    Random,
}

/// What becomes of a result.
#[derive(Clone, Debug)]
pub enum Output {
    New(NewTensor),
    /// The new buffer of a storage.
    Write {
        ordinal: usize,
        ty: TypeId,
    },
    /// 0-d bool: false raises.
    Check {
        kind: Kind,
        message: String,
    },
    /// 0-d int64: size of axis 0 of the new tensors.
    Count,
}

/// A fresh tensor: the buffer's type and the window that it is seen through.
#[derive(Clone, Debug)]
pub struct NewTensor {
    pub ty: TypeId,
    pub dtype: DType,
    pub sizes: Dims,
    pub strides: Dims,
    pub bytes: usize,
}

/// One tensor that the caller gets back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Return {
    /// The `n`-th new tensor.
    New(usize),
    /// The call's argument of this position (in the flattened list).
    Argument(usize),
    Undefined,
}

#[derive(Debug)]
pub struct Program {
    pub key: Box<[u64]>,
    pub slot: Arc<Slot>,
    pub inputs: Vec<Input>,
    pub outputs: Vec<Output>,
    pub returns: Vec<Return>,
    /// Storages (by ordinal, ascending) that results are written to.
    pub written: Vec<usize>,
    /// Philox blocks that one run uses; 0 for programs without random numbers.
    pub random_blocks: u64,
    pub bounded: bool,
    pub label: Arc<str>,
}

impl Program {
    pub fn new_tensors(&self) -> impl Iterator<Item = &NewTensor> {
        self.outputs.iter().filter_map(|output| match output {
            Output::New(tensor) => Some(tensor),
            _ => None,
        })
    }

    pub fn has_checks(&self) -> bool {
        self.outputs.iter().any(|output| matches!(output, Output::Check { .. }))
    }
}
