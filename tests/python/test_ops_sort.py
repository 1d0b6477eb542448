"""Sorting, the largest elements, order statistics, searching, membership, histograms."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from compare import FLOATS, INTEGERS, compare, compare_error, make

INF, NAN = math.inf, math.nan
SPECIAL = torch.tensor([3.0, NAN, -INF, INF, -0.0, 0.0, -NAN, 1.5, -2.0, 0.0, NAN, 1e-40])


def distinct(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Values that differ along every axis, so that order statistics have one answer."""
    count = math.prod(shape)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(count))
    return (order - count // 2).to(dtype).reshape(shape) if dtype.is_signed else order.to(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.uint32, torch.uint16, torch.bool], ids=str)
def test_sort(dtype: torch.dtype) -> None:
    def fn(x: torch.Tensor) -> Any:
        return (*torch.sort(x, stable=True), *torch.sort(x, dim=0, descending=True, stable=True))

    compare(fn, make(5, 7, dtype=dtype, low=-4, high=4), grad=dtype is torch.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("descending", [False, True])
def test_sort_of_special_values(dtype: torch.dtype, descending: bool) -> None:
    output = compare(lambda x: torch.sort(x, descending=descending, stable=True), SPECIAL.to(dtype), grad=False)
    # assert_close takes -0 for 0
    expected = torch.sort(SPECIAL.to(dtype), descending=descending, stable=True).values
    assert torch.equal(torch.signbit(output[0].cpu())[4:7], torch.signbit(expected)[4:7])


def test_sort_of_extreme_integers() -> None:
    for dtype in (torch.int32, torch.int64, torch.uint8):
        info = torch.iinfo(dtype)
        values = torch.tensor([0, info.max, info.min, info.max - 1, info.min + 1, 1], dtype=dtype)
        compare(lambda x: (*x.sort(), *x.sort(descending=True)), values)


def test_sort_shapes() -> None:
    compare(lambda x: (*x.sort(), *x.sort(0)), distinct(6, 8)[::2, 1::3].t())
    compare(lambda x: (*x.sort(), *x.sort(-1, descending=True)), torch.tensor(3.0))
    compare(lambda x: (*x.sort(), *x.sort(0)), torch.zeros(0, 3))
    compare(lambda x: (x.argsort(), x.argsort(1, descending=True), x.msort()), distinct(3, 4, 5))
    compare(
        lambda x: torch.sort(x, out=(x.new_empty(0), x.new_empty(0, dtype=torch.int64))), distinct(3, 4), grad=False
    )
    compare(lambda x: x.sort(), distinct(30_000), grad=False)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
@pytest.mark.parametrize("largest", [True, False])
def test_topk(dtype: torch.dtype, largest: bool) -> None:
    def fn(x: torch.Tensor) -> Any:
        return (*x.topk(2, largest=largest), *x.topk(3, 0, largest=largest))

    compare(fn, distinct(3, 40, dtype=dtype), grad=dtype is torch.float32)


def test_topk_forms() -> None:
    compare(lambda x: x.topk(5, sorted=False).values.sort().values, distinct(4, 50))
    compare(lambda x: (*x.topk(0), *x.topk(40)), distinct(3, 40), grad=False)
    compare(lambda x: x.topk(1), torch.tensor(2.0))
    compare(lambda x: x.topk(0, 0), torch.zeros(0, 3), grad=False)
    compare(
        lambda x: (*x.topk(3), *x.topk(3, largest=False)),
        torch.tensor([NAN, 1.0, INF, 2.0, -INF, *range(30, 50)]),
        grad=False,
    )
    compare(lambda x: x.topk(6).values, SPECIAL, grad=False)
    compare_error(lambda x: x.topk(5), distinct(3, 4), error=RuntimeError, match="selected index k out of range")
    compare_error(lambda x: x.bool().topk(1), distinct(3, 4), error=RuntimeError, match="topk does not support bool")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8], ids=str)
def test_order_statistics(dtype: torch.dtype) -> None:
    def fn(x: torch.Tensor) -> Any:
        return (
            *x.kthvalue(2),
            *x.kthvalue(3, 0, keepdim=True),
            x.median(),
            *x.median(0),
            *x.median(1, keepdim=True),
            x.nanmedian(),
            *x.nanmedian(1),
        )

    compare(fn, distinct(4, 7, dtype=dtype), grad=dtype is torch.float32)


