"""Views: chains of view operators and writes through them, compared with the CPU bit for bit on every dtype.

A program takes about 30 ms to compile, and a view's window is part of a program: writes choose among few windows.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch

from compare import ALL_DTYPES, compare, compare_error, make, move

pytestmark = pytest.mark.usefixtures("no_fallback")

View = Callable[[torch.Tensor], torch.Tensor]
SHAPES = [(4, 6), (2, 3, 4), (24,)]


def random_step(x: torch.Tensor, rng: random.Random) -> View | None:
    """A view operator that fits `x`, or None where the choice does not fit it."""
    kind = rng.choice(
        "transpose permute narrow select slice unsqueeze squeeze flatten unflatten diagonal unfold as_strided chunk "
        "movedim view expand".split()
    )
    rank = x.dim()
    if kind == "unsqueeze" and rank < 5:
        axis = rng.randint(0, rank)
        return lambda t: t.unsqueeze(axis)
    if kind == "squeeze":
        return lambda t: t.squeeze()
    if rank == 0:
        return None
    axis = rng.randrange(rank)
    size = x.shape[axis]
    if kind == "transpose":
        other = rng.randrange(rank)
        return lambda t: t.transpose(axis, other)
    if kind == "permute":
        order = rng.sample(range(rank), rank)
        return lambda t: t.permute(order)
    if kind == "movedim":
        other = rng.randrange(rank)
        return lambda t: t.movedim(axis, other)
    if kind == "narrow" and size > 1:
        start = rng.randrange(size)
        length = rng.randint(1, size - start)
        return lambda t: t.narrow(axis, start, length)
    if kind == "select" and rank > 1 and size > 0:
        index = rng.randrange(-size, size)
        return lambda t: t.select(axis, index)
    if kind == "slice" and size > 1:
        start, step = rng.randrange(size), rng.randint(1, 3)
        return lambda t: t[(slice(None),) * axis + (slice(start, None, step),)]
    if kind == "chunk" and size > 1:
        which = rng.randrange(2)
        return lambda t: t.chunk(2, axis)[which]
    if kind == "diagonal" and rank > 1:
        other = (axis + 1) % rank
        return lambda t: t.diagonal(0, axis, other)
    if kind == "unfold" and size > 1:
        length = rng.randint(1, size)
        return lambda t: t.unfold(axis, length, length)
    if kind == "unflatten" and size % 2 == 0 and size > 0:
        return lambda t: t.unflatten(axis, (2, size // 2))
    if kind == "as_strided" and x.numel() >= 4:
        return lambda t: t.as_strided((2, 2), (1, 2), t.storage_offset())
    if kind == "expand" and 1 in x.shape:
        shape = [3 if n == 1 else n for n in x.shape]
        return lambda t: t.expand(shape)
    if kind in ("view", "flatten") and x.is_contiguous():
        return lambda t: t.view(-1)
    return None


def random_chain(shape: tuple[int, ...], rng: random.Random, writable: bool) -> list[View]:
    """One to five view operators that fit a tensor of `shape`; if `writable`, without elements that share memory."""
    while True:
        x = torch.zeros(shape)
        chain: list[View] = []
        for _ in range(rng.randint(1, 5)):
            step = random_step(x, rng)
            if step is not None:
                y = step(x)
                if y.numel() > 0 and not (writable and shares_memory(y)):
                    chain.append(step)
                    x = y
        if chain:
            return chain


def shares_memory(x: torch.Tensor) -> bool:
    reach = torch.zeros(x.shape, dtype=torch.int64)
    for axis, (size, stride) in enumerate(zip(x.shape, x.stride(), strict=True)):
        reach += (torch.arange(size) * stride).view([-1 if i == axis else 1 for i in range(x.dim())])
    return reach.unique().numel() < x.numel()


def apply(chain: list[View], x: torch.Tensor) -> torch.Tensor:
    for step in chain:
        x = step(x)
    return x


def test_thousands_of_chains_have_the_cpus_sizes_strides_and_offsets():
    rng = random.Random(1)
    bases = {shape: (make(*shape), make(*shape).to("tpu")) for shape in SHAPES}
    for number in range(3000):
        shape = rng.choice(SHAPES)
        chain = random_chain(shape, rng, writable=False)
        host, device = (apply(chain, base) for base in bases[shape])
        assert device.shape == host.shape and device.stride() == host.stride()
        assert device.storage_offset() == host.storage_offset()
        assert device._is_view() == host._is_view()
        if number % 40 == 0:
            assert torch.equal(device.cpu(), host)


WINDOWS = {shape: [random_chain(shape, random.Random(100 * i + len(shape)), writable=True) for i in range(4)]
           for shape in SHAPES}  # fmt: skip


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_writes_through_random_chains(dtype):
    """Two hundred sequences of five writes on each dtype; windows and kinds of writes repeat, their order does not."""
    rng = random.Random(str(dtype))
    # What the CPU cannot add (the wide unsigned integers in some versions) is not asked of the device.
    kinds = ["fill", "copy", "zero", "self"]
    try:
        torch.ones(2, dtype=dtype).add_(torch.ones(2, dtype=dtype))
        kinds.append("add")
    except (RuntimeError, NotImplementedError):
        pass
    values = {shape: make(*shape, dtype=dtype, high=60) for shape in SHAPES}
    for number in range(200):
        shape = SHAPES[number % len(SHAPES)]
        host = values[shape].clone()
        device = host.to("tpu")
        for _ in range(5):
            window = rng.choice(WINDOWS[shape])
            kind = rng.choice(kinds)
            for base in (host, device):
                target = apply(window, base)
                if kind == "fill":
                    target.fill_(3)
                elif kind == "zero":
                    target.zero_()
                elif kind == "copy":
                    source = torch.arange(target.numel()).to(dtype).reshape(target.shape)
                    target.copy_(source.to(base.device))
                elif kind == "self":
                    target.copy_(target.clone())
                else:
                    target.add_(target.clone())
        assert same_bits(device.cpu(), host), (dtype, number)


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one.contiguous().view(-1).view(torch.uint8), other.contiguous().view(-1).view(torch.uint8))


READS = {
    "transposed": lambda x: x.t() + 1,
    "two views": lambda x: x.t()[:4, :4] + x[:4, :4],
    "slice with a step": lambda x: x[1::2, ::3] * 2,
    "expanded": lambda x: x[:, :1].expand(4, 6) + x,
    "diagonal": lambda x: x.diagonal() * 2,
    "unfolded with overlap": lambda x: x.unfold(1, 3, 1).sum(-1),
    "as_strided with overlap": lambda x: x.as_strided((3, 4), (1, 2), 2) + 0,
    "matmul of transposed": lambda x: x @ x.t(),
    "select of a select": lambda x: x[1][2] + 1,
    "reduction of a view": lambda x: x[:, 1:5].sum(0),
    "window at the end": lambda x: x.view(-1)[20:] - 1,
    "channels": lambda x: x.view(1, 2, 3, 4).to(memory_format=torch.channels_last).mean((2, 3)),
}


@pytest.mark.parametrize("name", READS)
def test_operators_read_through_views(name):
    compare(READS[name], make(4, 6), check_stride=True)


WRITES = {
    "setitem slice": lambda x: x.__setitem__((slice(1, 3), slice(2, 5)), 7.0),
    "setitem tensor": lambda x: x.__setitem__(2, torch.arange(6.0, device=x.device)),
    "setitem host tensor": lambda x: x.__setitem__((0, 0), torch.tensor(5.0)),
    "in-place through a transpose": lambda x: x.t()[1:3].mul_(2),
    "in-place through a diagonal": lambda x: x.diagonal().fill_(9),
    "two views of one storage": lambda x: x[0].add_(x[1]),
    "transposed onto itself": lambda x: x[:4, :4].add_(x[:4, :4].t().clone()),
    "out of a view": lambda x: torch.add(x[0], x[1], out=x[2]),
    "chunks": lambda x: [chunk.sub_(1) for chunk in x.chunk(3, 1)],
    "unbind": lambda x: [row.mul_(i) for i, row in enumerate(x.unbind(0))],
    "foreach": lambda x: torch._foreach_add_([x[0], x[2, 1:3]], 1.0),
    "masked": lambda x: x[1:].masked_fill_(x[1:] > 0, -1.0),
    "index_put": lambda x: x.t().__setitem__(torch.tensor([0, 3], device=x.device), 4.0),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_through_views(name):
    def write(x):
        WRITES[name](x)
        return x

    compare(write, make(4, 6), grad=False)


def test_a_write_shows_in_every_view_and_in_no_copy():
    x = make(4, 6).to("tpu")
    row, column, copy = x[1], x[:, 2], x.clone()
    column.fill_(5)
    assert row[2].item() == 5 and x[3, 2].item() == 5
    assert torch.equal(copy.cpu(), make(4, 6))
    y = x
    x = x + 1  # a new tensor: y keeps its values
    y.zero_()
    assert x[0, 2].item() == 6


def test_writing_where_elements_share_memory_is_refused():
    compare_error(lambda x: x[:, :1].expand(4, 6).add_(1), make(4, 6), error=RuntimeError)


def test_versions_count_writes():
    x = torch.zeros(3, device="tpu")
    before = x._version
    x[1:].add_(1)
    assert x._version == before + 1


def test_view_of_the_wrong_size():
    compare_error(lambda x: x.t().view(-1), make(4, 6))
    compare_error(lambda x: x.view(5, 5), make(4, 6))
    compare_error(lambda x: x.as_strided((100,), (1,)), make(4, 6))


def test_memory_formats():
    x = make(2, 3, 4, 5)
    compare(lambda x: x.contiguous(memory_format=torch.channels_last), x, check_stride=True)
    compare(lambda x: x + 1, x.to(memory_format=torch.channels_last), check_stride=True)
    compare(lambda x: x * 2, x.permute(0, 2, 3, 1), check_stride=True)
    assert move(x[:, 1:, ::2], "tpu").stride() == x[:, 1:, ::2].stride()


def test_scalars_and_empty_tensors_have_views():
    compare(lambda x: (x.view(1, 1), x.expand(3), x.reshape(1)), make(), grad=False)
    compare(lambda x: (x.view(3, 0), x.t(), x.sum(0), x[:0], x + 1), make(0, 3))
    compare(lambda x: x[1:1].fill_(3), make(4), grad=False)
