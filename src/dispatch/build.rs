//! Building a program on a miss: arguments → lowering → results and writes → StableHLO text → the compile pool.

use super::arguments::{Argument, TensorArgument};
use super::key::Inputs;
use super::layout;
use super::numbers;
use super::overload::Overload;
use super::program::{Input, NewTensor, Output, Program, Return};
use crate::cache::pool;
use crate::device::registry;
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::ops::common::scalar_type;
use crate::ops::schema::Variant;
use crate::ops::{Arg, Call, Operand, Outputs};
use crate::promote::{Category, can_cast};
use crate::shape::Dims;
use crate::stablehlo::{Func, Precision, TensorType, Value};
use crate::storage::{TypeId, Window, read, statistics, whole_type, write, write_whole};
use std::cell::Cell;
use std::sync::Arc;

/// Globals that a program depends on, packed by the shim: see `cpp_shim/boxed.cc`.
#[derive(Clone, Copy, Debug)]
pub struct Context(pub u64);

impl Context {
    pub fn default_dtype(self) -> DType {
        DType::from_torch((self.0 & 0xff) as i64).unwrap_or(DType::F32)
    }

    pub fn precision(self) -> Precision {
        match self.0 >> 8 & 3 {
            1 => Precision::High,
            2 => Precision::Default,
            _ => Precision::Highest,
        }
    }

    pub fn debug(self) -> bool {
        self.0 >> 10 & 1 == 1
    }
}

pub enum Built {
    Program(Program),
    /// The `out=` tensors (by flattened argument position) must be resized first.
    Resize(Vec<(usize, Dims)>),
}

/// One argument of the schema: a single record, or a list of them.
enum Grouped<'a> {
    One(&'a Argument<'a>, usize),
    Many(&'a [Argument<'a>], usize),
}

