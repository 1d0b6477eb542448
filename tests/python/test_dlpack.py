"""DLPack and numpy: what the CPU can share goes through; device memory says clearly that it cannot."""

from __future__ import annotations

import numpy
import pytest
import torch

from compare import make


def test_from_numpy_and_from_cpu_capsules():
    array = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    assert torch.from_dlpack(array).to("tpu").tolist() == array.tolist()
    capsule = torch.utils.dlpack.to_dlpack(make(3))
    assert torch.equal(torch.utils.dlpack.from_dlpack(capsule).to("tpu").cpu(), make(3))
    assert numpy.from_dlpack(make(4).to("tpu").cpu()).sum() == pytest.approx(make(4).sum().item())


def test_device_memory_does_not_leave_the_process_as_if_it_were_host_memory():
    x = make(3).to("tpu")
    with pytest.raises((RuntimeError, BufferError, TypeError, ValueError)):
        numpy.from_dlpack(x)


def test_within_pytorch_a_capsule_shares_the_storage():
    x = make(2, 3).to("tpu")
    # `torch.from_dlpack(x)` asks `x.__dlpack_device__()`, which knows an out-of-tree device only before it gets a name.
    y = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x))
    assert y.device == x.device and y.stride() == x.stride() and torch.equal(y.cpu(), make(2, 3))
    y.zero_()
    assert not x.any(), "the same memory"
    t = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x.t()[1:]))
    t.fill_(3)
    assert x.tolist() == [[0, 3, 3], [0, 3, 3]]
    del x, y
    assert t.sum().item() == 12, "the capsule keeps the storage"


def test_requires_grad_is_refused():
    with pytest.raises(BufferError):
        torch.ones(2, device="tpu", requires_grad=True).__dlpack__()
