"""Memory of the device. All sizes are bytes."""

from __future__ import annotations

from collections import OrderedDict

from torch_tpu import _C

from ._utils import NAME, DeviceLike, checked_index

__all__ = [
    "empty_cache",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
]


def memory_stats(device: DeviceLike = None) -> OrderedDict[str, int]:
    """Statistics of `device` (None: the current one) under the keys of `torch.cuda.memory_stats`, sorted.

    `allocated_bytes.all.{current,peak,allocated,freed}` count the bytes of buffers that tensors hold;
    `reserved_bytes.all.*` what the plugin took from the device; `num_alloc_retries` and `num_ooms` are counts.
    Empty before the device is first used.
    """
    if not _C.is_initialized():
        return OrderedDict()
    return OrderedDict(sorted(_C.memory_stats(checked_index(device)).items()))


def memory_allocated(device: DeviceLike = None) -> int:
    """Bytes that tensors on `device` hold now."""
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: DeviceLike = None) -> int:
    """Largest `memory_allocated` since the process began or `reset_peak_memory_stats`."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: DeviceLike = None) -> int:
    """Bytes that the plugin has taken from `device` for this process."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: DeviceLike = None) -> int:
    """Largest `memory_reserved` since the process began or `reset_peak_memory_stats`."""
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Set the peaks of `device` to the present values."""
    if _C.is_initialized():
        _C.reset_peak_memory_stats(checked_index(device))


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Set the running totals (`allocated`, `freed`, event counts) of `device` to zero."""
    if _C.is_initialized():
        _C.reset_accumulated_memory_stats(checked_index(device))


def empty_cache() -> None:
    """Give memory that no tensor holds back to the device. Does nothing before the device is first used."""
    if _C.is_initialized():
        _C.empty_cache()


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """`(free, total)` bytes of `device`: what an allocation may still take, and the device's memory."""
    return _C.mem_get_info(checked_index(device))


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """A table of `memory_stats` for people, in MiB. `abbreviated` leaves out the running totals."""
    stats = memory_stats(device)
    columns = ["current", "peak"] if abbreviated else ["current", "peak", "allocated", "freed"]
    rows = [("allocated memory", "allocated_bytes.all"), ("reserved memory", "reserved_bytes.all")]
    where = f"{NAME}:{checked_index(device)}" if stats else f"{NAME} (not initialized)"
    lines = [f"memory of {where}, MiB", f"{'':20}" + "".join(f"{column:>14}" for column in columns)]
    for title, prefix in rows:
        cells = (stats.get(f"{prefix}.{column}", 0) / 2**20 for column in columns)
        lines.append(f"{title:20}" + "".join(f"{cell:14.2f}" for cell in cells))
    events = [("allocations", "num_device_alloc"), ("out of memory", "num_ooms"), ("retries", "num_alloc_retries")]
    lines += [f"{title:20}{stats[key]:14d}" for title, key in events if key in stats]
    return "\n".join(lines)