fn group<'a>(arguments: &'a [Argument<'a>]) -> Vec<Grouped<'a>> {
    let mut groups = Vec::new();
    let mut position = 0;
    while let Some(argument) = arguments.get(position) {
        if let Argument::List(count) = argument {
            let first = position + 1;
            groups.push(Grouped::Many(
                &arguments[first..(first + count).min(arguments.len())],
                first,
            ));
            position = first + count;
        } else {
            groups.push(Grouped::One(argument, position));
            position += 1;
        }
    }
    groups
}

struct Builder<'a, 'i> {
    f: Func,
    overload: &'a Overload,
    device: u16,
    inputs: &'a Inputs<'i>,
    /// Value of each storage's buffer; made on first use for empty ones.
    bases: Vec<Option<Value>>,
    numbers: Vec<Value>,
    next_number: usize,
    /// Sizes and strides of the tensors read, for the results' strides.
    windows: Vec<(Dims, Dims)>,
}

pub fn build(
    overload: &Overload,
    context: Context,
    arguments: &[Argument],
    inputs: &Inputs,
    device: u16,
    key: &[u64],
) -> Result<Built> {
    let mut f = Func::default();
    f.set_precision(context.precision());
    let platform = registry::runtime()?.client.platform_name();
    f.set_widen(platform == "cpu");
    crate::ops::set_platform(platform);
    let mut plan = Vec::new();
    let mut bases = Vec::new();
    for (ordinal, ty) in inputs.types.iter().enumerate() {
        bases.push(ty.get().map(|ty| {
            plan.push(Input::Storage {
                ordinal,
                donated: false,
            });
            f.param((*ty).clone())
        }));
    }
    let mut numbers = Vec::new();
    for (ordinal, &number) in inputs.numbers.iter().enumerate() {
        plan.push(Input::Number { ordinal });
        numbers.push(f.param(TensorType::new(numbers::dtype(number), &[])));
    }
    let random_state = overload.def.random.then(|| {
        plan.push(Input::Random);
        f.param(TensorType::new(DType::U64, &[2]))
    });

    let mut builder = Builder {
        f,
        overload,
        device,
        inputs,
        bases,
        numbers,
        next_number: 0,
        windows: Vec::new(),
    };
    let groups = group(arguments);
    let mut call = Call {
        overload: &overload.schema.overload,
        names: &overload.names,
        args: groups
            .iter()
            .enumerate()
            .map(|(index, group)| builder.argument(index, group))
            .collect::<Result<_>>()?,
        default_dtype: context.default_dtype(),
        debug: context.debug(),
        random_state,
        random_blocks: Cell::new(0),
    };
    let mut values = if overload.maps_lists {
        builder.map_lists(&mut call)?
    } else {
        (overload.def.lower)(&mut builder.f, &call)?.0
    };
    let random_blocks = call.random_blocks.get();
    drop(call);

    // What is written, by flattened argument position.
    let targets: Vec<(usize, &TensorArgument)> = overload
        .written
        .iter()
        .filter_map(|&index| groups.get(index))
        .flat_map(|group| match group {
            Grouped::One(argument, position) => vec![(*argument, *position)],
            Grouped::Many(list, first) => list
                .iter()
                .enumerate()
                .map(|(offset, argument)| (argument, first + offset))
                .collect(),
        })
        .filter_map(|(argument, position)| match argument {
            Argument::Tensor(tensor) => Some((position, tensor)),
            _ => None,
        })
        .collect();
    let count = if overload.def.bounded {
        values.pop().flatten()
    } else {
        None
    };
    // Written values follow the functional results; a bare in-place or out= variant has nothing else.
    let functional = if overload.variant == Variant::Irregular {
        let written_slots: usize = overload
            .written
            .iter()
            .filter_map(|&index| groups.get(index))
            .map(|group| match group {
                Grouped::One(..) => 1,
                Grouped::Many(list, _) => list.len(),
            })
            .sum();
        values.len().saturating_sub(written_slots)
    } else if overload.variant == Variant::Functional {
        values.len()
    } else {
        0
    };
    let stored = values.split_off(functional);

    // Resizing is the shim's work, before anything is stored.
    if overload.variant == Variant::Out {
        let wrong: Vec<(usize, Dims)> = stored
            .iter()
            .zip(&targets)
            .filter_map(|(value, (position, tensor))| {
                let value = value.as_ref()?;
                (value.dims() != tensor.sizes).then(|| (*position, Dims::from_slice(value.dims())))
            })
            .collect();
        if !wrong.is_empty() {
            return Ok(Built::Resize(wrong));
        }
    }
    builder.finish(Finish {
        plan,
        key,
        functional: values,
        stored,
        targets,
        count,
        random_blocks,
    })
}

struct Finish<'a> {
    plan: Vec<Input>,
    key: &'a [u64],
    functional: Vec<Option<Value>>,
    stored: Vec<Option<Value>>,
    targets: Vec<(usize, &'a TensorArgument<'a>)>,
    count: Option<Value>,
    random_blocks: u64,
}

pub fn window(tensor: &TensorArgument) -> Window {
    Window {
        dtype: tensor.dtype,
        sizes: Dims::from_slice(tensor.sizes),
        strides: Dims::from_slice(tensor.strides),
        offset: tensor.offset,
        conj: tensor.conj,
        neg: tensor.neg,
    }
}

impl Builder<'_, '_> {
    fn argument(&mut self, index: usize, group: &Grouped) -> Result<Arg> {
        let operand = self.overload.operand.get(index).copied().unwrap_or(false);
        match group {
            Grouped::One(argument, _) => self.single(argument, operand),
            Grouped::Many(list, _) => {
                let tensors = operand || list.iter().any(|item| matches!(item, Argument::Tensor(_)));
                if !tensors {
                    let scalars = list.iter().map(|item| match item {
                        Argument::Number(number, ..) => Ok(*number),
                        _ => Err(Error::type_error("a list must hold numbers or tensors")),
                    });
                    return Ok(Arg::Scalars(scalars.collect::<Result<_>>()?));
                }
                let items = list.iter().map(|item| match self.single(item, operand)? {
                    Arg::Tensor(tensor) => Ok(Some(tensor)),
                    Arg::None => Ok(None),
                    _ => Err(Error::type_error("a list must hold numbers or tensors")),
                });
                Ok(Arg::Tensors(items.collect::<Result<_>>()?))
            }
        }
    }

