"""Training steps of a ResNet-18 and a GPT, on the device and on torch's CPU.

ResNet-18: 32x32 images, batch 16, SGD. GPT: 4 layers, d 256, 8 heads, T 128, batch 8, vocabulary 512, AdamW. `first` is
the first step in a fresh process with an empty program cache, compiles included; `steady` the median of later steps.
The CPU's steps are timed in the same process, after the device's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "models"))

import torch_tpu  # noqa: F401 - only needed without the autoload entry point
from networks import GPT, ResNet18

Step = Callable[[], torch.Tensor]
SLOWEST_RESNET = 3.0
SLOWEST_FIRST_GPT_SECONDS = 6.0


def resnet(device: str) -> Step:
    torch.manual_seed(0)
    model = ResNet18().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    images, labels = torch.randn(16, 3, 32, 32).to(device), torch.randint(0, 10, (16,)).to(device)
    return step(optimizer, lambda: F.cross_entropy(model(images), labels))


def gpt(device: str) -> Step:
    torch.manual_seed(0)
    model = GPT(vocabulary=512, dim=256, layers=4, heads=8, length=128).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    ids = torch.randint(0, 512, (8, 129)).to(device)
    return step(optimizer, lambda: F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()))


def step(optimizer: torch.optim.Optimizer, loss_of: Step) -> Step:
    def run() -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss

    return run


MODELS = {"resnet18": resnet, "gpt": gpt}


def seconds(run: Step, device: str) -> float:
    """Seconds of one step, until its last operator has finished."""
    start = time.perf_counter()
    run()
    if device != "cpu":
        torch.tpu.synchronize(device)
    return time.perf_counter() - start


def measure(name: str, device: str, repeats: int) -> dict[str, float]:
    """What the fresh process reports."""
    torch.tpu.init()
    build = MODELS[name]
    run = build(device)
    torch.tpu.synchronize(device)
    first = seconds(run, device)
    for _ in range(2):
        seconds(run, device)
    steady = statistics.median(seconds(run, device) for _ in range(repeats))
    stats, fallback = torch.tpu.cache_stats(), torch.tpu.fallback_ops()
    reference = build("cpu")
    seconds(reference, "cpu")
    cpu = statistics.median(seconds(reference, "cpu") for _ in range(repeats))
    return {
        "first_seconds": first,
        "steady_seconds": steady,
        "cpu_seconds": cpu,
        "compile_seconds": stats["compile_seconds"],
        "programs": stats["misses"],
        "fallbacks": sum(fallback.values()),
    }


def in_fresh_process(name: str, device: str, repeats: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, __file__, "--worker", name, "--device", device, "--repeats", str(repeats)]
        done = subprocess.run(
            command, env=os.environ | {"TORCH_TPU_CACHE_DIR": cache}, check=True, text=True, stdout=subprocess.PIPE
        )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="tpu")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", choices=MODELS)
    parser.add_argument("--json", type=Path, help="write the results there")
    parser.add_argument("--check", action="store_true", help="end with 1 if a bound of the project is missed")
    parser.add_argument("--worker", choices=MODELS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(measure(options.worker, options.device, options.repeats)))
        return 0

    results = {}
    print(f"{'':10} {'first s':>9} {'steady ms':>10} {'CPU ms':>9} {'ratio':>6} {'programs':>9} {'compile s':>10}")
    for name in [options.only] if options.only else MODELS:
        row = results[name] = in_fresh_process(name, options.device, options.repeats)
        steady, cpu = row["steady_seconds"] * 1e3, row["cpu_seconds"] * 1e3
        print(
            f"{name:10} {row['first_seconds']:9.2f} {steady:10.1f} {cpu:9.1f} "
            f"{steady / cpu:6.2f} {row['programs']:9} {row['compile_seconds']:10.2f}"
            + (f"  {row['fallbacks']} CPU fallbacks" if row["fallbacks"] else "")
        )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    failures = []
    if options.check:
        failures = [f"{name}: operators fell back to the CPU" for name, row in results.items() if row["fallbacks"]]
        if "resnet18" in results:
            share = results["resnet18"]["steady_seconds"] / results["resnet18"]["cpu_seconds"]
            if share > SLOWEST_RESNET:
                failures.append(f"a ResNet-18 step takes {share:.1f} times the CPU's, more than {SLOWEST_RESNET}")
        if "gpt" in results and results["gpt"]["first_seconds"] > SLOWEST_FIRST_GPT_SECONDS:
            first = results["gpt"]["first_seconds"]
            failures.append(f"the first GPT step takes {first:.1f} s, more than {SLOWEST_FIRST_GPT_SECONDS} s")
    print("".join(f"\nFAILED  {failure}" for failure in failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
