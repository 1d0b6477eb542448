"""LSTM and GRU: the fused cells against ATen's own CPU path."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from compare import compare, make


def weights(gates: int, features: int, hidden: int, bias: bool) -> list[torch.Tensor]:
    result = [make(gates * hidden, features), make(gates * hidden, hidden, seed=1)]
    return result + [make(gates * hidden, seed=2), make(gates * hidden, seed=3)] if bias else result


@pytest.mark.parametrize("bias", [True, False])
def test_lstm_cell(bias: bool) -> None:
    def fn(x: torch.Tensor, h: torch.Tensor, c: torch.Tensor, *weights: torch.Tensor) -> Any:
        return torch.lstm_cell(x, (h, c), *weights)

    compare(fn, make(3, 5), make(3, 4), make(3, 4, seed=1), *weights(4, 5, 4, bias))
    assert torch.tpu.executed_ops()["aten::_thnn_fused_lstm_cell"] > 0


@pytest.mark.parametrize("bias", [True, False])
def test_gru_cell(bias: bool) -> None:
    compare(torch.gru_cell, make(3, 5), make(3, 4), *weights(3, 5, 4, bias))
    assert torch.tpu.executed_ops()["aten::_thnn_fused_gru_cell"] > 0


def test_only_one_output_has_a_gradient() -> None:
    inputs = (make(3, 5), make(3, 4), make(3, 4, seed=1), *weights(4, 5, 4, True))
    compare(lambda x, h, c, *w: torch.lstm_cell(x, (h, c), *w)[0], *inputs)
    compare(lambda x, h, c, *w: torch.lstm_cell(x, (h, c), *w)[1], *inputs)


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN], ids=lambda kind: kind.__name__)
def test_modules(kind: type[torch.nn.RNNBase]) -> None:
    torch.manual_seed(0)
    module = kind(5, 4, num_layers=2, bidirectional=True, batch_first=True)
    state = {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}

    def fn(x: torch.Tensor, state: dict[str, torch.Tensor]) -> Any:
        return torch.func.functional_call(module.to(x.device), state, (x,))

    compare(fn, make(2, 3, 5), state, rtol=1e-5, atol=1e-5)


def test_packed_sequences() -> None:
    torch.manual_seed(0)
    module = torch.nn.LSTM(5, 4)

    def fn(x: torch.Tensor) -> Any:
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, [4, 2, 1])
        output, state = module.to(x.device)(packed)
        return torch.nn.utils.rnn.pad_packed_sequence(output)[0], state

    compare(fn, make(4, 3, 5), rtol=1e-5, atol=1e-5)


def test_projected_lstm() -> None:
    torch.manual_seed(0)
    module = torch.nn.LSTM(5, 6, proj_size=3)
    compare(lambda x: module.to(x.device)(x), make(4, 2, 5), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_cells_of_other_dtypes(dtype: torch.dtype) -> None:
    inputs = [tensor.to(dtype) for tensor in (make(3, 5), make(3, 4), *weights(3, 5, 4, True))]
    compare(
        torch.gru_cell,
        *inputs,
        grad=dtype is torch.float64,
        **({} if dtype is torch.float64 else {"rtol": 0.05, "atol": 0.05}),
    )
