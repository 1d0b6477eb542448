"""Device arguments: what every function of `torch.tpu` accepts as a device."""

from __future__ import annotations

import operator
from typing import TypeAlias

import torch

from torch_tpu import _C

DeviceLike: TypeAlias = torch.device | str | int | None

NAME = _C.device_name()


def _get_device_index(device: DeviceLike, optional: bool = False, allow_cpu: bool = False) -> int:
    """Index of `device`: an int, `"tpu"`, `"tpu:1"`, a `torch.device`, or None.

    Without an index the current device is meant, if `optional`; else `ValueError`. A CPU device gives -1 if
    `allow_cpu`. `ValueError` for a device of another type. Whether the index exists is checked by `checked_index`, as
    this function does no device work.
    """
    if isinstance(device, bool):
        raise TypeError(f"expected a {NAME} device, got the bool {device}")
    if isinstance(device, str):
        try:
            device = torch.device(device)
        except RuntimeError as error:
            raise ValueError(f"{device!r} is no device; write '{NAME}' or '{NAME}:0'") from error
    if isinstance(device, torch.device):
        if allow_cpu and device.type == "cpu":
            return -1
        if device.type != NAME:
            raise ValueError(f"expected a {NAME} device, got {device}")
        device = device.index
    if device is None:
        if not optional:
            raise ValueError(f"expected a {NAME} device with an index, such as '{NAME}:0'")
        return _C.current_device()
    return operator.index(device)


def checked_index(device: DeviceLike) -> int:
    """Index of `device` (None: the current one), which exists: else `RuntimeError` with what there is. Initializes."""
    _lazy_init()
    index = _get_device_index(device, optional=True)
    count = _C.device_count()
    if not 0 <= index < count:
        there = f"{NAME}:0" if count == 1 else f"{NAME}:0 to {NAME}:{count - 1}"
        raise RuntimeError(f"{NAME}:{index} does not exist: this process has {count} device(s), {there}")
    return index


def _lazy_init() -> None:
    """Create the PJRT client unless there is one.

    `RuntimeError` in a process forked after that happened in its parent, and when no plugin is found.
    """
    if _C.is_in_bad_fork():
        raise RuntimeError(
            f"the {NAME} device was initialized before this process was forked, and cannot be used in it; "
            "start the process with the 'spawn' method (torch.multiprocessing.set_start_method('spawn'))"
        )
    if not _C.is_initialized():
        _C.initialize()
