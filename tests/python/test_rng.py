"""Random numbers: seeds, states, generators, fork_rng, distributions."""

from __future__ import annotations

import math

import pytest
import torch

pytestmark = pytest.mark.usefixtures("no_fallback")

FILLS = {
    "rand": lambda g: torch.rand(40, device="tpu", generator=g),
    "randn": lambda g: torch.randn(40, device="tpu", generator=g),
    "randint": lambda g: torch.randint(0, 1000, (40,), device="tpu", generator=g),
    "randperm": lambda g: torch.randperm(40, device="tpu", generator=g),
    "uniform_": lambda g: torch.empty(40, device="tpu").uniform_(-1, 1, generator=g),
    "normal_": lambda g: torch.empty(40, device="tpu").normal_(1, 2, generator=g),
    "bernoulli_": lambda g: torch.empty(200, device="tpu").bernoulli_(0.5, generator=g),
    "bernoulli": lambda g: torch.bernoulli(torch.full((200,), 0.5, device="tpu"), generator=g),
    "exponential_": lambda g: torch.empty(40, device="tpu").exponential_(2.0, generator=g),
    "random_": lambda g: torch.empty(40, device="tpu", dtype=torch.int64).random_(generator=g),
    "multinomial": lambda g: torch.multinomial(torch.ones(20, device="tpu"), 10, generator=g),
}


@pytest.mark.parametrize("name", FILLS)
def test_the_seed_decides_the_numbers(name):
    fill = FILLS[name]
    torch.manual_seed(3)
    first, second = fill(None).cpu(), fill(None).cpu()
    torch.manual_seed(3)
    assert torch.equal(fill(None).cpu(), first)
    assert torch.equal(fill(None).cpu(), second)
    assert not torch.equal(first, second)
    generator = torch.Generator("tpu").manual_seed(3)
    assert torch.equal(fill(generator).cpu(), first), "a generator with this seed gives what the default one gives"
    torch.manual_seed(4)
    assert not torch.equal(fill(None).cpu(), first)


def test_all_ways_to_seed_agree():
    def numbers() -> torch.Tensor:
        return torch.rand(8, device="tpu").cpu()

    torch.manual_seed(11)
    expected = numbers()
    for seed in (torch.tpu.manual_seed, torch.tpu.manual_seed_all, torch.tpu.default_generators[0].manual_seed):
        seed(11)
        assert torch.equal(numbers(), expected)
        assert torch.tpu.initial_seed() == 11
    torch.manual_seed(-1)
    assert torch.tpu.initial_seed() == 2**64 - 1
    number = torch.tpu.seed()
    assert torch.tpu.initial_seed() == number
    assert torch.tpu.seed_all() == torch.tpu.initial_seed()
    with pytest.raises(RuntimeError):
        torch.tpu.manual_seed_all(2**64)


def test_state_can_be_saved_and_set():
    state = torch.tpu.get_rng_state()
    assert state.dtype is torch.uint8 and state.device.type == "cpu"
    first = torch.rand(8, device="tpu").cpu()
    torch.tpu.set_rng_state(state)
    assert torch.equal(torch.rand(8, device="tpu").cpu(), first)
    torch.tpu.set_rng_state(state.to("tpu"))
    assert torch.equal(torch.rand(8, device="tpu").cpu(), first)
    torch.tpu.set_rng_state_all([state])
    assert torch.equal(torch.rand(8, device="tpu").cpu(), first)
    with pytest.raises(ValueError, match="1 states"):
        torch.tpu.set_rng_state_all([state, state])
    with pytest.raises((RuntimeError, ValueError, TypeError)):
        torch.tpu.set_rng_state(torch.zeros(3, dtype=torch.uint8))
    generator = torch.Generator("tpu")
    generator.set_state(state)
    assert torch.equal(torch.rand(8, device="tpu", generator=generator).cpu(), first)


def test_generator_objects():
    generator = torch.Generator(device="tpu")
    assert generator.device == torch.device("tpu:0")
    assert generator.manual_seed(5) is generator and generator.initial_seed() == 5
    torch.rand(3, device="tpu", generator=generator)
    copy = torch.Generator("tpu")
    copy.set_state(generator.get_state())
    other = generator.clone_state() if hasattr(generator, "clone_state") else copy
    assert torch.equal(
        torch.rand(3, device="tpu", generator=copy).cpu(), torch.rand(3, device="tpu", generator=generator).cpu()
    )
    assert other.device == generator.device
    with pytest.raises(RuntimeError):
        torch.rand(3, device="tpu", generator=torch.Generator("cpu"))
    with pytest.raises(RuntimeError):
        torch.rand(3, device="cpu", generator=generator)


