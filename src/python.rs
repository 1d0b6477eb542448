//! The Python module `torch_tpu._C`: argument conversion only. `python/torch_tpu/_C.pyi` is its contract.
#![allow(unsafe_code)] // pyo3's macros

use crate::bridge;
use crate::cache::statistics as cache_statistics;
use crate::config::{self as settings, Fallback, VARIABLES};
use crate::device::{current, fork, generator, plugins, registry};
use crate::dispatch::modes::{self, Mode};
use crate::dispatch::{queue, tiers, transfer};
use crate::error::{Error, Kind};
use crate::ops::table;
use crate::storage::{reaper, statistics};
use pyo3::exceptions::{PyIndexError, PyNotImplementedError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::path::PathBuf;

impl From<Error> for PyErr {
    fn from(error: Error) -> PyErr {
        let message = error.message;
        match error.kind {
            Kind::Index => PyIndexError::new_err(message),
            Kind::NotImplemented => PyNotImplementedError::new_err(message),
            Kind::Type => PyTypeError::new_err(message),
            Kind::Value => PyValueError::new_err(message),
            Kind::OutOfMemory => Python::attach(|py| {
                let made = py
                    .import("torch")
                    .and_then(|torch| torch.getattr("OutOfMemoryError"))
                    .and_then(|class| class.call1((&message,)));
                made.map_or_else(|_| PyRuntimeError::new_err(message.clone()), PyErr::from_value)
            }),
            Kind::Runtime => PyRuntimeError::new_err(message),
        }
    }
}

/// Registers PyTorch's decomposition of an overload through `torch_tpu.decompositions`.
fn decompose(label: &str) -> bool {
    Python::attach(|py| {
        py.import("torch_tpu.decompositions")
            .and_then(|module| module.call_method1("register", (label,)))
            .and_then(|found| found.extract())
            .unwrap_or(false)
    })
}

#[pymodule]
#[allow(non_snake_case)] // the module is `_C`
mod _C {
    use super::*;

    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        bridge::keep_panics_quiet();
        let _ = bridge::DECOMPOSE.set(decompose);
        bridge::install().map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }

    #[pyfunction]
    fn device_name() -> String {
        settings::get().device_name.clone()
    }

    #[pyfunction]
    fn set_search_paths(paths: Vec<PathBuf>) {
        plugins::set_search_paths(paths);
    }

    #[pyfunction]
    fn initialize(py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(registry::runtime).map(|_| ())?)
    }

    #[pyfunction]
    fn is_initialized() -> bool {
        registry::started().is_some()
    }

    #[pyfunction]
    fn is_available(py: Python<'_>) -> bool {
        py.detach(registry::is_available)
    }

    #[pyfunction]
    fn is_in_bad_fork() -> bool {
        fork::is_bad()
    }

    #[pyfunction]
    fn device_count(py: Python<'_>) -> usize {
        py.detach(registry::device_count)
    }

    #[pyfunction]
    fn current_device() -> u16 {
        current::device()
    }

    #[pyfunction]
    fn set_device(py: Python<'_>, index: i64) -> PyResult<()> {
        let index = py.detach(|| registry::check_index(index))?;
        current::exchange_device(index);
        Ok(())
    }

    #[pyfunction]
    fn exchange_device(py: Python<'_>, index: i64) -> PyResult<i64> {
        if index < 0 {
            return Ok(-1);
        }
        let index = py.detach(|| registry::check_index(index))?;
        Ok(current::exchange_device(index).into())
    }

    #[pyfunction]
    fn maybe_exchange_device(py: Python<'_>, index: i64) -> PyResult<i64> {
        exchange_device(py, index)
    }

    #[pyfunction]
    fn synchronize(py: Python<'_>, index: i64) -> PyResult<()> {
        Ok(py.detach(|| transfer::synchronize(registry::check_index(index)?))?)
    }

    #[pyfunction]
    fn get_device_kind(py: Python<'_>, index: i64) -> PyResult<String> {
        Ok(py.detach(|| {
            let index = registry::check_index(index)?;
            Ok::<_, Error>(registry::runtime()?.device(index).kind().to_string())
        })?)
    }

    #[pyfunction]
    fn platform(py: Python<'_>) -> PyResult<BTreeMap<&'static str, String>> {
        let runtime = py.detach(registry::runtime)?;
        Ok(BTreeMap::from([
            ("name", runtime.client.platform_name().to_string()),
            ("version", runtime.client.platform_version().to_string()),
            (
                "api_version",
                format!("{}.{}", runtime.api_version.0, runtime.api_version.1),
            ),
            ("plugin_path", runtime.plugin_path.display().to_string()),
        ]))
    }

    #[pyfunction]
    fn memory_stats(py: Python<'_>, index: i64) -> PyResult<BTreeMap<String, i64>> {
        let figures = statistics::get(py.detach(|| registry::check_index(index))?);
        let mut stats = BTreeMap::new();
        for (name, values) in [
            (
                "allocated_bytes",
                [
                    figures.bytes,
                    figures.peak_bytes,
                    figures.allocated_bytes,
                    figures.freed_bytes,
                ],
            ),
            (
                "reserved_bytes",
                [
                    figures.bytes,
                    figures.peak_bytes,
                    figures.allocated_bytes,
                    figures.freed_bytes,
                ],
            ),
            (
                "active_bytes",
                [
                    figures.bytes,
                    figures.peak_bytes,
                    figures.allocated_bytes,
                    figures.freed_bytes,
                ],
            ),
            (
                "requested_bytes",
                [
                    figures.bytes,
                    figures.peak_bytes,
                    figures.allocated_bytes,
                    figures.freed_bytes,
                ],
            ),
            (
                "allocation",
                [
                    figures.count,
                    figures.peak_count,
                    figures.allocated_count,
                    figures.freed_count,
                ],
            ),
            (
                "active",
                [
                    figures.count,
                    figures.peak_count,
                    figures.allocated_count,
                    figures.freed_count,
                ],
            ),
        ] {
            for (kind, value) in ["current", "peak", "allocated", "freed"].into_iter().zip(values) {
                stats.insert(format!("{name}.all.{kind}"), value);
            }
        }
        stats.insert("num_ooms".into(), figures.out_of_memory);
        stats.insert("num_alloc_retries".into(), 0);
        stats.insert("num_device_alloc".into(), figures.allocated_count);
        stats.insert("num_device_free".into(), figures.freed_count);
        Ok(stats)
    }

    #[pyfunction]
    fn reset_peak_memory_stats(py: Python<'_>, index: i64) -> PyResult<()> {
        statistics::reset_peak(py.detach(|| registry::check_index(index))?);
        Ok(())
    }

    #[pyfunction]
    fn reset_accumulated_memory_stats(py: Python<'_>, index: i64) -> PyResult<()> {
        statistics::reset_accumulated(py.detach(|| registry::check_index(index))?);
        Ok(())
    }

    #[pyfunction]
    fn empty_cache(py: Python<'_>) {
        py.detach(reaper::drain);
    }

    #[pyfunction]
    fn mem_get_info(py: Python<'_>, index: i64) -> PyResult<(u64, u64)> {
        let figures = statistics::get(py.detach(|| registry::check_index(index))?);
        Ok((
            figures.limit_bytes.saturating_sub(figures.bytes.max(0) as u64),
            figures.limit_bytes,
        ))
    }

    #[pyfunction]
    fn manual_seed_all(seed: u64) {
        generator::seed_all(seed);
    }

    #[pyfunction]
    fn executed_ops() -> BTreeMap<String, u64> {
        tiers::executed()
    }

    #[pyfunction]
    fn decomposed_ops() -> BTreeMap<String, u64> {
        tiers::decomposed()
    }

    #[pyfunction]
    fn fallback_ops() -> BTreeMap<String, u64> {
        tiers::fallback()
    }

    #[pyfunction]
    fn reset_op_counts() {
        tiers::reset();
    }

    #[pyfunction]
    fn count_decomposed(name: &str) {
        tiers::count_decomposed(name);
    }

    /// Counts a CPU fallback that Python code does; warns or raises as `TORCH_TPU_FALLBACK` says.
    #[pyfunction]
    fn count_fallback(py: Python<'_>, name: &str) -> PyResult<()> {
        match settings::get().fallback {
            Fallback::Error => {
                return Err(PyNotImplementedError::new_err(format!(
                    "{name} has no lowering on this device and TORCH_TPU_FALLBACK=error forbids running it on the CPU; set TORCH_TPU_FALLBACK=warn to allow that"
                )));
            }
            policy => {
                if tiers::count_fallback(name) == 0 && policy == Fallback::Warn {
                    let text = format!(
                        "{name} has no lowering on this device and runs on the CPU, with copies there and back (this is said once per operator)"
                    );
                    let warning = py.get_type::<pyo3::exceptions::PyUserWarning>();
                    PyErr::warn(py, &warning, &CString::new(text).unwrap_or_default(), 2)?;
                }
            }
        }
        Ok(())
    }

    #[pyfunction]
    fn cache_stats(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let figures = cache_statistics::get();
        let stats = PyDict::new(py);
        stats.set_item("hits", figures.hits)?;
        stats.set_item("misses", figures.misses)?;
        stats.set_item("shared", figures.shared)?;
        stats.set_item("compiles", figures.compiles)?;
        stats.set_item("compile_seconds", figures.compile_seconds)?;
        stats.set_item("entries", figures.entries)?;
        stats.set_item("bytes", 0)?;
        Ok(stats)
    }

    #[pyfunction]
    fn registered_overloads() -> Vec<String> {
        tiers::overloads()
            .into_iter()
            .map(|overload| overload.label.clone())
            .collect()
    }

    #[pyfunction]
    fn table_bases() -> Vec<&'static str> {
        table::all().map(|def| def.base).collect()
    }

    #[pyfunction]
    fn get_eager_mode() -> &'static str {
        match modes::get() {
            Mode::Strict => "DEFER_NEVER",
            Mode::Debug => "DEFER_NEVER_AND_LAUNCH_BLOCKING",
        }
    }

    #[pyfunction]
    fn set_eager_mode(mode: &str) -> PyResult<()> {
        modes::set(match mode {
            "DEFER_NEVER" => Mode::Strict,
            "DEFER_NEVER_AND_LAUNCH_BLOCKING" => Mode::Debug,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "unknown eager mode {mode:?}: use DEFER_NEVER or DEFER_NEVER_AND_LAUNCH_BLOCKING"
                )));
            }
        });
        Ok(())
    }

    /// Every variable with its value in the environment, or its default.
    #[pyfunction]
    fn config() -> PyResult<BTreeMap<&'static str, String>> {
        settings::checked()
            .as_ref()
            .map_err(|error| PyErr::from(error.clone()))?;
        Ok(VARIABLES
            .iter()
            .map(|row| {
                (
                    row.name,
                    std::env::var(row.name)
                        .ok()
                        .filter(|value| !value.is_empty())
                        .unwrap_or_else(|| row.default.into()),
                )
            })
            .collect())
    }

    #[pyfunction]
    fn flush(py: Python<'_>) {
        py.detach(|| {
            queue::wait_idle();
            reaper::drain();
        });
    }
}
