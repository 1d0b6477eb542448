"""Tier 2: operators without an own lowering run through PyTorch's decomposition, which calls operators that have one.

The native fallback calls `register` at the first use of an overload. From the second use on, the dispatcher finds the
decomposition itself, so the native side is not asked again.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._pytree import tree_map

from torch_tpu import _C

__all__ = ["EXCLUDED", "register", "registered"]

_METADATA = "changes only sizes and strides, which the native kernel does without a program"
_STORE = "a decomposition stores through this operator, so it cannot be one itself"
_GENERATOR = "PyTorch's decomposition refuses a generator"

#: Base names (without `aten::`) whose decomposition is not used, each with the reason.
EXCLUDED: dict[str, str] = {
    "_reshape_alias": _METADATA,
    "as_strided": _METADATA,
    "unfold": _METADATA,
    "view": _METADATA,
    "empty_strided": _STORE,
    "copy_": _STORE,
    "fill_": _STORE,
    "zero_": _STORE,
    "_to_copy": _STORE,
    "cauchy_": _GENERATOR,
    "exponential_": _GENERATOR,
    "geometric_": _GENERATOR,
    "log_normal_": _GENERATOR,
    "normal": _GENERATOR,
    "normal_": _GENERATOR,
    "uniform_": _GENERATOR,
    "cudnn_batch_norm": "belongs to another device",
    "cudnn_batch_norm_backward": "belongs to another device",
    "miopen_batch_norm_backward": "belongs to another device",
    "_scaled_dot_product_flash_attention_for_cpu": "belongs to another device",
}

_lock = threading.RLock()
# Answer per full overload name. Written under the lock, read without.
_answers: dict[str, bool] = {}
# Registrations live as long as this object.
_library: torch.library.Library | None = None
# Overloads whose decomposition runs in this thread.
_running = threading.local()
# Overloads whose decomposition was seen to call itself; they go to the CPU.
_circular: set[str] = set()


def registered() -> list[str]:
    """Names of the overloads that were registered with their decomposition, sorted."""
    return sorted(name for name, answer in list(_answers.items()) if answer)


def register(overload_name: str) -> bool:
    """Register PyTorch's decomposition of `overload_name` (`aten::name.overload`) for the device, if there is one.

    Returns whether the overload has a decomposition now. May be called from any thread and any number of times.
    """
    answer = _answers.get(overload_name)
    if answer is None:
        with _lock:
            answer = _answers.get(overload_name)
            if answer is None:
                answer = _register(overload_name)
                _answers[overload_name] = answer
    return answer


def _register(overload_name: str) -> bool:
    global _library
    op = _overload(overload_name)
    if op is None or op.namespace != "aten" or op._schema.name.removeprefix("aten::") in EXCLUDED:
        return False
    function = _decomposition(op)
    if function is None:
        return False
    if _library is None:
        _library = torch.library.Library("aten", "IMPL")
    _library.impl(op, _kernel(op, function), "PrivateUse1")
    return True


def _overload(name: str) -> OpOverload | None:
    """`aten::add.Tensor` → `torch.ops.aten.add.Tensor`; without an overload name, `default`."""
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace, None), base, None)
    return getattr(packet, overload or "default", None)


def _decomposition(op: OpOverload) -> Callable[..., Any] | None:
    # Importing it fills the table with the decompositions and with PyTorch's reference implementations.
    from torch._decomp import decomposition_table

    return decomposition_table.get(op)


def _kernel(op: OpOverload, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with a count, and with a way out when it calls the operator it is to replace.

    That happens where a reference implementation uses a primitive that PyTorch implements through the operator.
    """
    name = op.name()

    @functools.wraps(function)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        running: set[str] = _running.__dict__.setdefault("names", set())
        if name in running or name in _circular:
            _circular.add(name)
            return _on_cpu(op, args, kwargs)
        running.add(name)
        try:
            result = function(*args, **kwargs)
        finally:
            running.discard(name)
        if result is NotImplemented:
            return _on_cpu(op, args, kwargs)
        _C.count_decomposed(name)
        return result

    return kernel


def _on_cpu(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Compute `op` on the CPU; write what it writes back to the device and move its results there."""
    _C.count_fallback(op.name())
    device: torch.device | None = None

    def to_cpu(value: Any) -> Any:
        nonlocal device
        if isinstance(value, torch.Tensor) and value.device.type != "cpu":
            device = device or value.device
            return value.cpu()
        if isinstance(value, torch.device) and value.type != "cpu":
            device = device or value
            return torch.device("cpu")
        return value

    def to_device(value: Any) -> Any:
        return value.to(device) if isinstance(value, torch.Tensor) and device is not None else value

    cpu_args, cpu_kwargs = tree_map(to_cpu, args), tree_map(to_cpu, kwargs)
    results = op(*cpu_args, **cpu_kwargs)

    # Alias annotations tell which arguments were written, and which results are those arguments themselves.
    written: dict[str, Any] = {}
    for position, argument in enumerate(op._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        if position < len(args):
            original, copy = args[position], cpu_args[position]
        else:
            original, copy = kwargs.get(argument.name), cpu_kwargs.get(argument.name)
        _write_back(original, copy)
        for alias in argument.alias_info.before_set:
            written[alias] = original
    returns = op._schema.returns
    single = len(returns) == 1
    outputs = [
        next((written[alias] for alias in value.alias_info.before_set if alias in written), None)
        if value.alias_info is not None and value.alias_info.is_write
        else tree_map(to_device, result)
        for value, result in zip(returns, [results] if single else list(results or ()), strict=True)
    ]
    if not returns:
        return None
    return outputs[0] if single else tuple(outputs)


def _write_back(original: Any, copy: Any) -> None:
    if isinstance(original, (list, tuple)):
        for one, other in zip(original, copy, strict=True):
            _write_back(one, other)
    elif isinstance(original, torch.Tensor) and original is not copy:
        if original.shape != copy.shape:
            original.resize_(copy.shape)
        original.copy_(copy)
