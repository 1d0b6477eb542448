//! An overload of the dispatcher that an entry serves: what is derived from its schema, once.

use crate::error::Result;
use crate::ops::schema::{ArgType, Schema, Variant};
use crate::ops::{OpDef, table};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

#[derive(Debug)]
pub struct Overload {
    pub id: u32,
    pub def: &'static OpDef,
    pub schema: Schema,
    pub variant: Variant,
    /// The entry's operator is mapped over lists.
    pub maps_lists: bool,
    /// Argument names as the entry knows them.
    pub names: Vec<String>,
    /// Per argument: numbers are operands (run-time values), not part of the key.
    pub operand: Vec<bool>,
    /// Arguments that are written, in the order of the values that the lowering returns for them.
    pub written: Vec<usize>,
    /// `aten::add.Tensor`
    pub label: String,
    pub executed: AtomicU64,
}

impl Overload {
    /// The overload of a schema, if the table has an entry for it. `canonical` gives the argument names of a base's functional overload,
    /// longest first, by which a foreach overload's arguments are renamed.
    pub fn new(text: &str, canonical: impl Fn(&str) -> Option<Vec<String>>) -> Result<Option<Overload>> {
        let schema = Schema::parse(text)?;
        let Some(def) = schema.base_names().iter().find_map(|base| table::find(base)) else {
            return Ok(None);
        };
        if def.except.contains(&schema.overload.as_str()) {
            return Ok(None);
        }
        // A factory's device is an argument, not a tensor's: PyTorch's own makes the tensor and calls the `out=` overload.
        if schema.arguments.iter().all(|argument| argument.ty != ArgType::Tensor) {
            return Ok(None);
        }
        let maps_lists = schema.is_foreach() && !def.base.starts_with("_foreach_");
        let mut names: Vec<String> = schema.arguments.iter().map(|argument| argument.name.clone()).collect();
        if maps_lists && let Some(base_names) = canonical(def.base) {
            let positional = schema
                .arguments
                .iter()
                .filter(|argument| !argument.keyword_only)
                .count();
            for (name, base_name) in names.iter_mut().take(positional).zip(base_names) {
                *name = base_name;
            }
        }
        let operand = schema
            .arguments
            .iter()
            .zip(&names)
            .map(|(argument, name)| {
                let listed = |list: &[&str]| list.contains(&name.as_str()) || list.contains(&argument.name.as_str());
                match argument.ty {
                    ArgType::Tensor => true,
                    ArgType::Scalar => !listed(def.attributes),
                    _ => listed(def.operands),
                }
            })
            .collect();
        let annotated: Vec<usize> = (0..names.len())
            .filter(|&index| schema.arguments[index].write)
            .collect();
        let listed: Vec<usize> = def
            .writes
            .iter()
            .filter_map(|write| names.iter().position(|name| name == write))
            .collect();
        let mut variant = schema.variant();
        let written = match variant {
            Variant::Out | Variant::InPlace if def.writes.is_empty() || variant == Variant::Out => annotated,
            Variant::Functional if listed.is_empty() => Vec::new(),
            _ => {
                variant = Variant::Irregular;
                listed
            }
        };
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let label = if schema.overload.is_empty() {
            format!("aten::{}", schema.name)
        } else {
            format!("aten::{}.{}", schema.name, schema.overload)
        };
        Ok(Some(Overload {
            id: NEXT.fetch_add(1, Relaxed),
            def,
            variant,
            maps_lists,
            names,
            operand,
            written,
            label,
            executed: AtomicU64::new(0),
            schema,
        }))
    }
}
