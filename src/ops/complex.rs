use super::table::OpDef;

pub(super) const OPS: &[OpDef] = &[];
