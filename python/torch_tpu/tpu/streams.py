"""Streams and events of the device: `torch.Stream` and `torch.Event`, which need no device name here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from torch_tpu import _C

from ._utils import NAME, DeviceLike, _get_device_index, _lazy_init, checked_index

__all__ = ["Event", "Stream", "current_stream", "default_stream", "set_stream", "stream", "synchronize"]


class Stream(torch.Stream):
    """A queue of work on one device; work on one stream runs in the order it was given.

    `Stream(device=None, priority=0)` makes a stream on `device` (None: the current one). `Stream(stream_id=…,
    device_index=…, device_type=…)` names an existing one. Methods are those of `torch.Stream`: `query`, `synchronize`,
    `wait_event`, `wait_stream`, `record_event`; the stream is also a context manager.
    """

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **existing: Any) -> Stream:
        if existing:
            return super().__new__(cls, priority=priority, **existing)
        index = checked_index(device)
        return super().__new__(cls, device=torch.device(NAME, index), priority=priority)

    def __repr__(self) -> str:
        return f"<torch.{NAME}.Stream device={self.device} id={self.stream_id}>"


class _EventOfDevice(type(torch.Event)):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch.Event) and instance.device.type == NAME


class Event(torch.Event, metaclass=_EventOfDevice):
    """A mark in a stream: `record`, `wait`, `query`, `synchronize`, `elapsed_time` (milliseconds).

    `elapsed_time` needs `enable_timing=True` on both events. Calling the class gives a `torch.Event`, as PyTorch's
    `elapsed_time` takes no instance of a subclass; each `torch.Event` of this device is an instance of this class.
    """

    def __new__(  # type: ignore[misc]
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> torch.Event:
        _lazy_init()
        return torch.Event(NAME, enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)


def _own(stream: torch.Stream) -> Stream:
    return Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)


def current_stream(device: DeviceLike = None) -> Stream:
    """The stream that operators on `device` (None: the current one) are enqueued on in this thread."""
    return _own(torch._C._accelerator_getStream(checked_index(device)))


def default_stream(device: DeviceLike = None) -> Stream:
    """The stream that `device` starts with."""
    some = torch._C._accelerator_getStream(checked_index(device))
    return Stream(stream_id=0, device_index=some.device_index, device_type=some.device_type)


def set_stream(stream: torch.Stream | None) -> None:
    """Make `stream` current, and its device too. None changes nothing."""
    if stream is None:
        return
    if stream.device.type != NAME:
        raise ValueError(f"expected a stream of {NAME}, got one of {stream.device}")
    _lazy_init()
    torch._C._accelerator_setStream(stream)


@contextlib.contextmanager
def stream(stream: torch.Stream | None) -> Iterator[torch.Stream | None]:
    """Context manager that makes `stream` (and its device) current; None changes nothing."""
    if stream is None:
        yield None
        return
    device = _C.current_device()
    previous = current_stream(stream.device)
    set_stream(stream)
    try:
        yield stream
    finally:
        set_stream(previous)
        _C.set_device(device)


def synchronize(device: DeviceLike = None) -> None:
    """Wait for all work on `device` (None: the current one).

    Raises the first error of that work which has not been reported yet, as `RuntimeError`.
    """
    if device is not None:
        _get_device_index(device, optional=True)  # another device type is an error even before the first use
    _C.synchronize(checked_index(device))
