"""Reductions: sums, products, means, logical ones, extrema, moments, norms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from compare import COMPLEX, FLOATS, INTEGERS, compare, compare_error, make

INF, NAN = math.inf, math.nan
X = make(3, 4, 5)
SPECIAL = torch.tensor([[1.0, NAN, 3.0], [INF, -INF, 2.0], [NAN, NAN, -1.0], [0.0, -0.0, 0.0]])
EMPTY = torch.zeros(0, 3)
NO_COLUMNS = torch.zeros(2, 0)
SCALAR = torch.tensor(3.0)
STRIDED = make(6, 8)[::2, 1::3].t()
TIES = torch.tensor([[2, 1, 2, 1], [0, 0, 0, 0], [-1, 3, 3, -1]])

#: name → function of one tensor, each over several shapes of arguments
FORMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "sum": lambda x: (x.sum(), x.sum(-1), x.sum((0, -1), keepdim=True)),
    "mean": lambda x: (x.mean(), x.mean(0), x.mean((0, -1), keepdim=True)),
    "nansum": lambda x: (x.nansum(), x.nansum(-1), x.nansum((0, -1), keepdim=True)),
    "prod": lambda x: (x.prod(), x.prod(0), x.prod(-1, keepdim=True)),
    "any": lambda x: (x.any(), x.any(0), x.any(-1, keepdim=True), torch.any(x, (0, 1)), torch.any(x, ())),
    "all": lambda x: (x.all(), x.all(0), x.all(-1, keepdim=True), torch.all(x, (0, 1)), torch.all(x, ())),
    "count_nonzero": lambda x: (torch.count_nonzero(x), torch.count_nonzero(x, 0), torch.count_nonzero(x, (0, 1))),
    "amax": lambda x: (x.amax(), x.amax(0), x.amax((0, -1), keepdim=True)),
    "amin": lambda x: (x.amin(), x.amin(-1), x.amin((0, -1), keepdim=True)),
    "aminmax": lambda x: (*x.aminmax(), *x.aminmax(dim=0), *x.aminmax(dim=-1, keepdim=True)),
    "max": lambda x: (x.max(), *x.max(0), *x.max(-1, keepdim=True)),
    "min": lambda x: (x.min(), *x.min(0), *x.min(-1, keepdim=True)),
    "argmax": lambda x: (x.argmax(), x.argmax(0), x.argmax(-1, keepdim=True), x.argmax(keepdim=True)),
    "argmin": lambda x: (x.argmin(), x.argmin(0), x.argmin(-1, keepdim=True)),
    "var": lambda x: (x.var(), x.var(0, unbiased=False), x.var((0, -1), correction=2, keepdim=True)),
    "std": lambda x: (x.std(), x.std(-1, correction=0.5)),
    "var_mean": lambda x: (*torch.var_mean(x), *torch.var_mean(x, 0, keepdim=True)),
    "std_mean": lambda x: (*torch.std_mean(x), *torch.std_mean(x, -1, correction=0)),
    "logsumexp": lambda x: (x.logsumexp(0), x.logsumexp((0, -1), keepdim=True)),
    "norms": lambda x: tuple(torch.linalg.vector_norm(x, p) for p in (0, 1, 2, 3, 0.5, INF, -INF)),
    "norms over axes": lambda x: tuple(
        torch.linalg.vector_norm(x, p, dim=(-1,), keepdim=True) for p in (1, 2, 2.5, INF)
    ),
}
REAL_ONLY = {"nansum", "amax", "amin", "aminmax", "max", "min", "argmax", "argmin"}
INEXACT_ONLY = {"mean", "var", "std", "var_mean", "std_mean", "norms", "norms over axes"}
NO_IDENTITY = {"amax", "amin", "aminmax", "max", "min", "argmax", "argmin"}
#: Without a gradient, or with one only to follow elsewhere.
NO_GRADIENT = {"any", "all", "count_nonzero", "argmax", "argmin"}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    compare(FORMS[name], X, grad=name not in NO_GRADIENT)


@pytest.mark.parametrize("name", FORMS)
def test_strided_input(name: str) -> None:
    compare(FORMS[name], STRIDED, grad=False)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", sorted(FORMS))
def test_other_floats(name: str, dtype: torch.dtype) -> None:
    # PyTorch's rounds each of its steps to float16.
    loose = {"rtol": 0.003, "atol": 0.001} if name == "logsumexp" and dtype is torch.float16 else {}
    compare(FORMS[name], make(3, 4, 5, dtype=dtype), grad=False, **loose)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("name", sorted(set(FORMS) - INEXACT_ONLY))
def test_integers_and_bool(name: str, dtype: torch.dtype) -> None:
    if dtype is torch.bool and name in ("argmax", "argmin"):
        pytest.skip("PyTorch refuses bool")
    compare(FORMS[name], make(3, 4, 5, dtype=dtype, low=-5, high=5), grad=False)


@pytest.mark.parametrize("name", sorted(set(FORMS) - REAL_ONLY))
def test_complex(name: str) -> None:
    compare(FORMS[name], make(3, 4, 5, dtype=torch.complex64), grad=name not in NO_GRADIENT)


@pytest.mark.parametrize("name", sorted(set(FORMS) - {"norms"}))
def test_nan_and_infinity(name: str) -> None:
    compare(FORMS[name], SPECIAL, grad=False)


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "max", "argmin", "any", "var", "logsumexp", "norms over axes"])
def test_zero_dims(name: str) -> None:
    functions = {
        "sum": lambda x: (x.sum(), x.sum(0), x.sum(-1, keepdim=True)),
        "prod": lambda x: (x.prod(), x.prod(0)),
        "amax": lambda x: (x.amax(), x.amax(-1)),
        "max": lambda x: (x.max(), *x.max(0), *x.max(-1, keepdim=True)),
        "argmin": lambda x: (x.argmin(), x.argmin(0)),
        "any": lambda x: (x.any(), x.any(0)),
        "var": lambda x: (x.var(correction=0), x.var(0)),
        "logsumexp": lambda x: x.logsumexp(0),
        "norms over axes": FORMS["norms over axes"],
    }
    compare(functions[name], SCALAR, grad=name not in (*NO_GRADIENT, "var"))


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "nansum", "any", "all", "count_nonzero", "var", "std_mean"])
def test_empty(name: str) -> None:
    compare(FORMS[name], EMPTY, grad=False)
    compare(FORMS[name], NO_COLUMNS, grad=False)


@pytest.mark.parametrize("name", ["amax", "amin", "aminmax", "max", "min", "argmax", "argmin"])
def test_empty_without_an_identity(name: str) -> None:
    function = getattr(torch, name)
    compare_error(function, EMPTY)
    compare_error(lambda x: function(x, dim=0), EMPTY)
    compare(lambda x: function(x, dim=1), EMPTY, grad=False)


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_the_first_of_equals(name: str) -> None:
    compare(lambda x: (getattr(torch, name)(x, dim=0), getattr(torch, name)(x, dim=1)), TIES)


DTYPE_FORMS = {
    "sum to float64": lambda x: x.sum(dtype=torch.float64),
    "sum to int64": lambda x: (x * 3).sum(0, dtype=torch.int64),
    "sum to float16": lambda x: x.sum(-1, dtype=torch.float16),
    "sum to bool": lambda x: x.sum(-1, dtype=torch.bool),
    "mean of integers": lambda x: x.to(torch.int32).mean(0, dtype=torch.float32),
    "prod to float64": lambda x: x.prod(1, dtype=torch.float64),
    "nansum to float64": lambda x: x.nansum(1, dtype=torch.float64),
    "norm to float64": lambda x: torch.linalg.vector_norm(x, dtype=torch.float64),
    "old norm": lambda x: (
        torch.ops.aten.norm.Scalar(x, 3),
        torch.ops.aten.norm.ScalarOpt_dim(x, None, [0], True),
        torch.ops.aten.norm.ScalarOpt_dim_dtype(x, 1, [0, 1], False, dtype=torch.float64),
        torch.ops.aten.norm.ScalarOpt_dtype(x, INF, dtype=torch.float32),
    ),
    "matrix norms": lambda x: (torch.linalg.matrix_norm(x), torch.linalg.norm(x, 1, dim=(0, 1)), x.norm()),
    "dist": lambda x: (torch.dist(x, x.flip(0)), torch.dist(x, x[0], 1), torch.dist(x, x * 2, INF)),
    "renorm": lambda x: (x.renorm(2, 0, 0.5), x.renorm(1, -1, 2.0), x.renorm(INF, 1, 1.0)),
    "foreach_norm": lambda x: torch._foreach_norm([x, x[0], x[0, 0, 0]], 1) + torch._foreach_norm([x, x[1]]),
    "foreach_norm inf": lambda x: torch._foreach_norm([x, x[0]], INF, dtype=torch.float64),
    "foreach_max": lambda x: torch._foreach_max([x, x[0]]),
    "trace": lambda x: (x[0].trace(), x[0].t().trace(), x[0, :0].trace(), x[0].to(torch.int32).trace()),
    "out": lambda x: (torch.sum(x, 0, out=x.new_empty(0)), torch.amax(x, 0, out=x.new_empty(4, 5))),
    "out of pairs": lambda x: torch.max(x, 1, out=(x.new_empty(0), x.new_empty(0, dtype=torch.int64))),
}


@pytest.mark.parametrize("name", DTYPE_FORMS)
def test_dtypes_and_other_entries(name: str) -> None:
    compare(DTYPE_FORMS[name], X, grad=name not in ("out", "out of pairs", "sum to int64", "sum to bool"))


def test_powers_of_a_list() -> None:
    compare(lambda x: torch._foreach_powsum([x, x[0]], 2) + torch._foreach_powsum([x, x[0]], 0), X, grad=False)


@pytest.mark.parametrize("size", [1000, 1_000_003])
def test_long_sums_are_accurate(size: int) -> None:
    compare(lambda x: (x.sum(), x.mean(), x.std()), make(size), grad=False)
    # PyTorch's own norm of 10⁶ float32 is off by 10⁻⁵.
    torch.testing.assert_close(make(size).to("tpu").norm().cpu(), make(size).double().norm().float())


def test_channels_last_input() -> None:
    compare(
        lambda x: (x.sum((2, 3)), x.amax(1), x.var((0, 2, 3))), make(2, 3, 4, 5).to(memory_format=torch.channels_last)
    )


ERRORS: dict[str, tuple[Callable[..., Any], type[Exception], str]] = {
    "axis out of range": (lambda x: x.sum(5), IndexError, "Dimension out of range"),
    "axis twice": (lambda x: x.sum((0, 0)), RuntimeError, "appears multiple times"),
    "mean of integers": (lambda x: x.int().mean(), RuntimeError, "could not infer output dtype"),
    "var of integers": (lambda x: x.int().var(), RuntimeError, "only support floating point and complex"),
    "norm of integers": (
        lambda x: torch.linalg.vector_norm(x.int()),
        RuntimeError,
        "Expected a floating point or complex",
    ),
    "inf norm of nothing": (lambda x: torch.linalg.vector_norm(x[:0], INF), RuntimeError, "does not have an identity"),
    "norm that narrows": (
        lambda x: torch.linalg.vector_norm(x, dtype=torch.float16),
        RuntimeError,
        "convertible without narrowing",
    ),
    "trace of a vector": (lambda x: x[0, 0].trace(), RuntimeError, "expected a matrix"),
    "max of complex": (lambda x: x.to(torch.complex64).max(0), RuntimeError, "does not support complex"),
    "argmax of bool": (lambda x: x.bool().argmax(), RuntimeError, "does not support bool"),
    "renorm of a vector": (lambda x: x[0, 0].renorm(2, 0, 1.0), RuntimeError, "at least 2 dimensions"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    function, error, match = ERRORS[name]
    compare_error(function, X, error=error, match=match)
    with pytest.raises(error, match=match):
        function(X)


def test_every_dtype_sums() -> None:
    for dtype in (*INTEGERS, *FLOATS, *COMPLEX, torch.uint16, torch.uint32):
        compare(lambda x: x.sum(0), make(4, 3, dtype=dtype, low=0), grad=False)
