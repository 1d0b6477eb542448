"""Trains an MLP and a CNN on scikit-learn's handwritten digits, on the device, and checks the run (`make demo`).

The digits are real scans: 1,797 grey images of 8x8 pixels, which come with scikit-learn. The first 50 losses are
compared with the same run on the CPU. The program ends with 1 if a bound fails or an operator was computed on the CPU.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from tqdm import tqdm

import torch_tpu  # noqa: F401 - only needed without the autoload entry point

COMPARED_STEPS = 50
#: Relative difference allowed between a loss on the device and on the CPU, float32: at the first step, over all.
FIRST_BOUND, BOUND = 1e-5, 1e-3


@dataclass(frozen=True)
class Task:
    """What is trained, how, and the test accuracy it must reach."""

    name: str
    build: Callable[[], nn.Module]
    optimizer: Callable[..., torch.optim.Optimizer]
    epochs: int
    accuracy: float


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 2 * 2, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


TASKS = (
    Task("MLP", mlp, lambda p: torch.optim.AdamW(p, lr=2e-3), epochs=15, accuracy=0.95),
    Task("CNN", cnn, lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=5e-4), epochs=15, accuracy=0.97),
)


def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training images [N, 1, 8, 8] in [-1, 1] and labels [N], then the same for the test."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 8 - 1
    labels = torch.tensor(data.target, dtype=torch.int64)
    train, test = train_test_split(range(len(labels)), test_size=0.25, random_state=0, stratify=data.target)
    return images[train], labels[train], images[test], labels[test]


def batches(count: int, size: int, epochs: int) -> Iterator[Tensor]:
    """Indices of each step's batch: the same ones on every device. Batches are full, so each step has one shape."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        yield from torch.randperm(count, generator=generator)[: count // size * size].split(size)


def train(
    task: Task, model: nn.Module, images: Tensor, labels: Tensor, device: str, batch: int, steps: int | None
) -> list[float]:
    """Trains `model` in place; returns the loss of each step."""
    model.to(device)
    images, labels = images.to(device), labels.to(device)
    optimizer = task.optimizer(model.parameters())
    losses = []
    plan = list(batches(len(images), batch, task.epochs))[:steps]
    bar = tqdm(plan, desc=f"{task.name} on {device}", unit="step", file=sys.stdout, dynamic_ncols=True)
    for number, indices in enumerate(bar):
        chosen = indices.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images[chosen]), labels[chosen])
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        if number % 20 == 0:
            bar.set_postfix(loss=f"{loss.item():.4f}")  # reading the value waits for the device
    return [loss.item() for loss in losses]


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor, device: str) -> float:
    model.eval()
    return (model(images.to(device)).argmax(1) == labels.to(device)).float().mean().item()


def run(task: Task, device: str, batch: int) -> list[str]:
    """Trains and checks one network; returns what failed."""
    images, labels, test_images, test_labels = digits()
    torch.manual_seed(0)
    model = task.build()
    reference = copy.deepcopy(model)
    start = time.perf_counter()
    losses = train(task, model, images, labels, device, batch, None)
    seconds = time.perf_counter() - start
    reached = accuracy(model, test_images, test_labels, device)
    expected = train(task, reference, images, labels, "cpu", batch, COMPARED_STEPS)
    errors = [abs(a - e) / abs(e) for a, e in zip(losses, expected)]
    print(
        f"{task.name}: test accuracy {reached:.2%} after {len(losses)} steps in {seconds:.1f} s\n"
        f"{task.name}: first {len(expected)} losses against the CPU: relative difference {errors[0]:.1e} at the first "
        f"step, at most {max(errors):.1e}\n"
    )
    failures = []
    if reached < task.accuracy:
        failures.append(f"{task.name}: test accuracy {reached:.2%} is below {task.accuracy:.0%}")
    if errors[0] > FIRST_BOUND:
        failures.append(f"{task.name}: the first loss differs by {errors[0]:.1e}, more than {FIRST_BOUND:.0e}")
    if max(errors) > BOUND:
        failures.append(f"{task.name}: a loss differs by {max(errors):.1e}, more than {BOUND:.0e}")
    return failures


def print_operators() -> None:
    tiers = (
        ("device", torch.tpu.executed_ops()),
        ("decomposed on the device", torch.tpu.decomposed_ops()),
        ("CPU fallback", torch.tpu.fallback_ops()),
    )
    print(f"{'operator':48} {'calls':>8}  where")
    for where, counts in tiers:
        for name, count in sorted(counts.items(), key=lambda item: -item[1]):
            print(f"{name:48} {count:8}  {where}")
    print(", ".join(f"{len(counts)} operators: {where}" for where, counts in tiers))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="tpu")
    parser.add_argument("--batch", type=int, default=64)
    options = parser.parse_args()

    print(f"torch {torch.__version__} on {options.device}: {torch.tpu.get_device_properties(options.device)}\n")
    torch.tpu.reset_op_counts()
    failures = [failure for task in TASKS for failure in run(task, options.device, options.batch)]
    print_operators()
    stats = torch.tpu.cache_stats()
    print(f"programs: {stats['misses']} compiled in {stats['compile_seconds']:.1f} s, {stats['hits']} times reused")
    if torch.tpu.fallback_ops():
        failures.append(f"operators were computed on the CPU: {', '.join(torch.tpu.fallback_ops())}")
    print("\n" + ("\n".join(f"FAILED  {failure}" for failure in failures) or "all bounds hold, no fallback"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
