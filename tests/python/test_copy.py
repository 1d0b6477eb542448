"""Copies: `to`, `copy_`, `cpu`, across devices and dtypes, strided, broadcast, non-blocking; scalars out."""

from __future__ import annotations

import itertools

import pytest
import torch

from compare import ALL_DTYPES, compare, compare_error, make, move

pytestmark = pytest.mark.usefixtures("no_fallback")


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    assert one.dtype == other.dtype and one.shape == other.shape
    as_bytes = [t.resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8) for t in (one, other)]
    return torch.equal(*as_bytes)


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_there_and_back_is_exact(dtype):
    for x in (make(3, 5, dtype=dtype, high=100), make(dtype=dtype), make(0, 4, dtype=dtype), make(70, dtype=dtype)):
        there = x.to("tpu")
        assert there.dtype == dtype and there.shape == x.shape and there.stride() == x.stride()
        assert same_bits(there.cpu(), x)
    x = make(4, 6, dtype=dtype)
    for view in (x.t(), x[1:3, ::2], x[:, 2], x[None].expand(3, 4, 6), x.as_strided((3, 3), (2, 1))):
        assert same_bits(view.to("tpu").cpu(), view)
        assert same_bits(move(view, "tpu").cpu(), view)


def test_special_values_keep_their_bits():
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        x = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-45, 3e38, 65504.0]).to(dtype)
        assert same_bits(x.to("tpu").cpu(), x)
    x = torch.tensor([-(2**63), 2**63 - 1, -1, 0])
    assert same_bits(x.to("tpu").cpu(), x)


PAIRS = [
    pair
    for pair in itertools.product(ALL_DTYPES, ALL_DTYPES)
    if not (pair[0].is_complex and not pair[1].is_complex) and pair[0] != pair[1]
]


@pytest.mark.parametrize("source", ALL_DTYPES, ids=str)
def test_conversions(source):
    x = make(17, dtype=source, low=-5, high=100)
    on_device = x.to("tpu")
    for target in (target for s, target in PAIRS if s == source):
        if source.is_floating_point and target in (torch.uint8, torch.uint16, torch.uint32, torch.uint64):
            # A negative float to an unsigned integer is undefined in C++: the CPU's answer depends on its instructions.
            assert same_bits(on_device.abs().to(target).cpu(), x.abs().to(target)), f"{source} to {target}"
            continue
        assert same_bits(on_device.to(target).cpu(), x.to(target)), f"{source} to {target}"


def test_complex_to_real_drops_the_imaginary_part_with_a_warning():
    x = make(3, dtype=torch.complex64).to("tpu")
    torch.set_warn_always(True)  # PyTorch gives this warning once per process
    try:
        with pytest.warns(UserWarning, match="imaginary"):
            assert torch.equal(x.to(torch.float32).cpu(), x.cpu().real)
    finally:
        torch.set_warn_always(False)


def test_to_keeps_or_copies():
    x = torch.ones(3, device="tpu")
    assert x.to("tpu") is x and x.to(torch.float32) is x and x.to("tpu:0") is x
    assert x.to("tpu", copy=True) is not x
    assert x.to(torch.float64).dtype is torch.float64
    assert x.to("cpu", torch.int32).dtype is torch.int32
    y = make(2, 3, 4, 5).to("tpu")
    assert y.to(memory_format=torch.channels_last).stride() == (60, 1, 15, 3)
    assert y.to("cpu", memory_format=torch.channels_last).is_contiguous(memory_format=torch.channels_last)
    assert y.contiguous() is y
    assert y.permute(3, 2, 1, 0).contiguous().is_contiguous()


