"""Loads the native module and makes the device known to PyTorch, once per process.

Two ways lead here: `import torch_tpu`, and the entry point `torch.backends`, which `import torch` calls at its end
(unless `TORCH_DEVICE_BACKEND_AUTOLOAD=0`). Neither prints anything nor touches a device: the PJRT plugin is loaded at
first use.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import warnings
from types import ModuleType

import torch

# Names that PrivateUse1 may already carry when we load: PyTorch's own, or ours from an earlier load.
_OUR_NAMES = ("privateuseone", "tpu", "neuron")

# `torch.tpu.<name>` must be the same module as `torch_tpu.tpu.<name>`, also for `import torch.tpu.amp`.
_SUBMODULES = ("_utils", "amp", "memory", "modes", "precision", "random", "streams")

_lock = threading.RLock()
_name: str | None = None


def load() -> str:
    """Register the device with PyTorch and return its name (`"tpu"` or `"neuron"`). Later calls do nothing.

    Raises `ImportError` when the native module cannot be loaded or another package owns PyTorch's out-of-tree device,
    and `ValueError` for an invalid `TORCH_TPU_DEVICE`.
    """
    global _name
    with _lock:
        if _name is None:
            _name = _register()
        return _name


def autoload() -> None:
    """Entry point of the group `torch.backends`: `load`, except that a failure must not break `import torch`.

    The failure becomes a warning, and a later `import torch_tpu` raises it.
    """
    if getattr(getattr(sys.modules.get("torch_tpu"), "__spec__", None), "_initializing", False):
        return  # `import torch_tpu` is what imports torch: it loads the device itself, and raises what goes wrong.
    try:
        load()
    except Exception as error:
        # Forget the half-made package, so that an explicit `import torch_tpu` runs again and reports the error itself.
        for module in ("torch_tpu", __name__):
            sys.modules.pop(module, None)
        warnings.warn(
            f"torch_tpu could not be loaded, its device is not available: {error} "
            "(set TORCH_DEVICE_BACKEND_AUTOLOAD=0 to stop loading it with torch)",
            RuntimeWarning,
            stacklevel=2,
        )


def _register() -> str:
    owner = torch._C._get_privateuse1_backend_name()
    if owner not in _OUR_NAMES:
        raise ImportError(
            f"PyTorch has room for one out-of-tree device per process, and {owner!r} already took it; "
            "uninstall that package or set TORCH_DEVICE_BACKEND_AUTOLOAD=0 and import torch_tpu alone"
        )
    try:
        native = importlib.import_module("torch_tpu._C")
    except ImportError as error:
        raise ImportError(_native_failure(error)) from error
    native.set_search_paths([path for path in sys.path if os.path.isabs(path) and os.path.isdir(path)])
    name: str = native.device_name()
    if owner != name:
        torch.utils.rename_privateuse1_backend(name)
    module = importlib.import_module("torch_tpu.tpu")
    registered = getattr(torch, name, None)
    if registered is None:
        torch._register_device_module(name, module)
    elif getattr(registered, "__name__", "") != "torch_tpu.tpu":
        raise ImportError(f"torch.{name} is already {registered!r}; torch_tpu cannot take its place")
    for submodule in _SUBMODULES:
        alias: ModuleType = importlib.import_module(f"torch_tpu.tpu.{submodule}")
        sys.modules[f"torch.{name}.{submodule}"] = alias
    # Tensor.tpu(), Tensor.is_tpu, Module.tpu(), storages and packed sequences. PyTorch refuses to generate them twice.
    if not hasattr(torch.Tensor, f"is_{name}"):
        torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    # float16, PyTorch's default of unknown devices, has no hardware on a TPU. The setting belongs to a thread; threads
    # made later take `torch.autocast(name, dtype=…)` or `torch.tpu.amp.autocast()`.
    torch.set_autocast_dtype(name, torch.bfloat16)
    return name


def _native_failure(error: ImportError) -> str:
    directory = os.path.dirname(__file__)
    if not any(entry.startswith("_C.") and entry.endswith((".so", ".pyd")) for entry in os.listdir(directory)):
        return f"torch_tpu._C is not built in {directory}; run `make build` in a checkout, or reinstall torch-tpu-rs"
    return (
        f"torch_tpu._C does not load with torch {torch.__version__}: {error}; "
        "the extension must be built against the installed torch (`make build` in a checkout)"
    )
