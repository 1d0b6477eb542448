"""Host time per call of small operators, on the device and beside it the same call on torch's CPU in the same run.

For each case: the median of several repeats, each a loop of calls, with the time of an empty loop subtracted. `enqueue`
is the time until the last call returns, `with sync` until the device has finished too; both per call. `ratio` is `with
sync` against torch's CPU. `compiled` counts programs that were compiled inside the timed loops, and should be 0.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

import torch
import torch.nn.functional as F

import torch_tpu  # noqa: F401 - only needed without the autoload entry point

Call = Callable[[], object]

#: Seconds that one repeat should take.
REPEAT_SECONDS = 0.03
SLOWEST_ADD = 6.0
SLOWEST_TRANSPOSED_ADD = 1.6


@dataclass
class Row:
    name: str
    enqueue_us: float
    with_sync_us: float
    cpu_us: float
    ratio: float
    compiled: int


def cases(device: str) -> dict[str, Call]:
    """The calls, by name, on tensors of `device`."""
    generator = torch.Generator().manual_seed(0)

    def tensor(*shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=generator).to(device)

    x, y, target = tensor(8, 8), tensor(8, 8), tensor(8, 8)
    row, three = tensor(8), tensor(3, 8)
    weight, bias = tensor(8, 8), tensor(8)
    numbers = count()

    def chain() -> torch.Tensor:
        return (((x + y) * x - y).relu() @ weight + bias).sigmoid().sum(1)

    parameters = [torch.nn.Parameter(tensor(16, 16)) for _ in range(20)]
    for parameter in parameters:
        parameter.grad = tensor(16, 16)
    adam = torch.optim.Adam(parameters, lr=1e-3)

    def assign() -> None:
        target[2:5] = three

    return {
        "empty": lambda: torch.empty(8, 8, device=device),
        "view": lambda: x.view(64),
        "add": lambda: x + y,
        "add_": lambda: target.add_(y, alpha=1e-9),
        "mul by a Python scalar": lambda: x * 1.5,
        "add of a changing scalar": lambda: x + (next(numbers) * 0.5),
        "matmul 8x8": lambda: x @ y,
        "t()+add": lambda: x.t() + y,
        "x[2:5] = y": assign,
        "linear": lambda: F.linear(x, weight, bias),
        "softmax": lambda: x.softmax(-1),
        "layer norm": lambda: F.layer_norm(x, (8,), row, bias),
        "8-op chain": chain,
        "chain and .cpu()": lambda: chain().cpu(),
        "sum().item()": lambda: x.sum().item(),
        "Adam step of 20 parameters": adam.step,
    }


def loop(call: Call, calls: int, sync: Callable[[], None]) -> tuple[float, float]:
    """Seconds until the last call returned, and until the device had finished."""
    span = range(calls)
    start = time.perf_counter()
    for _ in span:
        call()
    enqueued = time.perf_counter() - start
    sync()
    return enqueued, time.perf_counter() - start


def empty_loop(calls: int) -> float:
    """Seconds that the loop takes without its work: the best of three."""
    nothing: Call = lambda: None  # noqa: E731
    return min(loop(nothing, calls, lambda: None)[0] for _ in range(3))


def calls_for(call: Call, sync: Callable[[], None]) -> int:
    for _ in range(20):
        call()
    sync()
    seconds = loop(call, 20, sync)[1] / 20
    return max(20, min(5000, int(REPEAT_SECONDS / seconds)))


def compiled() -> int:
    return int(torch.tpu.cache_stats()["misses"])


def measure(device: str, repeats: int, only: str | None) -> list[Row]:
    def sync() -> None:
        torch.tpu.synchronize(device)

    def done() -> None:
        pass

    on_device, on_cpu = cases(device), cases("cpu")
    rows = []
    for name, call in on_device.items():
        if only and only not in name:
            continue
        reference = on_cpu[name]
        calls, cpu_calls = calls_for(call, sync), calls_for(reference, done)
        overhead, cpu_overhead = empty_loop(calls) / calls, empty_loop(cpu_calls) / cpu_calls
        before = compiled()
        enqueue, total, cpu = [], [], []
        for _ in range(repeats):  # one after the other, so that both see the same load of the machine
            enqueued, finished = loop(call, calls, sync)
            enqueue.append(enqueued / calls - overhead)
            total.append(finished / calls - overhead)
            cpu.append(loop(reference, cpu_calls, done)[1] / cpu_calls - cpu_overhead)
        middle = [statistics.median(values) * 1e6 for values in (enqueue, total, cpu)]
        rows.append(Row(name, *middle, ratio=middle[1] / middle[2], compiled=compiled() - before))
    return rows


def paired_share(device: str, first: str, second: str, rounds: int = 41) -> float:
    """How many times a call of `first` one of `second` takes, waiting included.

    The median over rounds of first, second, second, first: two rows of the table are seconds apart, and a busy machine
    changes more than that between them.
    """
    on_device = cases(device)
    a, b = on_device[first], on_device[second]

    def sync() -> None:
        torch.tpu.synchronize(device)

    calls = calls_for(a, sync)
    calls_for(b, sync)
    overhead = empty_loop(calls)
    shares = []
    for _ in range(rounds):
        a1, b1, b2, a2 = (loop(call, calls, sync)[1] - overhead for call in (a, b, b, a))
        shares.append((b1 + b2) / (a1 + a2))
    return statistics.median(shares)


def check(rows: list[Row], share: float) -> list[str]:
    """What misses the bounds of this project. `share`: `t()+add` against `add`."""
    by_name = {row.name: row for row in rows}
    failures = [f"{row.name}: {row.compiled} programs compiled in the timed loops" for row in rows if row.compiled]
    add = by_name["add"]
    if add.ratio > SLOWEST_ADD:
        failures.append(f"add takes {add.ratio:.1f} times torch's CPU, more than {SLOWEST_ADD}")
    if share > SLOWEST_TRANSPOSED_ADD:
        failures.append(f"t()+add takes {share:.2f} times add, more than {SLOWEST_TRANSPOSED_ADD}")
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="tpu")
    parser.add_argument("--repeats", type=int, default=9, help="at least 7")
    parser.add_argument("--only", help="run the cases whose name contains this")
    parser.add_argument("--json", type=Path, help="write the rows there")
    parser.add_argument("--check", action="store_true", help="end with 1 if a bound of the project is missed")
    options = parser.parse_args()
    if options.repeats < 7:
        parser.error("--repeats must be at least 7")

    print(f"torch {torch.__version__}, {torch.tpu.get_device_name(options.device)}, Python {platform.python_version()}")
    rows = measure(options.device, options.repeats, options.only)
    print(f"\n{'µs per call':28} {'enqueue':>9} {'with sync':>10} {'torch CPU':>10} {'ratio':>7} {'compiled':>9}")
    for row in rows:
        print(
            f"{row.name:28} {row.enqueue_us:9.1f} {row.with_sync_us:10.1f} {row.cpu_us:10.1f} {row.ratio:7.1f} "
            f"{row.compiled:9}"
        )
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    failures = []
    if not options.only:
        share = paired_share(options.device, "add", "t()+add")
        print(f"\nt()+add against add, interleaved: {share:.2f}")
        failures = check(rows, share) if options.check else []
    print("".join(f"\nFAILED  {failure}" for failure in failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
