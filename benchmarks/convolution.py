"""Convolution and both of its gradients at ResNet-18's shapes (32x32 images, batch 16), beside torch on the CPU.

Milliseconds, median of seven runs, waiting included. `python benchmarks/convolution.py`
"""

from __future__ import annotations

import statistics
import time

import torch

BATCH, REPEATS = 16, 7
# input channels, output channels, image size, kernel, stride
SHAPES = [
    (3, 64, 32, 3, 1),
    (64, 64, 32, 3, 1),
    (64, 128, 32, 3, 2),
    (64, 128, 32, 1, 2),
    (128, 128, 16, 3, 1),
    (256, 256, 8, 3, 1),
    (512, 512, 4, 3, 1),
]


def milliseconds(device: str, shape: tuple[int, ...], mask: tuple[bool, bool, bool] | None) -> float:
    """One case: the forward pass without `mask`, else the gradients that it asks for (input, weight, bias)."""
    inputs, outputs, size, kernel, stride = shape
    x = torch.randn(BATCH, inputs, size, size).to(device)
    w = torch.randn(outputs, inputs, kernel, kernel).to(device)
    padding = [kernel // 2] * 2
    gradient = torch.randn(torch.conv2d(x, w, None, stride, padding).shape).to(device)
    backward = torch.ops.aten.convolution_backward
    times = []
    for _ in range(REPEATS + 2):
        start = time.perf_counter()
        if mask is None:
            torch.conv2d(x, w, None, stride, padding)
        else:
            backward(gradient, x, w, None, [stride] * 2, padding, [1, 1], False, [0, 0], 1, mask)
        if device != "cpu":
            torch.tpu.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[2:])


def main() -> None:
    head = ("forward", "input gradient", "weight gradient")
    print(f"{'in':>4} {'out':>4} {'size':>4} {'k':>2} {'s':>2}   " + " ".join(f"{name:>16}" for name in head))
    for shape in SHAPES:
        cells = []
        for mask in (None, (True, False, False), (False, True, False)):
            ours, cpu = milliseconds("tpu", shape, mask), milliseconds("cpu", shape, mask)
            cells.append(f"{ours:7.2f} {cpu:6.2f}".rjust(16))
        print("{:4} {:4} {:4} {:2} {:2}   ".format(*shape) + " ".join(cells))
    print("each cell: device, torch CPU (ms)")


if __name__ == "__main__":
    main()
