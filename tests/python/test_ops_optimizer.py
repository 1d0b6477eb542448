"""The fused optimizers and the gradient scaler's kernels, and whole optimizers in their foreach and fused forms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from compare import compare, make

SHAPES = [(3, 4), (5,), (), (2, 0), (2, 3, 2)]


def lists(count: int, dtype: torch.dtype = torch.float32, positive: tuple[int, ...] = ()) -> list[list[torch.Tensor]]:
    """`count` lists of tensors of the same shapes; those of the positions in `positive` hold no negative numbers."""
    return [
        [make(*shape, dtype=dtype, seed=31 * index, low=0.1 if index in positive else -2.0) for shape in SHAPES]
        for index in range(count)
    ]


def steps(value: float = 3.0) -> list[torch.Tensor]:
    return [torch.tensor(value + index) for index in range(len(SHAPES))]


SGD: dict[str, dict[str, Any]] = {
    "plain": {},
    "decay": {"weight_decay": 0.1, "maximize": True},
    "momentum": {"momentum": 0.9, "dampening": 0.1},
    "first step": {"momentum": 0.9, "is_first_step": True, "weight_decay": 0.1},
    "nesterov": {"momentum": 0.8, "nesterov": True},
}


@pytest.mark.parametrize("name", SGD)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_sgd(name: str, dtype: torch.dtype) -> None:
    defaults = {
        "weight_decay": 0.0,
        "momentum": 0.0,
        "lr": 0.05,
        "dampening": 0.0,
        "nesterov": False,
        "maximize": False,
        "is_first_step": False,
    }

    def fn(params: list, grads: list, buffers: list) -> None:
        torch._fused_sgd_(params, grads, buffers, **{**defaults, **SGD[name]})

    params, grads, buffers = lists(3, dtype)
    compare(fn, params, grads, buffers if "momentum" in SGD[name] else [], grad=False)


ADAM: dict[str, dict[str, Any]] = {
    "plain": {},
    "decay": {"weight_decay": 0.1, "maximize": True},
    "amsgrad": {"amsgrad": True, "weight_decay": 0.01},
}


@pytest.mark.parametrize("name", ADAM)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("operator", [torch._fused_adam_, torch._fused_adamw_])
def test_adam(operator: Callable[..., None], dtype: torch.dtype, name: str) -> None:
    options = {
        "lr": 0.01,
        "beta1": 0.9,
        "beta2": 0.99,
        "weight_decay": 0.0,
        "eps": 1e-8,
        "amsgrad": False,
        "maximize": False,
        **ADAM[name],
    }
    params, grads, means, squares, maxima = lists(5, dtype, positive=(3, 4))

    def fn(*args: list) -> None:
        operator(*args, **options)

    compare(fn, params, grads, means, squares, maxima if options["amsgrad"] else [], steps(), grad=False)


@pytest.mark.parametrize("tensor_rate", [False, True])
def test_adagrad(tensor_rate: bool) -> None:
    params, grads, sums = lists(3, positive=(2,))

    def fn(params: list, grads: list, sums: list, steps: list) -> None:
        rate = torch.tensor(0.1) if tensor_rate else 0.1
        torch._fused_adagrad_(
            params, grads, sums, steps, lr=rate, lr_decay=0.01, weight_decay=0.1, eps=1e-10, maximize=False
        )

    compare(fn, params, grads, sums, steps(), grad=False)


@pytest.mark.parametrize("found", [0.0, 1.0])
def test_scaled_gradients(found: float) -> None:
    params, grads, means, squares = lists(4, positive=(3,))

    def fn(
        params: list, grads: list, means: list, squares: list, steps: list, scale: torch.Tensor, found: torch.Tensor
    ) -> None:
        torch._fused_adam_(
            params,
            grads,
            means,
            squares,
            [],
            steps,
            lr=0.01,
            beta1=0.9,
            beta2=0.99,
            weight_decay=0.0,
            eps=1e-8,
            amsgrad=False,
            maximize=True,
            grad_scale=scale,
            found_inf=found,
        )

    compare(fn, params, grads, means, squares, steps(), torch.tensor(128.0), torch.tensor(found), grad=False)


def test_a_learning_rate_schedule_does_not_recompile() -> None:
    parameter = torch.nn.Parameter(make(4, 4).to("tpu"))
    optimizer = torch.optim.AdamW([parameter], lr=0.1, fused=True)
    parameter.grad = make(4, 4, seed=1).to("tpu")
    for _ in range(2):
        optimizer.step()
    before = torch.tpu.cache_stats()["misses"]
    for rate in (0.01, 0.02, 0.03):
        optimizer.param_groups[0]["lr"] = rate
        optimizer.param_groups[0]["weight_decay"] = rate
        optimizer.step()
    assert torch.tpu.cache_stats()["misses"] == before


OPTIMIZERS: dict[str, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
    "SGD": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "SGD fused": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "fused": True}),
    "Adam": (torch.optim.Adam, {"lr": 0.1}),
    "Adam foreach": (torch.optim.Adam, {"lr": 0.1, "amsgrad": True, "foreach": True}),
    "Adam fused": (torch.optim.Adam, {"lr": 0.1, "fused": True, "weight_decay": 0.01}),
    "AdamW capturable": (torch.optim.AdamW, {"lr": 0.1, "foreach": True, "capturable": False}),
    "AdamW fused": (torch.optim.AdamW, {"lr": 0.1, "fused": True, "amsgrad": True}),
    "Adagrad": (torch.optim.Adagrad, {"lr": 0.1}),
    "RMSprop": (torch.optim.RMSprop, {"lr": 0.1, "centered": True, "momentum": 0.5, "foreach": True}),
    "Adadelta": (torch.optim.Adadelta, {"lr": 0.1, "foreach": True}),
    "Adamax": (torch.optim.Adamax, {"lr": 0.1, "foreach": True}),
    "NAdam": (torch.optim.NAdam, {"lr": 0.1, "foreach": True}),
    "RAdam": (torch.optim.RAdam, {"lr": 0.1, "foreach": True}),
    "ASGD": (torch.optim.ASGD, {"lr": 0.1, "foreach": True}),
    "Rprop": (torch.optim.Rprop, {"lr": 0.1, "foreach": True}),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_three_steps_of_an_optimizer(name: str) -> None:
    kind, options = OPTIMIZERS[name]

    def fn(weight: torch.Tensor, bias: torch.Tensor, data: torch.Tensor) -> Any:
        weight, bias = torch.nn.Parameter(weight), torch.nn.Parameter(bias)
        optimizer = kind([weight, bias], **options)
        for _ in range(3):
            optimizer.zero_grad()
            (torch.nn.functional.linear(data, weight, bias) ** 2).mean().backward()
            optimizer.step()
        return weight.detach(), bias.detach()

    compare(fn, make(3, 4), make(3), make(5, 4), grad=False, rtol=1e-5, atol=1e-5)


def test_clipping() -> None:
    def fn(*tensors: torch.Tensor) -> Any:
        parameters = [torch.nn.Parameter(tensor) for tensor in tensors]
        for parameter in parameters:
            parameter.grad = parameter.detach() * 3
        total = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        return total, [parameter.grad for parameter in parameters]

    compare(fn, make(3, 4), make(5), make(2, 2), grad=False)


@pytest.mark.parametrize("bad", [None, math.inf, math.nan])
def test_check_and_unscale(bad: float | None) -> None:
    grads = [make(3, 4), make(5), make()]
    if bad is not None:
        grads[1][2] = bad

    def fn(grads: list, found: torch.Tensor, inverse: torch.Tensor) -> None:
        torch._amp_foreach_non_finite_check_and_unscale_(grads, found, inverse)

    compare(fn, grads, torch.zeros(1), torch.tensor([0.25]), grad=False)
    compare(fn, [grad.half() for grad in grads], torch.zeros(1), torch.tensor([1.0]), grad=False)


@pytest.mark.parametrize("found", [0.0, 1.0])
@pytest.mark.parametrize("scale, tracker", [(8.0, 0), (8.0, 1), (3e38, 1)])
def test_update_scale(scale: float, tracker: int, found: float) -> None:
    def fn(scale: torch.Tensor, tracker: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
        return torch._amp_update_scale_(scale, tracker, found, 2.0, 0.5, 2)

    compare(fn, torch.tensor([scale]), torch.tensor([tracker], dtype=torch.int32), torch.tensor([found]), grad=False)
