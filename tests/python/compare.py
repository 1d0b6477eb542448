"""The question that most tests ask: does the device give what the CPU gives?

`compare` runs a function on both, from identical inputs, and holds outputs, gradients and changed inputs together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_flatten, tree_map

import torch_tpu  # noqa: F401 - the device

#: Every dtype that tensors on the device may have in this project.
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
WIDE_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
COMPLEX = (torch.complex64, torch.complex128)
ALL_DTYPES = (torch.bool, *INTEGERS, *WIDE_UNSIGNED, *FLOATS, *COMPLEX)


def make(
    *shape: int, dtype: torch.dtype = torch.float32, low: float = -2.0, high: float = 2.0, seed: int = 0
) -> torch.Tensor:
    """A CPU tensor of `shape` with values in [low, high), the same ones at each call with the same arguments."""
    generator = torch.Generator().manual_seed(seed + sum((i + 1) * n for i, n in enumerate(shape)))
    if dtype is torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if dtype.is_complex:
        part = torch.float64 if dtype is torch.complex128 else torch.float32
        real = torch.rand(shape, generator=generator, dtype=part) * (high - low) + low
        imaginary = torch.rand(shape, generator=generator, dtype=part) * (high - low) + low
        return torch.complex(real, imaginary)
    if dtype.is_floating_point:
        return (torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low).to(dtype)
    low = max(low, 0) if dtype in (torch.uint8, *WIDE_UNSIGNED) else low
    return torch.randint(int(low), max(int(high), int(low) + 1), shape, generator=generator).to(dtype)


class _Mover:
    """Copies tensors to a device with their strides, offsets, and what they share."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.bases: dict[tuple[int, torch.dtype], torch.Tensor] = {}

    def __call__(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if value.layout is not torch.strided:
            return value.to(self.device)
        if value.is_conj():
            return self(value.conj()).conj()
        if value.is_neg():
            return torch._neg_view(self(torch._neg_view(value)))
        storage = value.untyped_storage()
        key = (storage._cdata, value.dtype)
        if key not in self.bases:
            elements = storage.nbytes() // value.dtype.itemsize
            flat = torch.empty(0, dtype=value.dtype).set_(storage, 0, (elements,), (1,))
            self.bases[key] = flat.clone().to(self.device)
        moved = self.bases[key].as_strided(value.shape, value.stride(), value.storage_offset())
        return moved.detach()


def move(tree: Any, device: str) -> Any:
    """`tree` with its CPU tensors copied to `device`: same strides and offsets, and views of one storage stay that."""
    return tree_map(_Mover(device), tree)


def tensors(tree: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, torch.Tensor))


def compare(
    fn: Callable[..., Any],
    *inputs: Any,
    grad: bool = True,
    allow_fallback: tuple[str, ...] = (),
    check_device: bool = True,
    check_stride: bool = False,
    device: str = "tpu",
    **tolerances: Any,
) -> Any:
    """Run `fn(*inputs)` on the CPU and on `device`; fail unless everything agrees. Returns the device's output.

    `inputs` are CPU tensors and anything else, possibly nested; both runs get copies of the tensors. With `grad`, the
    gradients of the outputs with respect to floating inputs are compared too (skipped where the output has none).
    Tensors that `fn` changed in place are compared as well. `tolerances` go to `torch.testing.assert_close`; a
    difference in dtype is always one, in strides with `check_stride`. A CPU fallback fails, unless allowed by name.
    """
    before = torch.tpu.fallback_ops()
    results = []
    for target in ("cpu", device):
        moved = move(inputs, target)
        leaves = list(tensors(moved))
        wanted = [t for t in leaves if grad and (t.is_floating_point() or t.is_complex())]
        for tensor in wanted:
            tensor.requires_grad_()
        output = fn(*moved)
        results.append((output, _gradients(output, wanted, target) if grad else [], leaves))
    (expected, expected_grads, expected_inputs), (actual, actual_grads, actual_inputs) = results

    kind = torch.device(device).type
    if check_device:
        for tensor in tensors(actual):
            assert tensor.device.type == kind, f"an output is on {tensor.device}, expected {kind}"
    assert_equal_trees(actual, expected, "output", check_stride=check_stride, **tolerances)
    assert_equal_trees(actual_grads, expected_grads, "gradient", **tolerances)
    assert_equal_trees(actual_inputs, expected_inputs, "input after the call", check_stride=check_stride, **tolerances)
    after = torch.tpu.fallback_ops()
    fell_back = {name for name, count in after.items() if count > before.get(name, 0)} - set(allow_fallback)
    assert not fell_back, f"computed on the CPU: {sorted(fell_back)}"
    return actual


def assert_equal_trees(actual: Any, expected: Any, what: str, **options: Any) -> None:
    """`torch.testing.assert_close` over nested structures, devices aside; NaN equals NaN."""
    options.setdefault("equal_nan", True)
    actual_leaves, actual_spec = tree_flatten(actual)
    expected_leaves, expected_spec = tree_flatten(expected)
    assert actual_spec == expected_spec, f"{what}: {actual_spec} on the device, {expected_spec} on the CPU"
    for position, (one, other) in enumerate(zip(actual_leaves, expected_leaves, strict=True)):
        where = f"{what} {position}" if len(actual_leaves) > 1 else what
        if not isinstance(other, torch.Tensor):
            assert type(one) is type(other), f"{where}: {one!r} on the device, {other!r} on the CPU"
            if isinstance(other, (bool, int, str, torch.dtype, torch.Size)) or other is None:
                assert one == other, f"{where}: {one!r} on the device, {other!r} on the CPU"
            elif isinstance(other, (float, complex)):
                torch.testing.assert_close(one, other, **{k: v for k, v in options.items() if k != "check_stride"})
            continue
        assert isinstance(one, torch.Tensor), f"{where}: {one!r} on the device, a tensor on the CPU"
        if options.get("check_stride"):
            assert one.stride() == other.stride(), f"{where}: strides {one.stride()} on the device, {other.stride()}"
        rest = {k: v for k, v in options.items() if k != "check_stride"}
        torch.testing.assert_close(
            one.detach().cpu(), other.detach(), msg=lambda text, where=where: f"{where}: {text}", **rest
        )


def compare_error(
    fn: Callable[..., Any], *inputs: Any, error: type[BaseException] | None = None, match: str | None = None
) -> None:
    """Fail unless `fn(*inputs)` raises on the CPU and on the device, the same type (or `error`, matching `match`)."""
    if error is None:
        with pytest.raises(Exception) as caught:
            fn(*move(inputs, "cpu"))
        error = caught.type
    with pytest.raises(error, match=match):
        output = fn(*move(inputs, "tpu"))
        for tensor in tensors(output):
            tensor.cpu()


def _gradients(output: Any, wanted: list[torch.Tensor], target: str) -> list[torch.Tensor | None]:
    outputs = [t for t in tensors(output) if t.requires_grad and t.grad_fn is not None]
    if not outputs or not wanted:
        return []
    generator = torch.Generator().manual_seed(1)
    cotangents = []
    for tensor in outputs:
        part = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
        if tensor.dtype.is_complex:
            part = torch.complex(part, torch.randn(tensor.shape, generator=generator, dtype=torch.float64))
        cotangents.append(part.to(tensor.dtype).to(target))
    return list(torch.autograd.grad(outputs, wanted, cotangents, allow_unused=True))
