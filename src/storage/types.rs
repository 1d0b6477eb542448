//! Buffer types by number: a key word instead of a dtype and a list of dims.

use crate::stablehlo::TensorType;
use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use std::sync::{Arc, LazyLock};

/// The number of a [`TensorType`]; 0 stands for "no buffer yet". Numbers are never reused within a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct TypeId(u32);

#[derive(Default)]
struct Table {
    by_id: Vec<Arc<TensorType>>,
    by_type: FxHashMap<Arc<TensorType>, TypeId>,
}

static TABLE: LazyLock<RwLock<Table>> = LazyLock::new(RwLock::default);

impl TypeId {
    pub const EMPTY: TypeId = TypeId(0);

    pub fn of(ty: &TensorType) -> TypeId {
        if let Some(&id) = TABLE.read().by_type.get(ty) {
            return id;
        }
        let mut table = TABLE.write();
        if let Some(&id) = table.by_type.get(ty) {
            return id;
        }
        let ty = Arc::new(ty.clone());
        table.by_id.push(ty.clone());
        let id = TypeId(table.by_id.len() as u32);
        table.by_type.insert(ty, id);
        id
    }

    /// `None` for [`TypeId::EMPTY`].
    pub fn get(self) -> Option<Arc<TensorType>> {
        self.0
            .checked_sub(1)
            .map(|index| TABLE.read().by_id[index as usize].clone())
    }

    pub fn number(self) -> u32 {
        self.0
    }
}
