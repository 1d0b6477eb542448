//! Every `TORCH_TPU_*` variable: name, what it takes, default. Read and checked once.

use crate::error::{Error, Result};
use std::sync::OnceLock;

/// A variable, for the documentation and `torch_tpu.config()`.
#[derive(Debug)]
pub struct Variable {
    pub name: &'static str,
    pub takes: &'static str,
    pub default: &'static str,
    pub text: &'static str,
}

pub const VARIABLES: &[Variable] = &[
    Variable {
        name: "TORCH_TPU_DEVICE",
        takes: "tpu | neuron | auto",
        default: "tpu",
        text: "name of the device in this process",
    },
    Variable {
        name: "TORCH_TPU_PJRT_PLUGIN",
        takes: "a path",
        default: "",
        text: "PJRT plugin (shared object) to load before any other",
    },
    Variable {
        name: "TORCH_TPU_CPU_DEVICES",
        takes: "1..64",
        default: "1",
        text: "number of devices of the CPU plugin",
    },
    Variable {
        name: "TORCH_TPU_FALLBACK",
        takes: "warn | silent | error",
        default: "warn",
        text: "what happens when an operator has neither lowering nor decomposition: run on the CPU with one warning each, silently, or raise",
    },
    Variable {
        name: "TORCH_TPU_LAUNCH_BLOCKING",
        takes: "0 | 1",
        default: "0",
        text: "debug mode: wait after each operator, check device indices",
    },
    Variable {
        name: "TORCH_TPU_COMPILE_THREADS",
        takes: "1..256",
        default: "number of cores",
        text: "threads that compile programs",
    },
    Variable {
        name: "TORCH_TPU_MEMORY_LIMIT",
        takes: "bytes",
        default: "the device's memory",
        text: "bytes that tensors of one device may take",
    },
    Variable {
        name: "TORCH_TPU_DUMP",
        takes: "a folder",
        default: "",
        text: "write every program's StableHLO there",
    },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    Warn,
    Silent,
    Error,
}

#[derive(Clone, Debug)]
pub struct Config {
    pub device_name: String,
    pub plugin: Option<String>,
    pub cpu_devices: i64,
    pub fallback: Fallback,
    pub launch_blocking: bool,
    pub compile_threads: usize,
    pub memory_limit: Option<u64>,
    pub dump: Option<String>,
}

/// The configuration, or why a variable is not valid. `import torch_tpu` never raises: the first use of the device does.
pub fn checked() -> &'static Result<Config> {
    static CONFIG: OnceLock<Result<Config>> = OnceLock::new();
    CONFIG.get_or_init(|| read(|name| std::env::var(name).ok().filter(|value| !value.is_empty())))
}

/// The configuration; defaults where a variable is not valid.
pub fn get() -> &'static Config {
    static DEFAULT: OnceLock<Config> = OnceLock::new();
    match checked() {
        Ok(config) => config,
        Err(_) => DEFAULT.get_or_init(|| read(|_| None).unwrap_or_else(|_| unreachable_default())),
    }
}

fn unreachable_default() -> Config {
    Config {
        device_name: "tpu".into(),
        plugin: None,
        cpu_devices: 1,
        fallback: Fallback::Warn,
        launch_blocking: false,
        compile_threads: 1,
        memory_limit: None,
        dump: None,
    }
}

fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Config> {
    let invalid = |name: &str, value: &str| {
        let takes = VARIABLES
            .iter()
            .find(|row| row.name == name)
            .map_or("", |row| row.takes);
        Error::value(format!(
            "{name}={value:?} is not valid: it takes {takes}; correct or unset the variable and start again"
        ))
    };
    let number = |name: &str, low: u64, high: u64| -> Result<Option<u64>> {
        match variable(name) {
            None => Ok(None),
            Some(value) => match value.parse::<u64>() {
                Ok(number) if (low..=high).contains(&number) => Ok(Some(number)),
                _ => Err(invalid(name, &value)),
            },
        }
    };
    let choice = |name: &str, choices: &[&str]| -> Result<String> {
        let value = variable(name).unwrap_or_else(|| choices[0].to_owned());
        if choices.contains(&value.as_str()) {
            Ok(value)
        } else {
            Err(invalid(name, &value))
        }
    };
    let device_name = match choice("TORCH_TPU_DEVICE", &["tpu", "neuron", "auto"])?.as_str() {
        "auto" if crate::device::plugins::neuron_hardware() => "neuron".to_owned(),
        "auto" => "tpu".to_owned(),
        name => name.to_owned(),
    };
    Ok(Config {
        device_name,
        plugin: variable("TORCH_TPU_PJRT_PLUGIN"),
        cpu_devices: number("TORCH_TPU_CPU_DEVICES", 1, 64)?.unwrap_or(1) as i64,
        fallback: match choice("TORCH_TPU_FALLBACK", &["warn", "silent", "error"])?.as_str() {
            "silent" => Fallback::Silent,
            "error" => Fallback::Error,
            _ => Fallback::Warn,
        },
        launch_blocking: choice("TORCH_TPU_LAUNCH_BLOCKING", &["0", "1"])? == "1",
        compile_threads: number("TORCH_TPU_COMPILE_THREADS", 1, 256)?.map_or_else(
            || std::thread::available_parallelism().map_or(1, |cores| cores.get()),
            |threads| threads as usize,
        ),
        memory_limit: number("TORCH_TPU_MEMORY_LIMIT", 1, u64::MAX)?,
        dump: variable("TORCH_TPU_DUMP"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_value_names_the_variable_and_what_it_takes() {
        let error = read(|name| (name == "TORCH_TPU_CPU_DEVICES").then(|| "many".to_owned())).unwrap_err();
        assert!(
            error.message.contains("TORCH_TPU_CPU_DEVICES") && error.message.contains("1..64"),
            "{error}"
        );
    }

    #[test]
    fn every_variable_is_documented_once() {
        for (index, row) in VARIABLES.iter().enumerate() {
            assert!(VARIABLES[..index].iter().all(|other| other.name != row.name));
            assert!(!row.text.is_empty());
        }
    }
}
