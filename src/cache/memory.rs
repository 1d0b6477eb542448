//! The in-memory table: structural key → program.

use crate::dispatch::program::Program;
use hashbrown::HashTable;
use parking_lot::RwLock;
use rustc_hash::FxHasher;
use std::hash::Hasher;
use std::sync::Arc;

/// Programs by the words of their key. A hit compares the whole key, not its hash only.
pub struct Programs {
    table: RwLock<HashTable<Arc<Program>>>,
}

pub static PROGRAMS: Programs = Programs {
    table: RwLock::new(HashTable::new()),
};

pub fn hash(key: &[u64]) -> u64 {
    let mut hasher = FxHasher::default();
    for &word in key {
        hasher.write_u64(word);
    }
    hasher.finish()
}

impl Programs {
    pub fn find(&self, hash: u64, key: &[u64]) -> Option<Arc<Program>> {
        self.table.read().find(hash, |program| *program.key == *key).cloned()
    }

    /// Puts a program in; the one that another thread put in first wins.
    pub fn insert(&self, hash_of_key: u64, program: Arc<Program>) -> Arc<Program> {
        let mut table = self.table.write();
        if let Some(first) = table.find(hash_of_key, |other| other.key == program.key) {
            return first.clone();
        }
        table.insert_unique(hash_of_key, program.clone(), |other| hash(&other.key));
        program
    }

    pub fn len(&self) -> usize {
        self.table.read().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
