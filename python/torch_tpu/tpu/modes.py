"""How eager operators are executed."""

from __future__ import annotations

import enum
from types import TracebackType

from torch_tpu import _C

__all__ = ["EagerMode", "set_eager_mode"]


class EagerMode(enum.Enum):
    """Execution modes of eager operators."""

    #: Each operator is enqueued at once and runs asynchronously (the default).
    DEFER_NEVER = "DEFER_NEVER"
    #: As before, and each operator is waited for; device indices are checked and errors carry the Python line.
    DEFER_NEVER_AND_LAUNCH_BLOCKING = "DEFER_NEVER_AND_LAUNCH_BLOCKING"
    #: Operators are recorded and fused when a value is needed. Not available yet.
    DEFER_AND_FUSE = "DEFER_AND_FUSE"


def current_eager_mode() -> EagerMode:
    return EagerMode(_C.get_eager_mode())


def _as_mode(mode: EagerMode | str) -> EagerMode:
    if isinstance(mode, str):
        if mode not in EagerMode.__members__:
            raise ValueError(f"{mode!r} is no eager mode; choose one of {', '.join(EagerMode.__members__)}")
        return EagerMode[mode]
    if not isinstance(mode, EagerMode):
        raise TypeError(f"expected an EagerMode, got {type(mode).__name__}")
    return mode


class set_eager_mode:  # noqa: N801 - used like a function
    """Set the mode now; as a context manager, set the previous one again at the end.

    The mode belongs to the process. `NotImplementedError` for `DEFER_AND_FUSE`, which the deferred mode's issue brings.
    """

    def __init__(self, mode: EagerMode | str) -> None:
        mode = _as_mode(mode)
        if mode is EagerMode.DEFER_AND_FUSE:
            raise NotImplementedError(
                "EagerMode.DEFER_AND_FUSE is not available yet: it comes with the issue 'deferred mode'; "
                "use EagerMode.DEFER_NEVER"
            )
        self.mode = mode
        self.previous = current_eager_mode()
        _C.set_eager_mode(mode.value)

    def __enter__(self) -> EagerMode:
        return self.mode

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _C.set_eager_mode(self.previous.value)
