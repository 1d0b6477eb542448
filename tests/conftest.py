"""Set-up of the Python tests: a fresh program cache per run, the device, and scripts in processes of their own."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# Lowerings change without the crate's version changing, so a cache of an earlier run may hold outdated programs.
# Workers of pytest-xdist inherit the variable, and so share the directory.
if "PYTEST_XDIST_WORKER" not in os.environ:
    _cache = tempfile.mkdtemp(prefix="torch_tpu_test_cache_")
    os.environ["TORCH_TPU_CACHE_DIR"] = _cache
    atexit.register(shutil.rmtree, _cache, ignore_errors=True)

import torch

import torch_tpu  # noqa: F401 - registers the device

_workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
if _workers > 1:
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // _workers))

Script = Callable[..., subprocess.CompletedProcess[str]]

# What a script must not inherit from the run of the tests.
_PRIVATE = ("TORCH_TPU_", "TPU_", "TORCH_DEVICE_BACKEND_AUTOLOAD", "PYTHONWARNINGS")


@pytest.fixture(scope="session")
def script() -> Script:
    """`script(source, check=True, timeout=120, **environment)` runs Python source in a process of its own.

    The process inherits the cache directory and no other `TORCH_TPU_*` variable. With `check`, a failure of the process
    fails the test and shows its output. Returns the `CompletedProcess` with `stdout` and `stderr` as text.
    """

    def run(
        source: str, *, check: bool = True, timeout: float = 120, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(_PRIVATE)}
        inherited["TORCH_TPU_CACHE_DIR"] = os.environ["TORCH_TPU_CACHE_DIR"]
        inherited["PYTHONPATH"] = os.pathsep.join(
            [str(Path(__file__).parent / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
        )
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(source)],
            env=inherited | environment,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if check and done.returncode != 0:
            pytest.fail(
                f"the script ended with {done.returncode}\n--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}"
            )
        return done

    return run


@pytest.fixture
def no_fallback() -> Iterator[None]:
    """Fails the test if an operator was computed on the CPU in it."""
    before = torch.tpu.fallback_ops()
    yield
    after = torch.tpu.fallback_ops()
    assert after == before, f"computed on the CPU: {sorted(set(after.items()) - set(before.items()))}"


@pytest.fixture(autouse=True)
def _same_state_for_each_test() -> Iterator[None]:
    """Each test begins with the same seeds, and leaves device and mode as it found them."""
    torch.manual_seed(0)
    yield
    if torch.tpu.is_initialized():
        torch.tpu.set_device(0)