    fn single(&mut self, argument: &Argument, operand: bool) -> Result<Arg> {
        use crate::stablehlo::Literal;
        Ok(match argument {
            Argument::None | Argument::Generator(_) | Argument::List(_) => Arg::None,
            Argument::Tensor(tensor) => Arg::Tensor(Operand::tensor(self.read(tensor)?)),
            Argument::Number(_, category, dtype) if operand => {
                let value = self.numbers[self.next_number].clone();
                self.next_number += 1;
                let value = if *category == Category::Number {
                    value
                } else {
                    self.f.convert(&value, *dtype)?
                };
                Arg::Tensor(Operand {
                    value,
                    category: *category,
                })
            }
            Argument::Number(number, ..) => Arg::Scalar(*number),
            Argument::Ints(values) => Arg::Scalars(values.iter().map(|&value| Literal::Int(value)).collect()),
            Argument::Floats(values) => Arg::Scalars(values.iter().map(|&value| Literal::Float(value)).collect()),
            Argument::Text(text) => Arg::Text((*text).to_owned()),
        })
    }

    fn ordinal(&self, tensor: &TensorArgument) -> Result<usize> {
        self.inputs
            .find(tensor.storage)
            .ok_or_else(|| Error::runtime("a tensor's storage was not collected; please report this as a bug"))
    }

    /// The buffer's value; zeros for a storage that was never written.
    fn base(&mut self, ordinal: usize, dtype: DType) -> Value {
        if let Some(base) = &self.bases[ordinal] {
            return base.clone();
        }
        let elements = self.inputs.storages[ordinal].bytes() / dtype.bytes();
        let zeros = self.f.constant(dtype, &[elements as i64], 0i64);
        self.bases[ordinal] = Some(zeros.clone());
        zeros
    }

    fn read(&mut self, tensor: &TensorArgument) -> Result<Value> {
        let ordinal = self.ordinal(tensor)?;
        self.windows
            .push((Dims::from_slice(tensor.sizes), Dims::from_slice(tensor.strides)));
        let base = self.base(ordinal, tensor.dtype);
        read(&mut self.f, &base, &window(tensor))
    }

    /// The entry's lowering for each element of the lists.
    fn map_lists(&mut self, call: &mut Call) -> Result<Vec<Option<Value>>> {
        let lists = std::mem::take(&mut call.args);
        let length = lists
            .iter()
            .find_map(|arg| match arg {
                Arg::Tensors(list) => Some(list.len()),
                _ => None,
            })
            .unwrap_or(0);
        ensure(length > 0, || {
            Error::runtime("Tensor list must have at least one tensor.")
        })?;
        let mut results = Vec::new();
        for index in 0..length {
            call.args = lists
                .iter()
                .map(|arg| match arg {
                    Arg::Tensors(list) => match list.get(index) {
                        Some(item) => Ok(item.clone().map_or(Arg::None, Arg::Tensor)),
                        None => Err(Error::runtime(format!(
                            "Tensor lists must have the same number of tensors, got {length} and {}",
                            list.len()
                        ))),
                    },
                    Arg::Scalars(list) => Ok(list.get(index).map_or(Arg::None, |&scalar| Arg::Scalar(scalar))),
                    other => Ok(other.clone()),
                })
                .collect::<Result<_>>()?;
            let Outputs(mut values) = (self.overload.def.lower)(&mut self.f, call)?;
            ensure(values.len() == 1, || {
                Error::runtime("a foreach operator's element must have one result")
            })?;
            results.append(&mut values);
        }
        Ok(results)
    }

