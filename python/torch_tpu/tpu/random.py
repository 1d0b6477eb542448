"""Random numbers: Philox generators, one by default per device.

The same seed gives the same numbers in every execution mode, and other numbers than on the CPU.
"""

from __future__ import annotations

import torch

from torch_tpu import _C

from ._utils import NAME, DeviceLike, _get_device_index, checked_index

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def _default_generators() -> tuple[torch.Generator, ...]:
    return tuple(torch.ops.torch_tpu.default_generator(index) for index in range(_C.device_count()))


def _get_generator(device: DeviceLike = None) -> torch.Generator:
    """Default generator of `device`. PyTorch's graph-safe random number code looks for this name."""
    return torch.ops.torch_tpu.default_generator(checked_index(device))


def get_rng_state(device: DeviceLike = NAME) -> torch.Tensor:
    """State of the default generator of `device`: a uint8 tensor on the CPU, for `set_rng_state`."""
    return _get_generator(device).get_state()


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = NAME) -> None:
    """Set the state of the default generator of `device` to one that `get_rng_state` returned."""
    _get_generator(device).set_state(new_state.cpu())


def get_rng_state_all() -> list[torch.Tensor]:
    """`get_rng_state` of every device."""
    return [generator.get_state() for generator in _default_generators()]


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    """`set_rng_state` of every device; `ValueError` unless there is one state per device."""
    generators = _default_generators()
    if len(new_states) != len(generators):
        raise ValueError(f"expected {len(generators)} states, one per device, got {len(new_states)}")
    for generator, state in zip(generators, new_states, strict=True):
        generator.set_state(state.cpu())


def manual_seed(seed: int, device: DeviceLike = None) -> None:
    """Seed the default generator of `device` (None: the current one). Does no device work."""
    torch.ops.torch_tpu.default_generator(_get_device_index(device, optional=True)).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed the default generators of all devices. Does no device work: `torch.manual_seed` may call it anywhere.

    `RuntimeError` for a seed outside [-2**63, 2**64 - 1]; a negative one counts from 2**64, as in PyTorch.
    """
    seed = int(seed)
    if not -(2**63) <= seed < 2**64:
        raise RuntimeError(f"seed {seed} is outside [-2**63, 2**64 - 1]")
    _C.manual_seed_all(seed % 2**64)


def seed() -> int:
    """Seed the current device's default generator with a number from the operating system, and return that."""
    return _get_generator().seed()


def seed_all() -> int:
    """Seed every device's default generator with one number from the operating system, and return that."""
    number = torch.Generator().seed()
    manual_seed_all(number)
    return number


def initial_seed() -> int:
    """The seed that the current device's default generator was last given."""
    return _get_generator().initial_seed()
