"""PyTorch device for AI accelerators over the PJRT C API.

Importing this package makes `torch.device("tpu")` and the module `torch.tpu` available; with an installed wheel,
`import torch` alone does. There is nothing to call here: use `torch.tpu` and `torch.accelerator`.
"""

from __future__ import annotations

import sys as _sys

# While torch itself is being imported, it is running our entry point: `autoload` then decides what a failure means.
_torch_is_loading = getattr(getattr(_sys.modules.get("torch"), "__spec__", None), "_initializing", False)

import torch as _torch  # noqa: E402, F401 - before the native module, which finds torch's libraries in the process

from torch_tpu import _loader as _loader  # noqa: E402

if not _torch_is_loading:
    _loader.load()

__version__ = "0.1.0"
__all__ = ["__version__"]
