"""Running sums, products, extrema and log-sum-exp."""

from __future__ import annotations

import math

import pytest
import torch

from compare import compare, compare_error, make

INF, NAN = math.inf, math.nan
FORMS = {
    "cumsum": lambda x: (x.cumsum(0), x.cumsum(-1)),
    "cumprod": lambda x: (x.cumprod(0), x.cumprod(-1)),
    "cummax": lambda x: (*x.cummax(0), *x.cummax(-1)),
    "cummin": lambda x: (*x.cummin(0), *x.cummin(-1)),
    "logcumsumexp": lambda x: (x.logcumsumexp(0), x.logcumsumexp(-1)),
}
SPECIAL = torch.tensor([1.0, 3, 3, 2, -INF, INF, 1, NAN, 5, NAN, NAN, 7])
INFINITE = torch.tensor([-INF, -INF, 1.0, INF, 2, 1])


@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 17), (2, 130)], ids=str)
@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str, shape: tuple[int, ...]) -> None:
    compare(FORMS[name], make(*shape, low=0.5, high=1.4))


@pytest.mark.parametrize("name", FORMS)
def test_strided_zero_dim_and_empty(name: str) -> None:
    compare(FORMS[name], make(6, 8)[::2, 1::3].t(), grad=False)
    compare(FORMS[name], torch.tensor(3.0), grad=False)
    compare(FORMS[name], torch.zeros(0, 3), grad=False)


@pytest.mark.parametrize("name", FORMS)
def test_nan_and_infinity(name: str) -> None:
    compare(FORMS[name], SPECIAL, grad=False)
    compare(FORMS[name], INFINITE, grad=False)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", FORMS)
def test_other_floats(name: str, dtype: torch.dtype) -> None:
    compare(FORMS[name], make(4, 9, dtype=dtype, low=0.5, high=1.4), grad=False)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin"])
def test_integers_and_bool(name: str, dtype: torch.dtype) -> None:
    compare(FORMS[name], make(4, 9, dtype=dtype, low=-3, high=3), grad=False)


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_complex(name: str) -> None:
    compare(FORMS[name], make(4, 5, dtype=torch.complex64))


def test_complex_log() -> None:
    compare(lambda x: x.logcumsumexp(-1).exp(), make(2, 6, dtype=torch.complex64), grad=False)


def test_dtype_argument_and_in_place() -> None:
    x = make(3, 7, low=-9, high=9)
    compare(lambda x: (x.cumsum(1, dtype=torch.float64), x.cumprod(0, dtype=torch.float64)), x)
    compare(lambda x: x.cumsum(1, dtype=torch.int64), x, grad=False)
    compare(lambda x: x.int().cumsum_(1), x, grad=False)
    compare(lambda x: x.to(torch.uint8).cumsum_(1), x.abs() * 20, grad=False)
    compare(lambda x: x.clone().cumprod_(0), x)
    compare(lambda x: torch.cumsum(x, 0, out=x.new_empty(0)), x, grad=False)
    compare(lambda x: torch.cummax(x, 0, out=(x.new_empty(0), x.new_empty(0, dtype=torch.int64))), x, grad=False)


def test_long_axes() -> None:
    compare(lambda x: (x.cumsum(0), *x.cummax(0), x.logcumsumexp(0)), make(5000, low=0, high=1), grad=False)
    compare(lambda x: x.cumsum(1), make(3, 40_000, dtype=torch.int64, low=-100, high=100), grad=False)


def test_errors() -> None:
    x = make(3, 4)
    compare_error(lambda x: x.cumsum(2), x, error=IndexError, match="Dimension out of range")
    compare_error(
        lambda x: x.to(torch.complex64).cummax(0), x, error=RuntimeError, match="not implemented for 'ComplexFloat'"
    )
    compare_error(lambda x: x.long().logcumsumexp(0), x, error=RuntimeError, match="not implemented for 'Long'")
