//! Shape inference: types in, type or error out; no builder, no I/O.