    fn finish(mut self, mut parts: Finish) -> Result<Built> {
        let mut results: Vec<Value> = Vec::new();
        let mut outputs = Vec::new();
        let mut returns = Vec::new();
        let windows = std::mem::take(&mut self.windows);
        let operands: Vec<layout::Operand> = windows
            .iter()
            .map(|(sizes, strides)| (sizes.as_slice(), strides.as_slice()))
            .collect();
        for value in &parts.functional {
            let Some(value) = value else {
                returns.push(Return::Undefined);
                continue;
            };
            let strides = layout::strides(self.overload.def.layout, &operands, value.dims());
            let window = Window {
                dtype: value.dtype(),
                sizes: Dims::from_slice(value.dims()),
                strides: strides.clone(),
                offset: 0,
                conj: false,
                neg: false,
            };
            let bytes = (value.numel() as usize).saturating_mul(value.dtype().bytes());
            statistics::check(self.device, bytes)?;
            let physical = write_whole(&mut self.f, &window, value)?;
            returns.push(Return::New(outputs.len()));
            outputs.push(Output::New(NewTensor {
                ty: TypeId::of(physical.ty()),
                dtype: value.dtype(),
                sizes: window.sizes,
                strides,
                bytes,
            }));
            results.push(physical);
        }

        // Writes build on one another where they share a storage.
        ensure(parts.stored.len() >= parts.targets.len(), || {
            Error::runtime("the lowering returned too few values to store")
        })?;
        let mut current: Vec<Option<Value>> = vec![None; self.inputs.storages.len()];
        for (value, (_, tensor)) in parts.stored.iter().zip(&parts.targets) {
            let Some(value) = value else { continue };
            let value = self.storable(value, tensor)?;
            let ordinal = self.ordinal(tensor)?;
            let window = window(tensor);
            let whole = whole_type(&window, self.inputs.storages[ordinal].bytes());
            let next = match (&current[ordinal], whole) {
                (_, Some(_)) if !window.overlaps_itself() => {
                    let physical = write_whole(&mut self.f, &window, &value)?;
                    // Keep the buffer's own type where only its dims differ: fewer programs, and it can be donated.
                    match &self.bases[ordinal] {
                        Some(base)
                            if base.dtype() == physical.dtype()
                                && base.numel() == physical.numel()
                                && self.inputs.types[ordinal] != TypeId::EMPTY =>
                        {
                            let dims = Dims::from_slice(base.dims());
                            self.f.reshape(&physical, &dims)?
                        }
                        _ => physical,
                    }
                }
                (Some(base), _) => {
                    let base = base.clone();
                    write(&mut self.f, &base, &window, &value)?
                }
                (None, _) => {
                    let base = self.base(ordinal, tensor.dtype);
                    write(&mut self.f, &base, &window, &value)?
                }
            };
            current[ordinal] = Some(next);
        }
        let mut written = Vec::new();
        for (ordinal, value) in current.into_iter().enumerate() {
            let Some(value) = value else { continue };
            let ty = TypeId::of(value.ty());
            if ty == self.inputs.types[ordinal] {
                let param = parts
                    .plan
                    .iter()
                    .position(|input| matches!(input, Input::Storage { ordinal: other, .. } if *other == ordinal));
                if let Some(param) = param {
                    self.f.alias(param, results.len())?;
                    parts.plan[param] = Input::Storage { ordinal, donated: true };
                }
            }
            written.push(ordinal);
            outputs.push(Output::Write { ordinal, ty });
            results.push(value);
        }
        if self.overload.variant != Variant::Functional {
            let expected: usize = self
                .overload
                .schema
                .returns
                .iter()
                .filter(|result| result.alias)
                .count();
            returns.extend(
                parts
                    .targets
                    .iter()
                    .take(expected)
                    .map(|(position, _)| Return::Argument(*position)),
            );
        }
        if let Some(count) = &parts.count {
            outputs.push(Output::Count);
            results.push(count.clone());
        }
        for (value, kind, message) in self.f.checks().to_vec() {
            outputs.push(Output::Check {
                kind,
                message: format!("{}: {message}", self.overload.label),
            });
            results.push(value);
        }
        let module = self.f.finish(&results)?;
        let inputs: Vec<Input> = module.params.iter().map(|&param| parts.plan[param]).collect();
        pool::dump(&module.text);
        Ok(Built::Program(Program {
            key: parts.key.into(),
            slot: pool::request(module.text),
            inputs,
            outputs,
            returns,
            written,
            random_blocks: parts.random_blocks,
            bounded: parts.count.is_some(),
            label: Arc::from(self.overload.label.as_str()),
        }))
    }

    /// A result as it goes into a tensor: its dims must be the tensor's, its dtype castable to it.
    fn storable(&mut self, value: &Value, tensor: &TensorArgument) -> Result<Value> {
        ensure(value.dims() == tensor.sizes, || {
            Error::runtime(format!(
                "output with shape {:?} doesn't match the broadcast shape {:?}",
                tensor.sizes,
                value.dims()
            ))
        })?;
        ensure(
            can_cast(value.dtype(), tensor.dtype) || self.overload.def.base == "copy",
            || {
                Error::runtime(format!(
                    "result type {} can't be cast to the desired output type {}",
                    scalar_type(value.dtype()),
                    scalar_type(tensor.dtype)
                ))
            },
        )?;
        self.f.convert(value, tensor.dtype)
    }
}
