"""Printing tensors, as on the CPU, and without computing on it."""

from __future__ import annotations

import pytest
import torch

from compare import ALL_DTYPES, make


def shown(x: torch.Tensor) -> str:
    return repr(x.to("tpu")).replace(", device='tpu:0'", "").replace("\n ", "\n").replace(" ", "").replace("\n", "")


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_repr(dtype):
    for x in (make(3, dtype=dtype, high=50), make(2, 2, dtype=dtype), make(dtype=dtype), make(0, dtype=dtype)):
        assert "device='tpu:0'" in repr(x.to("tpu"))
        assert shown(x) == repr(x).replace(" ", "").replace("\n", ""), dtype


def test_large_special_and_requiring_grad():
    for x in (
        torch.arange(3000.0),
        torch.tensor([1e-8, 1e8, float("nan"), -float("inf")]),
        torch.zeros(60, 60),
        make(2, 3).t(),
    ):
        assert shown(x) == repr(x).replace(" ", "").replace("\n", "")
    x = torch.ones(2, device="tpu", requires_grad=True)
    assert "requires_grad=True" in repr(x) and "grad_fn=<MulBackward0>" in repr(x * 2)
    assert f"{torch.tensor(2.5, device='tpu'):.1f}" == "2.5"
    assert str(torch.nn.Linear(2, 2).to("tpu")) == "Linear(in_features=2, out_features=2, bias=True)"


def test_printing_falls_back_nowhere(script):
    done = script(
        """
        import torch
        print(torch.arange(5.0, device="tpu"))
        print(torch.tensor([1e-9, 2.0, float("nan")], device="tpu"))
        print(torch.arange(2000, device="tpu"))
        """,
        TORCH_TPU_FALLBACK="error",
    )
    assert done.stderr == ""
    assert done.stdout.startswith("tensor([0., 1., 2., 3., 4.], device='tpu:0')")
