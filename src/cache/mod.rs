//! Executables: the compile pool and the in-memory table of programs.

pub mod memory;
pub mod pool;
pub mod statistics;