def test_medians_with_nan() -> None:
    x = torch.tensor([[3.0, 1.0, NAN, 2.0, 4.0], [NAN] * 5, [5.0, 1.0, 2.0, 4.0, 3.0], [NAN, 7.0, NAN, NAN, NAN]])
    # Which of several NaN is given is not defined beyond the first.
    compare(lambda x: (x.median(1).values, x.nanmedian(1).values, x.median(), x.nanmedian()), x, grad=False)
    compare(lambda x: (*x.median(1), *x.nanmedian(1)), x[[0, 2]], grad=False)
    compare(lambda x: (x.median(), x.nanmedian()), torch.zeros(0), grad=False)
    compare(lambda x: (*x.median(0), *x.kthvalue(1), *x.mode()), torch.tensor(3.0), grad=False)
    compare(lambda x: torch.quantile(x, torch.tensor([0.1, 0.5], device=x.device), dim=1), distinct(4, 9))


def test_mode() -> None:
    x = torch.tensor([[3, 1, 1, 3, 2, 0], [5, 5, 5, 1, 1, 1], [4, 4, 2, 9, 2, 4]])
    compare(lambda x: (*x.mode(), *x.mode(1, keepdim=True)), x)
    compare(lambda x: x.mode(1).values, x.float())
    compare(lambda x: x.mode(0).values, x > 2)
    compare(lambda x: x.mode(1).values, torch.tensor([[NAN, NAN, 1.0], [NAN, 2.0, 2.0]]), grad=False)


def test_searchsorted() -> None:
    boundaries = torch.tensor([1.0, 3.0, 3.0, 5.0, 9.0])
    values = torch.tensor([[0.0, 3.0, 10.0], [NAN, 9.0, -INF]])
    for options in ({}, {"right": True}, {"side": "right"}, {"side": "left", "out_int32": True}):
        compare(lambda b, v, options=options: torch.searchsorted(b, v, **options), boundaries, values, grad=False)
        if "side" not in options:
            compare(lambda b, v, options=options: torch.bucketize(v, b, **options), boundaries, values, grad=False)
    compare(lambda b, v: torch.searchsorted(b, v), make(3, 6).sort().values, make(3, 4), grad=False)
    compare(lambda b, v: torch.searchsorted(b, v), torch.tensor([1, 3, 5]), torch.tensor([1.5, 3.5]), grad=False)
    compare(
        lambda b: (torch.searchsorted(b, 3), torch.searchsorted(b, 3.5), torch.bucketize(4, b)), torch.tensor([1, 3, 5])
    )
    compare(
        lambda b, v, s: torch.searchsorted(b, v, sorter=s),
        torch.tensor([5, 1, 3]),
        torch.tensor([2, 4]),
        torch.tensor([1, 2, 0]),
    )
    compare(lambda b, v: torch.searchsorted(b, v), torch.zeros(0), torch.zeros(2), grad=False)
    compare_error(
        lambda b, v: torch.searchsorted(b, v),
        torch.zeros(2, 3),
        torch.zeros(3, 2),
        error=RuntimeError,
        match="must match",
    )
    compare_error(
        lambda b, v: torch.searchsorted(b, v, side="left", right=True),
        boundaries,
        values,
        error=RuntimeError,
        match="opposites",
    )


def test_isin() -> None:
    x = make(4, 5, dtype=torch.int64, low=0, high=30)
    compare(lambda x, t: (torch.isin(x, t), torch.isin(x, t, invert=True)), x, torch.tensor([1, 4, 7]))
    compare(lambda x, t: torch.isin(x, t), x, torch.arange(0, 300, 3))
    compare(lambda x: (torch.isin(x, 4), torch.isin(x, torch.tensor([], dtype=torch.int64, device=x.device))), x)
    compare(lambda x, t: torch.isin(x, t), SPECIAL, torch.cat([SPECIAL[:4], torch.arange(10.0, 100.0)]), grad=False)


def test_histc() -> None:
    x = make(200)
    compare(lambda x: (x.histc(), x.histc(7), x.histc(5, -1, 1.5)), x, grad=False)
    compare(lambda x: x.histc(3), torch.ones(4), grad=False)
    compare(lambda x: x.histc(3, 0, 4), torch.tensor([NAN, 1.0, 2.0, 4.0, 5.0]), grad=False)
    compare_error(lambda x: x.histc(3, 4, 1), x, error=RuntimeError, match="max must be larger than min")
    compare_error(lambda x: x.long().histc(3), x, error=RuntimeError, match="not implemented for 'Long'")


def test_errors() -> None:
    x = distinct(3, 4)
    compare_error(lambda x: x.sort(5), x, error=IndexError, match="Dimension out of range")
    compare_error(lambda x: x.to(torch.complex64).sort(), x, error=RuntimeError, match="does not support complex")
    compare_error(lambda x: x.kthvalue(5), x, error=RuntimeError, match="selected number k out of range")
    compare_error(lambda x: x[:, :0].median(1), x, error=IndexError, match="non-zero size")
    compare_error(lambda x: x.bool().median(), x, error=RuntimeError, match="not implemented for 'Bool'")
    compare_error(lambda x: x[:0].mode(0), x, error=IndexError, match="non-zero size")
