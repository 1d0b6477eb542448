"""`torch.tpu`: devices, streams, memory, random numbers and modes.

A `device` argument is None (the current device), an index, `"tpu"`, `"tpu:1"` or a `torch.device`. Another device type
is a `ValueError`, an index that does not exist a `RuntimeError`. Nothing here touches a device before its first use.
"""

from __future__ import annotations

import dataclasses
import sys as _sys
from types import ModuleType, TracebackType
from typing import Any

import torch

from torch_tpu import _C

from . import _utils as _utils
from . import amp, memory, modes, random
from . import streams as streams
from ._utils import NAME, DeviceLike, _get_device_index, _lazy_init, checked_index
from .memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)
from .modes import EagerMode, set_eager_mode
from .precision import Precision, precision  # the function takes the place of its module in this namespace
from .random import (
    _get_generator as _get_generator,
)
from .random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from .streams import Event, Stream, current_stream, default_stream, set_stream, stream, synchronize

__all__ = [
    "DeviceProperties",
    "EagerMode",
    "Event",
    "Precision",
    "Stream",
    "allow_excess_precision",
    "amp",
    "cache_stats",
    "config",
    "current_device",
    "current_stream",
    "decomposed_ops",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "eager_mode",
    "empty_cache",
    "executed_ops",
    "fallback_ops",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "precision",
    "random",
    "reset_accumulated_memory_stats",
    "reset_op_counts",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_eager_mode",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]


# ---- the device ---------------------------------------------------------------------------------------------------


def init() -> None:
    """Create the PJRT client now instead of at the first use.

    `RuntimeError` when no plugin is found (it lists what was tried), and in a process forked after initialization.
    """
    _lazy_init()


def is_initialized() -> bool:
    """Whether the PJRT client exists in this process."""
    return _C.is_initialized() and not _C.is_in_bad_fork()


def is_available() -> bool:
    """Whether at least one device can be used. Never raises; the first call looks for a plugin and loads it."""
    return _C.is_available()


def device_count() -> int:
    """Number of devices that this process can use; 0 when none is available. Never raises."""
    return _C.device_count()


def current_device() -> int:
    """Index of the current device of this thread."""
    _lazy_init()
    return _C.current_device()


def set_device(device: DeviceLike) -> None:
    """Make `device` current in this thread. A negative index changes nothing, as in `torch.cuda`."""
    if device is None:
        raise ValueError(f"expected a {NAME} device, got None")
    index = _get_device_index(device, optional=True)
    if index >= 0:
        _C.set_device(checked_index(index))


class device:  # noqa: N801 - PyTorch's name
    """Context manager that makes `device` current for its duration. None or a negative index changes nothing."""

    def __init__(self, device: DeviceLike) -> None:
        self.idx = -1 if device is None else _get_device_index(device, optional=True)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            self.prev_idx = _C.exchange_device(checked_index(self.idx))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.idx >= 0:
            _C.maybe_exchange_device(self.prev_idx)


class device_of(device):  # noqa: N801 - PyTorch's name
    """Context manager that makes the device of a tensor or storage current; changes nothing for one elsewhere."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.device if obj.device.type == NAME else None)


def _exchange_device(index: int) -> int:
    return -1 if index < 0 else _C.exchange_device(checked_index(index))


def _maybe_exchange_device(index: int) -> int:
    return -1 if index < 0 else _C.maybe_exchange_device(index)


@dataclasses.dataclass(frozen=True)
class DeviceProperties:
    """What is known of a device."""

    #: The PJRT device kind, such as "TPU v5 lite" or "cpu".
    name: str
    #: Bytes of device memory.
    total_memory: int
    #: PJRT schedules one program at a time per device: 1.
    multi_processor_count: int
    #: PJRT platform name, such as "tpu" or "cpu".
    platform: str
    #: Version text of the PJRT plugin.
    platform_version: str


def get_device_name(device: DeviceLike = None) -> str:
    """The PJRT device kind of `device`, such as "TPU v5 lite"."""
    return _C.get_device_kind(checked_index(device))


def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
    """Name, memory and platform of `device`."""
    index = checked_index(device)
    platform = _C.platform()
    return DeviceProperties(
        name=_C.get_device_kind(index),
        total_memory=_C.mem_get_info(index)[1],
        multi_processor_count=1,
        platform=platform["name"],
        platform_version=platform["version"],
    )


def get_device_capability(device: DeviceLike = None) -> dict[str, Any]:
    """What `device` can do, as `torch.accelerator.get_device_capability`: `{"supported_dtypes": set of dtypes}`."""
    return torch._C._accelerator_getDeviceCapability(checked_index(device))


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 tensors can be used: always, and natively on every TPU."""
    return True


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Dtypes that `torch.autocast("tpu")` accepts."""
    return [torch.bfloat16, torch.float16, torch.float32]


# ---- what ran -----------------------------------------------------------------------------------------------------


def executed_ops() -> dict[str, int]:
    """Operators that ran on the device through an own lowering: name (`aten::add.Tensor`) to number of calls."""
    return _C.executed_ops()


def decomposed_ops() -> dict[str, int]:
    """Operators that ran on the device through PyTorch's decomposition: name to number of calls."""
    return _C.decomposed_ops()


def fallback_ops() -> dict[str, int]:
    """Operators that were computed on the CPU, with copies both ways: name to number of calls."""
    return _C.fallback_ops()


def reset_op_counts() -> None:
    """Set the counts of `executed_ops`, `decomposed_ops` and `fallback_ops` to zero."""
    _C.reset_op_counts()


def cache_stats() -> dict[str, int | float]:
    """The cache of compiled programs: `hits`, `misses`, `compile_seconds`, `entries`, `bytes`."""
    return _C.cache_stats()


def config() -> dict[str, str]:
    """Every `TORCH_TPU_*` variable with the value in force. `ValueError` names an invalid one."""
    return _C.config()


# ---- names that PyTorch itself looks for on a device module -------------------------------------------------------


def _is_in_bad_fork() -> bool:
    return _C.is_in_bad_fork()


class _Module(ModuleType):
    """`torch.tpu` with attributes that are computed when read."""

    @property
    def eager_mode(self) -> EagerMode:
        """The mode in force. Assigning sets it for the process."""
        return modes.current_eager_mode()

    @eager_mode.setter
    def eager_mode(self, mode: EagerMode | str) -> None:
        set_eager_mode(mode)

    @property
    def allow_excess_precision(self) -> bool:
        """Whether the compiler may keep more precision than a tensor's dtype between operators: False."""
        return False

    @allow_excess_precision.setter
    def allow_excess_precision(self, allow: bool) -> None:
        if allow:
            raise NotImplementedError(
                "allow_excess_precision is always False: each result is rounded to its dtype, as PyTorch defines it"
            )

    @property
    def default_generators(self) -> tuple[torch.Generator, ...]:
        """The default generator of each device."""
        return random._default_generators()

    @property
    def _initialized(self) -> bool:
        return is_initialized()


_sys.modules[__name__].__class__ = _Module
