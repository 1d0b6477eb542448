//! Reads and writes carried out by programs on the CPU plugin, bit for bit against walks over memory.

use super::run::Device;
use super::{Random, cases, chain, positions};
use crate::dtype::DType;
use crate::error::Result;
use crate::stablehlo::{Func, TensorType, Value};
use crate::storage::read::read;
use crate::storage::window::Window;
use crate::storage::write::{whole_type, write, write_whole};

/// Windows of one base in one program: compiling costs 30 ms, whatever the program.
const WINDOWS: usize = 40;

/// Byte offsets of the window's elements.
fn element_offsets(window: &Window) -> Vec<usize> {
    positions(window)
        .into_iter()
        .map(|at| at as usize * window.dtype.bytes())
        .collect()
}

/// The conjugate and negative bits applied to one element's bytes: they flip sign bits.
fn flip(window: &Window, element: &mut [u8]) {
    let part = window.dtype.real().bytes();
    let count = element.len() / part;
    for index in 0..count {
        if window.neg != (window.conj && index == 1) {
            element[index * part + part - 1] ^= 0x80;
        }
    }
}

fn walk_read(storage: &[u8], window: &Window) -> Vec<u8> {
    let mut value = Vec::new();
    for at in element_offsets(window) {
        let mut element = storage[at..at + window.dtype.bytes()].to_vec();
        flip(window, &mut element);
        if window.dtype.is_bool() {
            element[0] = u8::from(element[0] != 0);
        }
        value.extend(element);
    }
    value
}

fn walk_write(storage: &[u8], window: &Window, value: &[u8]) -> Vec<u8> {
    let mut storage = storage.to_vec();
    for (at, element) in element_offsets(window)
        .into_iter()
        .zip(value.chunks(window.dtype.bytes()))
    {
        let mut element = element.to_vec();
        flip(window, &mut element);
        storage[at..at + element.len()].copy_from_slice(&element);
    }
    storage
}

/// Any bits, NaNs included; bools are 0 or 1.
fn random_bytes(random: &mut Random, ty: &TensorType) -> Vec<u8> {
    let count = ty.numel() as usize * ty.dtype.bytes();
    let limit = if ty.dtype.is_bool() { 1 } else { 255 };
    (0..count).map(|_| random.range(0, limit) as u8).collect()
}

/// Both bfloat16 elements are NaNs.
fn both_nan(left: &[u8], right: &[u8]) -> bool {
    let is_nan = |bytes: &[u8]| bytes.len() == 2 && bytes[1] & 0x7f == 0x7f && bytes[0] > 0x80;
    is_nan(left) && is_nan(right)
}

/// One result of a program, what it must be, and the case's name for the report.
struct Case {
    result: Value,
    expected: Vec<u8>,
    name: String,
}

struct Program {
    f: Func,
    base: Value,
    storage: Vec<u8>,
    inputs: Vec<(TensorType, Vec<u8>)>,
    cases: Vec<Case>,
}

impl Program {
    fn new(random: &mut Random, ty: TensorType) -> Self {
        let mut f = Func::default();
        let storage = random_bytes(random, &ty);
        let base = f.param(ty.clone());
        Self {
            f,
            base,
            storage: storage.clone(),
            inputs: vec![(ty, storage)],
            cases: Vec::new(),
        }
    }

    fn case(&mut self, what: &str, window: &Window, result: Value, expected: Vec<u8>) {
        let name = format!("{what} of {} through {window:?}", self.base.ty());
        self.cases.push(Case { result, expected, name });
    }

    fn add_read(&mut self, window: &Window) -> Result<()> {
        let result = read(&mut self.f, &self.base, window)?;
        let expected = walk_read(&self.storage, window);
        self.case("read", window, result, expected);
        Ok(())
    }

    fn add_write(&mut self, random: &mut Random, window: &Window) -> Result<()> {
        let bytes = random_bytes(random, &window.ty());
        let value = self.f.param(window.ty());
        self.inputs.push((window.ty(), bytes.clone()));
        let mut expected = walk_write(&self.storage, window, &bytes);
        if let Some(ty) = whole_type(window, self.storage.len()) {
            let result = write_whole(&mut self.f, window, &value)?;
            assert_eq!(*result.ty(), ty);
            self.case("whole write", window, result, expected.clone());
        }
        if self.base.dtype().is_bool() {
            // A bool buffer holds nothing else.
            expected.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
        }
        let result = write(&mut self.f, &self.base, window, &value)?;
        assert_eq!(result.ty(), self.base.ty());
        self.case("write", window, result, expected);
        Ok(())
    }

    /// The cases whose results differ.
    fn run(self, device: &Device) -> Result<Vec<String>> {
        let results: Vec<Value> = self.cases.iter().map(|case| case.result.clone()).collect();
        let module = self.f.finish(&results)?;
        let inputs: Vec<_> = module.params.iter().map(|&param| self.inputs[param].clone()).collect();
        let outputs = device.run(&module, &inputs)?;
        // Moves within a bfloat16 buffer may change the bits of NaNs: API 0.81's CPU plugin carries them out in float32.
        let loose = self.base.dtype() == DType::BF16;
        let differs = |(case, output): (Case, Vec<u8>)| {
            let mut pairs = case.expected.chunks(2).zip(output.chunks(2));
            let at = pairs.position(|(expected, got)| expected != got && !(loose && both_nan(expected, got)))?;
            let (expected, got) = (&case.expected[at * 2..], &output[at * 2..]);
            Some(format!(
                "{}: from byte {} on {got:?} in place of {expected:?}",
                case.name,
                at * 2
            ))
        };
        Ok(self.cases.into_iter().zip(outputs).filter_map(differs).collect())
    }
}

#[test]
fn programs_read_and_write_what_walks_over_memory_do() -> Result<()> {
    let devices = Device::all()?;
    let mut faults = Vec::new();
    let mut seed = 0;
    let mut windows = 0;
    while windows < cases(1200) {
        seed += 1;
        let mut random = Random(seed);
        let dtype = DType::ALL[seed as usize % DType::ALL.len()];
        let dims = chain::base_dims(&mut random);
        let mut program = Program::new(&mut random, TensorType::new(dtype, &dims));
        for _ in 0..WINDOWS / 2 {
            let window = chain::chain(&mut random, dtype, program.base.dims(), DType::ALL);
            windows += 1;
            program.add_read(&window)?;
            if !window.overlaps_itself() {
                windows += 1;
                program.add_write(&mut random, &window)?;
            }
        }
        let device = &devices[seed as usize / DType::ALL.len() % devices.len()];
        let differing = program.run(device)?;
        faults.extend(differing.into_iter().map(|fault| format!("seed {seed}: {fault}")));
    }
    assert!(
        faults.is_empty(),
        "{} of {windows} differ:\n{}",
        faults.len(),
        faults[..faults.len().min(8)].join("\n")
    );
    Ok(())
}

#[test]
fn a_write_through_an_expanded_window_is_refused_in_the_words_of_torch() {
    let mut f = Func::default();
    let base = f.param(TensorType::new(DType::F32, &[3]));
    let window = Window {
        strides: [0, 1].into_iter().collect(),
        ..Window::contiguous(DType::F32, &[2, 3])
    };
    let value = f.param(window.ty());
    let message = write(&mut f, &base, &window, &value)
        .map(|_| ())
        .map_err(|error| error.message);
    let expected = "unsupported operation: more than one element of the written-to tensor refers to a single memory location. \
                    Please clone() the tensor before performing the operation.";
    assert_eq!(message, Err(expected.to_owned()));
}