def test_fork_rng_restores():
    torch.rand(1, device="tpu")
    state = torch.tpu.get_rng_state()
    with torch.random.fork_rng(device_type="tpu"):
        torch.manual_seed(77)
        torch.rand(10, device="tpu")
    assert torch.equal(torch.tpu.get_rng_state(), state)


def test_seeding_does_no_device_work(script):
    script(
        """
        import torch
        torch.manual_seed(11)
        assert not torch.tpu.is_initialized()
        first = torch.rand(4, device="tpu").cpu()
        torch.manual_seed(11)
        assert torch.equal(torch.rand(4, device="tpu").cpu(), first)
        """
    )


def test_numbers_are_the_same_in_another_process_and_mode(script):
    source = """
        import torch
        torch.manual_seed(5)
        print(torch.randn(5, device="tpu").tolist(), torch.rand(3, device="tpu").tolist())
    """
    assert script(source).stdout == script(source, TORCH_TPU_LAUNCH_BLOCKING="1").stdout


N = 20000


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_moments(dtype):
    uniform = torch.rand(N, device="tpu", dtype=dtype).cpu().double()
    assert 0 <= uniform.min() and uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 5 * math.sqrt(1 / 12 / N) + 0.002
    assert abs(uniform.var() - 1 / 12) < 0.004
    normal = torch.randn(N, device="tpu", dtype=dtype).cpu().double()
    assert abs(normal.mean()) < 5 / math.sqrt(N) and abs(normal.var() - 1) < 0.06
    assert abs((normal**3).mean()) < 0.15 and abs((normal**4).mean() - 3) < 0.4


def test_uniform_is_uniform_and_independent():
    x = torch.rand(2, N, device="tpu").cpu()
    counts = torch.histc(x[0], 20, 0, 1)
    assert ((counts - N / 20) ** 2 / (N / 20)).sum() < 60, "chi square of 19 degrees of freedom"
    assert abs(torch.corrcoef(x)[0, 1]) < 0.04
    assert abs(torch.corrcoef(torch.stack([x[0, 1:], x[0, :-1]]))[0, 1]) < 0.04


def test_other_distributions():
    assert abs(torch.empty(N, device="tpu").exponential_(2.0).mean().item() - 0.5) < 0.03
    assert abs(torch.empty(N, device="tpu").bernoulli_(0.3).mean().item() - 0.3) < 0.02
    x = torch.randint(-3, 5, (N,), device="tpu").cpu()
    assert x.min() == -3 and x.max() == 4 and abs(x.double().mean() - 0.5) < 0.1
    assert torch.equal(torch.randperm(100, device="tpu").sort().values.cpu(), torch.arange(100))
    picked = torch.multinomial(torch.tensor([0.0, 1.0, 3.0], device="tpu"), N, replacement=True).cpu()
    assert (picked == 0).sum() == 0 and abs((picked == 2).double().mean() - 0.75) < 0.02
    once = torch.multinomial(torch.ones(50, device="tpu"), 50).cpu()
    assert torch.equal(once.sort().values, torch.arange(50))


def test_dropout():
    x = torch.ones(N, device="tpu", requires_grad=True)
    y = torch.nn.functional.dropout(x, 0.25)
    y.sum().backward()
    kept = y.detach().cpu()
    assert kept.unique().tolist() == pytest.approx([0.0, 1 / 0.75])
    assert abs((kept > 0).double().mean() - 0.75) < 0.02
    assert torch.equal(x.grad.cpu(), kept), "the gradient passes where the value passed"
    assert torch.equal(torch.nn.functional.dropout(x, 0.5, training=False), x)
    assert not torch.nn.functional.dropout(x, 1.0).any()


def test_empty_and_views_can_be_filled():
    assert torch.rand(0, 3, device="tpu").shape == (0, 3)
    x = torch.zeros(6, 4, device="tpu")
    x.t()[1:3].uniform_(1, 2)
    x = x.cpu()
    assert (x[:, 1:3] >= 1).all() and not x[:, 0].any() and not x[:, 3].any()
