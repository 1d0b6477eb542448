"""Storages: sizes, `resize_`, `set_`, views of another dtype, conjugate and negative bits, sharing, deepcopy."""

from __future__ import annotations

import copy
from multiprocessing.reduction import ForkingPickler

import pytest
import torch

from compare import ALL_DTYPES, compare, compare_error, make

pytestmark = pytest.mark.usefixtures("no_fallback")


def test_a_storage_knows_its_size_and_device():
    x = torch.zeros(3, 4, device="tpu")
    storage = x.untyped_storage()
    assert storage.nbytes() == 48 and len(storage) == 48
    assert storage.device == torch.device("tpu:0") and storage.is_tpu
    assert x[1:].untyped_storage().data_ptr() == storage.data_ptr()
    assert x.clone().untyped_storage().data_ptr() != storage.data_ptr()
    assert torch.zeros(0, device="tpu").untyped_storage().nbytes() == 0
    assert x[1:].data_ptr() == x.data_ptr() + 16


def test_live_tensors_have_distinct_addresses():
    tensors = [torch.zeros(7, device="tpu") for _ in range(50)]
    spans = sorted((t.untyped_storage().data_ptr(), t.untyped_storage().nbytes()) for t in tensors)
    for (start, length), (following, _) in zip(spans, spans[1:], strict=False):
        assert start + length <= following, "address ranges of live storages overlap"


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_resize(dtype):
    def resize(x):
        x.resize_(2, 2)
        small = x.clone()
        x.resize_(3, 2)  # the storage never shrank
        return small, x

    compare(resize, make(3, 2, dtype=dtype), grad=False)


def test_resize_grows_and_keeps_what_was_there():
    x = torch.arange(4.0, device="tpu")
    x.resize_(10)
    assert x.shape == (10,) and x[:4].tolist() == [0, 1, 2, 3]
    x.fill_(2)
    assert x.sum().item() == 20
    assert x.untyped_storage().nbytes() >= 40
    x.resize_(0)
    assert x.numel() == 0
    y = torch.empty(0, device="tpu")
    torch.add(torch.ones(3, device="tpu"), 1, out=y)
    assert y.tolist() == [2, 2, 2]


def test_resize_of_a_storage():
    x = torch.ones(4, device="tpu")
    x.untyped_storage().resize_(0)
    assert x.untyped_storage().nbytes() == 0
    x.untyped_storage().resize_(16)
    x.copy_(torch.arange(4.0))
    assert x.tolist() == [0, 1, 2, 3]


def test_set():
    def share(x, y):
        y.set_(x)
        y.add_(1)
        z = torch.empty(0, device=x.device)
        z.set_(x.untyped_storage(), 1, (2, 2), (1, 2))
        z.mul_(2)
        e = torch.empty(3, device=x.device)
        e.set_()
        return x, y, z, e

    compare(share, make(5), make(2), grad=False)
    x = torch.ones(3, device="tpu")
    with pytest.raises((RuntimeError, NotImplementedError)):
        x.set_(torch.ones(3).untyped_storage())


def test_data_can_be_exchanged():
    parameter = torch.nn.Parameter(torch.ones(3, device="tpu"))
    parameter.data = torch.full((3,), 2.0, device="tpu")
    assert parameter.sum().item() == 6
    parameter.data.mul_(2)
    assert parameter.tolist() == [4, 4, 4]
    torch.utils.swap_tensors(a := torch.ones(2, device="tpu"), b := torch.zeros(2, device="tpu"))
    assert a.tolist() == [0, 0] and b.tolist() == [1, 1]


PAIRS = [
    (torch.float32, torch.int32),
    (torch.float32, torch.uint8),
    (torch.uint8, torch.float32),
    (torch.int64, torch.int16),
    (torch.bfloat16, torch.int16),
    (torch.float64, torch.int32),
    (torch.int8, torch.uint8),
    (torch.bool, torch.uint8),
    (torch.complex64, torch.float32),
    (torch.float32, torch.complex64),
    (torch.complex64, torch.int64),
]


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=str)
def test_views_of_another_dtype(source, target):
    x = make(3, 8, dtype=source, high=100)

    def reinterpret(x):
        y = x.view(target)
        part = y[1:, ::2].clone()
        if not target.is_complex:
            y[0].zero_()
        return x, y, part

    compare(reinterpret, x, grad=False)


