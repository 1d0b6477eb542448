"""Whole networks: twenty training steps on the device give the CPU's losses, and nothing falls back.

float32 runs as it is. For bfloat16 the whole model and its inputs are bfloat16 (`.to(torch.bfloat16)`, no autocast),
and both sides round every operator's result to 8 bits of mantissa, in different orders inside reductions: hence its
bounds.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from compare import make
from networks import GPT, LlamaBlock, LSTMClassifier, ResNet18

STEPS = 20

#: Relative bounds on the loss per dtype: at the first step, and over all twenty. Errors grow with the steps, because
#: each step starts from the parameters of the one before.
BOUNDS = {torch.float32: (1e-5, 1e-3), torch.bfloat16: (1e-2, 5e-2)}

Loss = Callable[[nn.Module, str, torch.dtype], Tensor]


def images(model: nn.Module, device: str, dtype: torch.dtype) -> Tensor:
    x = make(8, 3, 16, 16).to(device, dtype)
    return F.cross_entropy(model(x).float(), (torch.arange(8) % 10).to(device))


def text(model: nn.Module, device: str, dtype: torch.dtype) -> Tensor:
    ids = make(4, 17, dtype=torch.int64, low=0, high=50).to(device)
    return F.cross_entropy(model(ids[:, :-1]).float().flatten(0, 1), ids[:, 1:].flatten())


def features(model: nn.Module, device: str, dtype: torch.dtype) -> Tensor:
    x = make(2, 12, 32).to(device, dtype)
    return F.mse_loss(model(x).float(), x.float().roll(1, 1).tanh())


def sequences(model: nn.Module, device: str, dtype: torch.dtype) -> Tensor:
    x = make(6, 8, 10).to(device, dtype)
    return F.cross_entropy(model(x).float(), (torch.arange(6) % 3).to(device))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Loss, Callable[..., torch.optim.Optimizer]]] = {
    "resnet18": (
        lambda: ResNet18(width=8),
        images,
        # Slow enough that eight images are not learnt by heart: a loss near zero has no relative error worth the name.
        lambda p: torch.optim.SGD(p, lr=0.001, momentum=0.9, weight_decay=1e-4),
    ),
    "gpt": (
        lambda: GPT(vocabulary=50, dim=32, layers=4, heads=4, length=16),
        text,
        lambda p: torch.optim.AdamW(p, lr=1e-3),
    ),
    "llama_block": (
        lambda: LlamaBlock(dim=32, heads=4, kv_heads=2, hidden=64),
        features,
        lambda p: torch.optim.AdamW(p, lr=1e-3, foreach=True),
    ),
    "lstm": (
        lambda: LSTMClassifier(dim=10, hidden=16, classes=3),
        sequences,
        lambda p: torch.optim.Adam(p, lr=1e-3, fused=True),
    ),
}


def losses(model: nn.Module, loss_of: Loss, optimizer_of: Callable, device: str, dtype: torch.dtype) -> list[float]:
    model = copy.deepcopy(model).to(device, dtype)
    optimizer = optimizer_of(model.parameters())
    values = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, device, dtype)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        values.append(loss.item())
    return values


@pytest.mark.timeout(600)
@pytest.mark.parametrize("dtype", list(BOUNDS), ids=str)
@pytest.mark.parametrize("name", NETWORKS)
def test_twenty_steps_match_the_cpu(name, dtype):
    build, loss_of, optimizer_of = NETWORKS[name]
    torch.manual_seed(0)
    model = build()
    expected = losses(model, loss_of, optimizer_of, "cpu", dtype)
    torch.tpu.reset_op_counts()
    actual = losses(model, loss_of, optimizer_of, "tpu", dtype)
    assert torch.tpu.fallback_ops() == {}
    assert sum(torch.tpu.executed_ops().values()) > 10 * STEPS

    assert expected[-1] < expected[0], "the reference learns"
    first, later = BOUNDS[dtype]
    errors = [abs(a - e) / abs(e) for a, e in zip(actual, expected, strict=True)]
    assert errors[0] <= first, f"first step: {actual[0]} on the device, {expected[0]} on the CPU"
    assert max(errors) <= later, f"step {errors.index(max(errors))}: relative errors {errors}"


def test_evaluation_and_running_statistics():
    torch.manual_seed(0)
    host = ResNet18(width=8)
    device = copy.deepcopy(host).to("tpu")
    x = make(4, 3, 16, 16)
    for _ in range(2):
        host(x), device(x.to("tpu"))
    torch.testing.assert_close(device.stem[1].running_var.cpu(), host.stem[1].running_var, rtol=1e-4, atol=1e-6)
    assert device.stem[1].num_batches_tracked.item() == 2
    host.eval(), device.eval()
    with torch.no_grad():
        torch.testing.assert_close(device(x.to("tpu")).cpu(), host(x), rtol=1e-3, atol=1e-4)


def test_greedy_generation_matches():
    torch.manual_seed(0)
    host = GPT(vocabulary=50, dim=32, layers=2, heads=4, length=16).eval()
    device = copy.deepcopy(host).to("tpu")
    ids = [torch.tensor([[1, 2, 3]]), torch.tensor([[1, 2, 3]], device="tpu")]
    with torch.no_grad():
        for position, model in enumerate((host, device)):
            for _ in range(6):
                following = model(ids[position])[:, -1].argmax(-1, keepdim=True)
                ids[position] = torch.cat([ids[position], following], dim=1)
    assert ids[0].tolist() == ids[1].tolist()