def test_strides_follow_the_cpus_rules():
    for view in (lambda x: x.t(), lambda x: x[:, ::2], lambda x: x[0], lambda x: x.expand(2, 4, 6).transpose(0, 2)):
        x = make(4, 6)
        for copy in (
            lambda x: x.clone(),
            lambda x: x.to(torch.float64),
            lambda x: x.contiguous(),
            lambda x: torch.empty_like(x),
            lambda x: x.clone(memory_format=torch.contiguous_format),
        ):
            assert copy(view(x.to("tpu"))).stride() == copy(view(x)).stride()
        assert view(x).to("tpu").stride() == view(x).clone().stride()


def test_copy_in_every_direction():
    target_cpu, target_device = torch.zeros(4, 6), torch.zeros(4, 6, device="tpu")
    source = make(6, 4)
    for non_blocking in (False, True):
        for src in (source, source.to("tpu"), source.double(), source.to("tpu").double(), source.to("tpu").half()):
            for target in (target_cpu, target_device):
                target.zero_()
                target.copy_(src.t(), non_blocking=non_blocking)
                torch.tpu.synchronize()
                assert torch.equal(target.cpu(), src.cpu().t().float())
                target.zero_()
                target.t()[1:3].copy_(src[1:3], non_blocking=non_blocking)
                torch.tpu.synchronize()
                expected = torch.zeros(4, 6)
                expected.t()[1:3] = src.cpu()[1:3].float()
                assert torch.equal(target.cpu(), expected)


def test_copy_broadcasts():
    compare(lambda x, y: x.copy_(y), torch.zeros(3, 4), make(4), grad=False)
    compare(lambda x, y: x.copy_(y), torch.zeros(3, 4), make(3, 1), grad=False)
    compare(lambda x: x.copy_(torch.tensor(2.5)), torch.zeros(3, 4), grad=False)
    x = torch.zeros(3, 4, device="tpu")
    x.copy_(make(4))
    assert torch.equal(x.cpu(), make(4).expand(3, 4))
    with pytest.raises(RuntimeError, match="size"):
        x.copy_(make(5))


def test_overlapping_source_and_target():
    compare(lambda x: x[1:].copy_(x[:-1].clone()), make(9), grad=False)
    compare_error(lambda x: x[1:].copy_(x[:-1]), make(9))


def test_copy_of_itself_and_of_nothing():
    compare(lambda x: x.copy_(x), make(5), grad=False)
    compare(lambda x, y: x.copy_(y), torch.zeros(0, 3), torch.ones(0, 3), grad=False)


def test_gradients_pass_through_copies():
    compare(lambda x: x.to(torch.float64) * 2, make(3))
    x = make(3, 4).requires_grad_()
    (x.to("tpu") * torch.arange(4.0, device="tpu")).sum().backward()
    assert torch.equal(x.grad, torch.arange(4.0).expand(3, 4))
    y = make(3).to("tpu").requires_grad_()
    (y.cpu() * 2).sum().backward()
    assert y.grad.device.type == "tpu" and y.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_items(dtype):
    x = make(5, dtype=dtype, high=50)
    there = x.to("tpu")
    assert [there[i].item() for i in range(5)] == x.tolist() == there.tolist()
    if not dtype.is_complex:
        assert bool(there[0]) == bool(x[0]) and float(there[1]) == float(x[1])
        assert int(there[2]) == int(x[2])
    with pytest.raises(RuntimeError):
        there.item()


def test_numpy_and_lists():
    numpy = pytest.importorskip("numpy")
    x = torch.tensor([[1.0, 2], [3, 4]], device="tpu")
    assert x.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(TypeError, match="cpu"):
        x.numpy()
    assert x.numpy(force=True).sum() == 10
    with pytest.raises(TypeError):
        numpy.asarray(x)
    assert torch.tensor(numpy.arange(3), device="tpu").tolist() == [0, 1, 2]
    assert torch.as_tensor([1, 2], device="tpu").dtype is torch.int64
    assert torch.from_numpy(numpy.ones(3)).to("tpu").dtype is torch.float64


def test_a_large_tensor():
    x = torch.arange(5_000_000, dtype=torch.int32)
    assert torch.equal(x.to("tpu").cpu(), x)