def test_a_view_of_another_dtype_follows_writes_to_the_base():
    def follow(x):
        y = x.view(torch.int32)
        x.add_(1)
        first = y.clone()
        y.bitwise_and_(-(2**23))
        x.mul_(3)
        return first, x, y

    compare(follow, make(6, high=50), grad=False)
    compare_error(lambda x: x.view(torch.float64), make(3))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_conjugate_and_negative_bits(dtype):
    def lazily(x):
        c = x.conj()
        assert c.is_conj()
        n = c.imag
        assert n.is_neg()
        return c + 0, n + 0, c.clone(), n.clone(), (c @ x.t()), c.resolve_conj(), n.resolve_neg(), x.real * 2, x.mH

    compare(lazily, make(3, 3, dtype=dtype))

    def write(x):
        x.conj()[0].fill_(2 + 3j)
        x.imag[1].fill_(7)
        x.conj().imag[2].copy_(torch.arange(3.0, device=x.device))
        x.real.add_(1)
        return x

    compare(write, make(3, 3, dtype=dtype), grad=False)
    x = make(3, dtype=dtype).to("tpu").conj()
    assert x.is_conj() and torch.equal(x.cpu(), make(3, dtype=dtype).conj())
    assert x[1].item() == make(3, dtype=dtype).conj()[1].item()
    compare(lambda x: (torch.view_as_real(x) * 2, torch.view_as_complex(torch.view_as_real(x))), make(3, dtype=dtype))


def test_negative_view():
    compare(lambda x: (torch._neg_view(x) + 1, torch._neg_view(x).clone()), make(4), grad=False)


def test_deepcopy():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3)).to("tpu")
    other = copy.deepcopy(model)
    other[0].weight.data.zero_()
    assert model[0].weight.abs().sum().item() > 0 and other[0].weight.is_tpu
    x = torch.arange(6.0, device="tpu")
    tree = {"all": x, "part": x[2:4]}
    twin = copy.deepcopy(tree)
    twin["all"].zero_()
    assert twin["part"].tolist() == [0, 0] and tree["part"].tolist() == [2, 3], "views stay views of the copy"
    shallow = copy.copy(x)
    assert shallow.data_ptr() == x.data_ptr()
    z = make(3, dtype=torch.complex64).to("tpu").conj()
    assert torch.equal(copy.deepcopy(z).cpu(), z.cpu())


def test_sharing_between_processes_says_no():
    with pytest.raises(RuntimeError, match="only available on CPU"):
        ForkingPickler.dumps(torch.ones(3, device="tpu"))


def test_storages_copy_and_convert():
    x = torch.arange(4, dtype=torch.uint8, device="tpu")
    storage = x.untyped_storage()
    assert storage.tolist() == [0, 1, 2, 3]
    assert storage.cpu().tolist() == [0, 1, 2, 3]
    assert torch.arange(4, dtype=torch.uint8).untyped_storage().tpu().device.type == "tpu"
    other = torch.UntypedStorage(4, device="tpu")
    other.copy_(storage)
    assert other.tolist() == [0, 1, 2, 3]
    assert storage.clone().tolist() == [0, 1, 2, 3]
    other.fill_(7)
    assert other.tolist() == [7, 7, 7, 7]


def test_zero_size_and_scalars():
    for dtype in ALL_DTYPES:
        empty = torch.empty(0, 3, dtype=dtype, device="tpu")
        assert empty.cpu().shape == (0, 3) and empty.clone().numel() == 0
        assert torch.cat([empty, empty]).shape == (0, 3)
        assert torch.zeros((), dtype=dtype, device="tpu").item() == 0


def test_uninitialised_memory_can_be_read():
    assert torch.empty(5, device="tpu").cpu().shape == (5,)
    assert torch.empty(5, device="tpu", dtype=torch.bool).cpu().to(torch.uint8).max() <= 255
    x = torch.empty_strided((2, 3), (1, 2), device="tpu")
    assert x.stride() == (1, 2) and x.cpu().shape == (2, 3)
