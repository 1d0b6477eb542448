"""Precision of float32 matrix products and convolutions."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator

import torch

__all__ = ["Precision", "precision"]


class Precision(enum.Enum):
    """What one float32 product may lose. The value is PyTorch's name (`torch.set_float32_matmul_precision`)."""

    #: Full float32 (the default).
    HIGHEST = "highest"
    #: About 16 bits of mantissa: three passes of bfloat16 on a TPU.
    HIGH = "high"
    #: One pass of bfloat16 on a TPU: 8 bits of mantissa.
    MEDIUM = "medium"
    #: The compiler's own name of `MEDIUM`.
    DEFAULT = MEDIUM


@contextlib.contextmanager
def precision(value: Precision | str) -> Iterator[Precision]:
    """Context manager that sets `torch.set_float32_matmul_precision` for its duration. It holds for the process.

    `value` is a `Precision`, or "highest", "high" or "medium"; else `ValueError`.
    """
    wanted = Precision(value.lower()) if isinstance(value, str) else Precision(value)
    previous = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(wanted.value)
    try:
        yield wanted
    finally:
        torch.set_float32_matmul_precision(previous)
