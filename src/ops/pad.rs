//! Reflection and replication padding of the trailing axes, and the gradients: index maps per axis and their transposes.

use super::axis_map::AxisMap;
use super::call::{Call, Outputs};
use super::table::OpDef;
use crate::error::{Error, Result, ensure};
use crate::stablehlo::Func;

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("reflection_pad1d", |f, call| forward(f, call, Mode::Reflect)),
    OpDef::new("reflection_pad2d", |f, call| forward(f, call, Mode::Reflect)),
    OpDef::new("reflection_pad3d", |f, call| forward(f, call, Mode::Reflect)),
    OpDef::new("replication_pad1d", |f, call| forward(f, call, Mode::Replicate)),
    OpDef::new("replication_pad2d", |f, call| forward(f, call, Mode::Replicate)),
    OpDef::new("replication_pad3d", |f, call| forward(f, call, Mode::Replicate)),
    OpDef::new("reflection_pad1d_backward", |f, call| backward(f, call, Mode::Reflect)),
    OpDef::new("reflection_pad2d_backward", |f, call| backward(f, call, Mode::Reflect)),
    OpDef::new("reflection_pad3d_backward", |f, call| backward(f, call, Mode::Reflect)),
    OpDef::new("replication_pad1d_backward", |f, call| {
        backward(f, call, Mode::Replicate)
    }),
    OpDef::new("replication_pad2d_backward", |f, call| {
        backward(f, call, Mode::Replicate)
    }),
    OpDef::new("replication_pad3d_backward", |f, call| {
        backward(f, call, Mode::Replicate)
    }),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Mirrored about the edge element, which is not repeated.
    Reflect,
    /// The edge element repeated.
    Replicate,
}

/// Axis and map of each padded axis; `padding` lists (low, high) from the last axis on.
fn maps(call: &Call, dims: &[i64], mode: Mode) -> Result<Vec<(usize, AxisMap)>> {
    let padding = call.ints("padding")?;
    ensure(padding.len() % 2 == 0 && padding.len() / 2 <= dims.len(), || {
        Error::runtime(format!(
            "padding size {} does not fit an input of {} dimensions",
            padding.len(),
            dims.len()
        ))
    })?;
    padding
        .chunks_exact(2)
        .enumerate()
        .map(|(back, pair)| {
            let axis = dims.len() - 1 - back;
            let (size, low, high) = (dims[axis], pair[0], pair[1]);
            let output = size.saturating_add(low).saturating_add(high);
            ensure(size > 0 && output >= 1, || {
                Error::runtime(format!("input (size {size} at dimension {axis}) is too small for padding ({low}, {high}): calculated output {output}"))
            })?;
            ensure(mode == Mode::Replicate || (low < size && high < size), || {
                Error::runtime(format!(
                    "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding ({low}, {high}) at dimension {axis} of input {dims:?}"
                ))
            })?;
            let source = |position: i64| match mode {
                Mode::Replicate => (position - low).clamp(0, size - 1),
                Mode::Reflect => {
                    let index = (position - low).abs();
                    if index >= size { 2 * (size - 1) - index } else { index }
                }
            };
            Ok((axis, AxisMap { input: size, rows: (0..output).map(|position| vec![(source(position), 1.0)]).collect() }))
        })
        .collect()
}

fn forward(f: &mut Func, call: &Call, mode: Mode) -> Result<Outputs> {
    let x = call.tensor("self")?;
    let mut value = x.value.clone();
    for (axis, map) in maps(call, x.dims(), mode)? {
        value = map.apply(f, &value, axis)?;
    }
    Ok(value.into())
}

fn backward(f: &mut Func, call: &Call, mode: Mode) -> Result<Outputs> {
    let (gradient, x) = (call.tensor("grad_output")?, call.tensor("self")?);
    let mut value = f.convert(gradient, gradient.dtype().opmath())?;
    for (axis, map) in maps(call, x.dims(), mode)? {
        value = map.transposed().apply(f, &value, axis)?;
    }
    Ok(f.convert(&value, x.dtype())?.into())
}
