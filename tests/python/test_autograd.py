"""Autograd on the device: everything that lives above the kernels."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from compare import compare, make

pytestmark = pytest.mark.usefixtures("no_fallback")


def test_double_backward():
    def second(x):
        x = x if x.requires_grad else x.requires_grad_()
        y = (x.sin() * x**3).sum()
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        (twice,) = torch.autograd.grad(first.square().sum(), x)
        return first.detach(), twice

    compare(second, make(3, 4), grad=False)


def test_gradient_penalty_of_a_network():
    def penalty(x, weight):
        y = F.gelu(x @ weight).tanh().sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        return (g.norm(dim=1) - 1).square().mean()

    compare(penalty, make(4, 5), make(5, 6))


def test_gradcheck_in_float64():
    x = make(2, 3, dtype=torch.float64).to("tpu").requires_grad_()
    w = make(3, 2, dtype=torch.float64).to("tpu").requires_grad_()
    assert torch.autograd.gradcheck(lambda x, w: torch.tanh(x @ w).exp().sum(0), (x, w))
    assert torch.autograd.gradgradcheck(lambda x: (x**2).sigmoid(), (x,))


def test_accumulation_and_zeroing():
    def accumulate(x):
        w = torch.full_like(x, 2.0).requires_grad_()
        for _ in range(3):
            (w * x).sum().backward()
        grads = [w.grad.clone()]
        w.grad.zero_()
        (w * w).sum().backward()
        return grads + [w.grad]

    compare(accumulate, make(4), grad=False)


def test_hooks():
    def hooked(x):
        seen = []
        x = x.detach().requires_grad_()
        y = x * 3
        y.register_hook(lambda g: g * 2)
        x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.sum().item()))
        y.sum().backward()
        return x.grad, seen

    compare(hooked, make(5), grad=False)


def test_module_hooks_and_backward_hooks():
    torch.manual_seed(0)
    cpu = torch.nn.Linear(3, 2)
    results = []
    for device in ("cpu", "tpu"):
        layer = torch.nn.Linear(3, 2)
        layer.load_state_dict(cpu.state_dict())
        layer.to(device)
        grads = []
        layer.register_full_backward_hook(lambda m, gi, go, grads=grads: grads.append(go[0].detach().cpu()))
        layer(make(4, 3).to(device).requires_grad_()).square().sum().backward()
        results.append((grads[0], layer.weight.grad.cpu()))
    torch.testing.assert_close(results[1], results[0])


def test_no_grad_and_inference_mode():
    x = torch.ones(3, device="tpu", requires_grad=True)
    with torch.no_grad():
        assert not (x * 2).requires_grad
    with torch.inference_mode():
        y = x * 2
        assert y.is_inference()
        assert y.sum().item() == 6
    with torch.enable_grad():
        assert (x * 2).requires_grad
    assert (x.detach() * 2).grad_fn is None
    with pytest.raises(RuntimeError, match="leaf"):
        x.add_(1)


def test_an_input_changed_in_place_is_noticed():
    x = torch.ones(3, device="tpu", requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_views_and_in_place_operators():
    def views(x):
        y = x.clone()
        y[1:3].mul_(2)
        y.t()[0].add_(x[:, 1])
        y.view(-1)[::2].neg_()
        return y * x

    compare(views, make(4, 3))


def test_custom_function():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * 3 * x**2

    compare(Cube.apply, make(4, 2))


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint_gives_the_same_gradient_and_dropout(reentrant):
    def block(x, w):
        return F.dropout(torch.relu(x @ w), 0.5)

    x, w = make(4, 6).to("tpu"), make(6, 6).to("tpu").requires_grad_()
    gradients = []
    for use in (False, True):
        torch.manual_seed(1)
        a = x.clone().requires_grad_()
        w.grad = None
        out = checkpoint(block, a, w, use_reentrant=reentrant) if use else block(a, w)
        out.sum().backward()
        gradients.append((out.detach().cpu(), a.grad.cpu(), w.grad.cpu()))
    for one, other in zip(*gradients, strict=True):
        assert torch.equal(one, other)


def test_saved_tensor_hooks():
    with torch.autograd.graph.save_on_cpu():
        x = torch.ones(3, device="tpu", requires_grad=True)
        y = (x * x).sum()
    y.backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_anomaly_mode_names_the_operator():
    with torch.autograd.set_detect_anomaly(True), pytest.warns(UserWarning, match="Error detected in SqrtBackward0"):
        x = torch.zeros(2, device="tpu", requires_grad=True)
        with pytest.raises(RuntimeError, match="nan"):
            (x.sqrt() * 0).sum().backward()


def test_backward_from_another_thread():
    import threading

    x = torch.ones(10, device="tpu", requires_grad=True)
    loss = (x * 2).sum()
    thread = threading.Thread(target=loss.backward)
    thread.start()
    thread.join()
    assert x.grad.tolist() == [2.0] * 10


def test_functional_transforms():
    def f(x):
        return (x.sin() * x).sum()

    compare(lambda x: torch.func.grad(f)(x), make(4), grad=False)
    compare(lambda x: torch.func.vmap(torch.func.grad(f))(x), make(3, 4), grad=False)
    compare(lambda x: torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),)), make(4), grad=False)
    compare(lambda x: torch.func.hessian(f)(x), make(3), grad=False)


def test_clipping():
    def clip(x):
        p = torch.nn.Parameter(x.detach().clone())
        (p * p).sum().backward()
        norm = torch.nn.utils.clip_grad_norm_([p], 1.0)
        first = p.grad.clone()
        torch.nn.utils.clip_grad_value_([p], 0.1)
        return norm, first, p.grad

    compare(clip, make(6), grad=False)
