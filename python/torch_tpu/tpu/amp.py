"""Automatic mixed precision: `torch.amp` with this device filled in."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from ._utils import NAME

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(torch.amp.autocast):  # noqa: N801 - PyTorch's name
    """`torch.autocast` for this device: matmuls and convolutions in `dtype` (bfloat16), what needs range in float32."""

    def __init__(
        self, enabled: bool = True, dtype: torch.dtype | None = None, cache_enabled: bool | None = None
    ) -> None:
        super().__init__(NAME, dtype=dtype or torch.bfloat16, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """`torch.amp.GradScaler` for this device. Needed with float16; bfloat16 has float32's range."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__(NAME, init_scale, growth_factor, backoff_factor, growth_interval, enabled)


custom_fwd: Callable[..., Any] = functools.partial(torch.amp.custom_fwd, device_type=NAME)
custom_bwd: Callable[..., Any] = functools.partial(torch.amp.custom_bwd, device_type=NAME)
