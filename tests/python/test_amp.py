"""Autocast and gradient scaling."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from compare import compare, make

pytestmark = pytest.mark.usefixtures("no_fallback")

LOWER = {
    "matmul": lambda x: x @ x,
    "linear": lambda x: F.linear(x, x),
    "bmm": lambda x: torch.bmm(x[None], x[None]),
    "addmm": lambda x: torch.addmm(x, x, x),
    "conv2d": lambda x: F.conv2d(x[None, None], x[None, None, :3, :3]),
    "sdpa": lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]),
}
FLOAT32 = {
    "softmax": lambda x: F.softmax(x, -1),
    "exp": lambda x: x.exp(),
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "sum": lambda x: x.sum(),
    "mse_loss": lambda x: F.mse_loss(x, x),
    "cross_entropy": lambda x: F.cross_entropy(x, torch.zeros(4, dtype=torch.int64, device=x.device)),
    "pow": lambda x: x.abs() ** 2.5,
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_what_runs_in_which_dtype(dtype):
    full, half = make(4, 4).to("tpu"), make(4, 4).to("tpu", dtype)
    with torch.autocast("tpu", dtype=dtype):
        assert torch.is_autocast_enabled("tpu") and torch.get_autocast_dtype("tpu") is dtype
        for name, function in LOWER.items():
            assert function(full).dtype is dtype, name
        for name, function in FLOAT32.items():
            assert function(half).dtype is torch.float32, name
        assert (full + half).dtype is torch.float32
        assert torch.cat([full, half]).dtype is torch.float32, "the widest of its inputs"
        assert (full.relu()).dtype is torch.float32
        with torch.autocast("tpu", enabled=False):
            assert (full @ full).dtype is torch.float32
    assert (full @ full).dtype is torch.float32


def test_defaults_and_the_submodule():
    x = make(4, 4).to("tpu")
    with torch.autocast("tpu"):
        assert (x @ x).dtype is torch.bfloat16
    with torch.tpu.amp.autocast():
        assert (x @ x).dtype is torch.bfloat16
    with torch.tpu.amp.autocast(dtype=torch.float16):
        assert (x @ x).dtype is torch.float16
    with torch.tpu.amp.autocast(enabled=False):
        assert (x @ x).dtype is torch.float32
    assert isinstance(torch.tpu.amp.GradScaler(), torch.amp.GradScaler)
    with pytest.warns(UserWarning, match="not supported"), torch.autocast("tpu", dtype=torch.int32):
        assert (x @ x).dtype is torch.float32


def test_double_stays_double():
    x = make(4, 4, dtype=torch.float64).to("tpu")
    with torch.autocast("tpu"):
        assert (x @ x).dtype is torch.float64


def test_values_and_gradients_are_those_of_the_cpus_autocast():
    def step(x, w):
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            return F.cross_entropy(F.relu(x @ w) @ w, torch.arange(4, device=x.device) % 3)

    compare(step, make(4, 6), make(6, 6), rtol=2e-2, atol=2e-2)


def test_custom_functions():
    class Double(torch.autograd.Function):
        @staticmethod
        @torch.tpu.amp.custom_fwd(cast_inputs=torch.float32)
        def forward(ctx, x):
            assert x.dtype is torch.float32 and not torch.is_autocast_enabled("tpu")
            return x * 2

        @staticmethod
        @torch.tpu.amp.custom_bwd
        def backward(ctx, grad):
            return grad * 2

    x = make(3).to("tpu", torch.bfloat16).requires_grad_()
    with torch.autocast("tpu"):
        Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize("foreach", [False, True])
def test_grad_scaler(foreach):
    torch.manual_seed(0)
    layer = torch.nn.Linear(4, 2).to("tpu")
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, foreach=foreach)
    scaler = torch.amp.GradScaler("tpu", init_scale=1024.0, growth_interval=2)
    x = make(3, 4).to("tpu")

    before = layer.weight.detach().clone()
    loss = layer(x).square().mean()
    (plain,) = torch.autograd.grad(loss, [layer.weight])
    scaler.scale(layer(x).square().mean()).backward()
    torch.testing.assert_close(layer.weight.grad, plain * 1024)
    scaler.unscale_(optimizer)
    torch.testing.assert_close(layer.weight.grad, plain)
    torch.nn.utils.clip_grad_norm_(layer.parameters(), 1e6)
    scaler.step(optimizer)
    scaler.update()
    torch.testing.assert_close(layer.weight.detach(), before - 0.1 * plain)

    # an overflow: no step, half the scale
    optimizer.zero_grad()
    before = layer.weight.detach().clone()
    scaler.scale((layer(x) * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(layer.weight, before)
    assert scaler.get_scale() == 512

    # growth after two good steps
    for _ in range(2):
        optimizer.zero_grad()
        scaler.scale(layer(x).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == 1024
    state = scaler.state_dict()
    other = torch.amp.GradScaler("tpu")
    other.load_state_dict(state)
    assert other.get_scale() == 1024


def test_fused_adam_takes_the_scale():
    layer = torch.nn.Linear(4, 2).to("tpu")
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1, fused=True)
    scaler = torch.amp.GradScaler("tpu", init_scale=64.0)
    before = layer.weight.detach().clone()
    scaler.scale(layer(make(3, 4).to("tpu")).square().mean()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert not torch.equal(layer.weight, before)


def test_half_precision_training_on_float16():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).to("tpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler("tpu")
    x = make(16, 8).to("tpu")
    y = x.sum(1, keepdim=True)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        with torch.autocast("tpu", dtype=torch.float16):
            loss = F.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
