"""Scaled dot-product attention, masked softmax, and the fused inference paths of the transformer modules."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from compare import compare, compare_error, make

INF = math.inf
QUERY, KEY, VALUE = make(2, 4, 5, 8), make(2, 4, 7, 8, seed=1), make(2, 4, 7, 6, seed=2)
MASK = make(5, 7, dtype=torch.bool)


FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"is_causal": True},
    "scaled": {"scale": 0.3},
    "float mask": {"attn_mask": make(5, 7, seed=3)},
    "bool mask": {"attn_mask": MASK},
    "mask of a batch": {"attn_mask": make(2, 1, 5, 7, seed=4)},
}


@pytest.mark.parametrize("name", FORMS)
def test_attention(name: str) -> None:
    options = dict(FORMS[name])
    mask = options.pop("attn_mask", None)
    masks = [] if mask is None else [mask]

    def fn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *mask: torch.Tensor) -> torch.Tensor:
        return scaled_dot_product_attention(q, k, v, attn_mask=mask[0] if mask else None, **options)

    before = torch.tpu.executed_ops().get("aten::_torch_tpu_attention", 0)
    compare(fn, QUERY, KEY, VALUE, *masks, rtol=1e-5, atol=1e-5)
    assert torch.tpu.executed_ops()["aten::_torch_tpu_attention"] == before + 1


def test_long_sequences_keep_no_weights() -> None:
    """Above 2²⁴ of them the backward computes the weights anew."""
    query, key, value = make(1, 2, 2100, 4), make(1, 1, 4100, 4, seed=1), make(1, 1, 4100, 3, seed=2)

    def fn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    compare(fn, query, key, value, rtol=1e-4, atol=1e-5)


def test_grouped_heads_with_a_mask() -> None:
    compare(
        lambda q, k, v, m: scaled_dot_product_attention(q, k, v, attn_mask=m, enable_gqa=True),
        make(2, 6, 3, 8),
        make(2, 2, 5, 8),
        make(2, 2, 5, 8),
        make(6, 3, 1),
    )


def test_the_composition_of_operators_stays_available() -> None:
    def fn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(SDPBackend.MATH):
            return scaled_dot_product_attention(q, k, v)

    before = torch.tpu.executed_ops().get("aten::_torch_tpu_attention", 0)
    compare(fn, QUERY, KEY, VALUE, rtol=1e-5, atol=1e-5)
    assert torch.tpu.executed_ops().get("aten::_torch_tpu_attention", 0) == before


def test_function_transforms() -> None:
    def attend(q: torch.Tensor) -> torch.Tensor:
        # PyTorch's own kernel for the CPU knows no forward mode.
        with contextlib.nullcontext() if q.device.type == "tpu" else sdpa_kernel(SDPBackend.MATH):
            return scaled_dot_product_attention(q, q, q)

    query = make(1, 2, 3, 4)
    compare(lambda q: torch.func.jvp(attend, (q,), (q,))[1], query, grad=False, rtol=1e-5, atol=1e-5)
    compare(lambda q: torch.func.grad(lambda x: attend(x).sum())(q), query, grad=False, rtol=1e-5, atol=1e-5)
    compare(lambda q: torch.func.vmap(attend)(q), make(2, 1, 2, 3, 4), grad=False, rtol=1e-5, atol=1e-5)


def test_dropout_runs_and_can_be_repeated() -> None:
    q, k, v = (x.to("tpu") for x in (QUERY, KEY, VALUE))
    results = []
    for _ in range(2):
        torch.manual_seed(3)
        results.append(scaled_dot_product_attention(q, k, v, dropout_p=0.5).cpu())
    assert torch.equal(*results)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_attention_of_other_dtypes(dtype: torch.dtype) -> None:
    loose = {} if dtype is torch.float64 else {"rtol": 0.03, "atol": 0.03}
    compare(
        scaled_dot_product_attention, *(x.to(dtype) for x in (QUERY, KEY, VALUE)), grad=dtype is torch.float64, **loose
    )


def test_grouped_queries_and_three_axes() -> None:
    compare(
        lambda q, k, v: scaled_dot_product_attention(q, k, v, enable_gqa=True),
        make(1, 4, 3, 8),
        make(1, 2, 3, 8),
        make(1, 2, 3, 8),
    )
    compare(scaled_dot_product_attention, make(2, 3, 8), make(2, 5, 8), make(2, 5, 8))


def test_rows_without_anything_left() -> None:
    mask = torch.tensor([[True, False, True], [False, False, False]])
    compare(
        lambda q, k, v, m: scaled_dot_product_attention(q, k, v, attn_mask=m),
        make(1, 2, 4),
        make(1, 3, 4),
        make(1, 3, 4),
        mask,
    )


def test_safe_softmax() -> None:
    x = torch.tensor([[1.0, -INF, 2.0], [-INF, -INF, -INF], [math.nan, 1.0, 2.0]])
    compare(lambda x: torch._safe_softmax(x, -1), x, grad=False)
    compare(lambda x: torch._safe_softmax(x, 0), make(3, 4))
    compare(lambda x: torch._safe_softmax(x, -1, torch.float32), make(3, 4).half(), grad=False)


def test_masked_softmax() -> None:
    x = make(2, 4, 3, 3)
    compare(lambda x, m: torch._masked_softmax(x, m, -1, 0), x, torch.ones(3, 3).triu(1).bool(), grad=False)
    compare(
        lambda x, m: torch._masked_softmax(x, m, -1, 1), x, torch.tensor([[True, False, False], [True] * 3]), grad=False
    )
    compare(lambda x, m: torch._masked_softmax(x, m, -1, 2), x, make(2, 4, 3, 3, dtype=torch.bool))
    compare_error(
        lambda x, m: torch._masked_softmax(x, m), x, torch.ones(3, 3).bool(), error=RuntimeError, match="Mask Type"
    )


@pytest.mark.parametrize("masked", [None, "source", "padding", "both"])
@pytest.mark.parametrize("need_weights", [True, False])
def test_multi_head_attention_in_inference(masked: str | None, need_weights: bool) -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    source = torch.ones(5, 5).triu(1).bool() if masked in ("source", "both") else None
    padding = torch.tensor([[False] * 5, [False, False, False, True, True]]) if masked in ("padding", "both") else None

    def fn(x: torch.Tensor, source: torch.Tensor | None, padding: torch.Tensor | None) -> Any:
        with torch.no_grad():
            return module.to(x.device)(x, x, x, attn_mask=source, key_padding_mask=padding, need_weights=need_weights)

    compare(fn, make(2, 5, 8), source, padding, grad=False, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder_layer(norm_first: bool, activation: str) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(
        8, 2, 16, dropout=0.0, activation=activation, batch_first=True, norm_first=norm_first
    )

    def inference(x: torch.Tensor) -> Any:
        with torch.no_grad():
            return layer.eval().to(x.device)(x)

    def training(x: torch.Tensor) -> Any:
        return layer.train().to(x.device)(x)

    compare(inference, make(2, 5, 8), grad=False, rtol=1e-5, atol=1e-5)
    compare(training, make(2, 5, 8), rtol=1e-4, atol=1e-5)
