"""What the native module offers to Python. `tests/python/test_package.py` holds it and the module to the same names."""

# ---- device -------------------------------------------------------------------------------------------------------
def device_name() -> str:
    """`"tpu"` or `"neuron"`: the device type of this process, from `TORCH_TPU_DEVICE`. No device work."""

def set_search_paths(paths: list[str]) -> None:
    """Folders with installed packages, in which plugin wheels are looked for. The first call counts."""

def initialize() -> None:
    """Load a PJRT plugin and create the client, once. `RuntimeError` lists what was tried when none is found."""

def is_initialized() -> bool: ...
def is_available() -> bool:
    """Whether a client exists or can be created with at least one device. Never raises."""

def is_in_bad_fork() -> bool:
    """Whether this process was forked from one that had already created the client."""

def device_count() -> int:
    """Addressable devices; 0 when none is available. Never raises."""

def current_device() -> int: ...
def set_device(index: int) -> None: ...
def exchange_device(index: int) -> int:
    """Make `index` current and return the previous one. A negative index changes nothing and returns -1."""

def maybe_exchange_device(index: int) -> int:
    """Like `exchange_device`, without creating a context on `index`."""

def synchronize(index: int) -> None:
    """Wait for everything enqueued on device `index`. Raises the first asynchronous error. Releases the GIL."""

def get_device_kind(index: int) -> str: ...
def platform() -> dict[str, str]:
    """Keys `name`, `version`, `api_version`, `plugin_path`."""

# ---- memory -------------------------------------------------------------------------------------------------------
def memory_stats(index: int) -> dict[str, int]:
    """Allocator statistics of device `index`, flat, with the keys of `torch.cuda.memory_stats`; bytes or counts."""

def reset_peak_memory_stats(index: int) -> None: ...
def reset_accumulated_memory_stats(index: int) -> None: ...
def empty_cache() -> None: ...
def mem_get_info(index: int) -> tuple[int, int]:
    """`(free, total)` in bytes."""

# ---- random numbers -----------------------------------------------------------------------------------------------
def manual_seed_all(seed: int) -> None:
    """Seed the default generators of all devices, also of those that do not exist yet. No device work."""

# ---- operators and programs ---------------------------------------------------------------------------------------
def executed_ops() -> dict[str, int]: ...
def decomposed_ops() -> dict[str, int]: ...
def fallback_ops() -> dict[str, int]: ...
def reset_op_counts() -> None: ...
def count_decomposed(name: str) -> None: ...
def count_fallback(name: str) -> None:
    """Count one CPU fallback of `name`; warns or raises `NotImplementedError` as `TORCH_TPU_FALLBACK` says."""

def cache_stats() -> dict[str, int | float]:
    """Keys `hits`, `misses`, `compile_seconds`, `entries`, `bytes`."""

def registered_overloads() -> list[str]: ...
def table_bases() -> list[str]: ...

# ---- modes --------------------------------------------------------------------------------------------------------
def get_eager_mode() -> str: ...
def set_eager_mode(mode: str) -> None: ...
def config() -> dict[str, str]:
    """Every `TORCH_TPU_*` variable with the value in force. `ValueError` names an invalid one."""

def flush() -> None:
    """Submit what is recorded and not yet enqueued, and release storage that waits to be freed."""
