"""Convolution, pooling, interpolation, padding: values and gradients against the CPU."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from compare import compare, compare_error, make

CONVOLUTIONS = {
    "1d": (F.conv1d, (2, 4, 9), (6, 4, 3), dict(padding=1)),
    "2d": (F.conv2d, (2, 3, 8, 8), (5, 3, 3, 3), dict(padding=1)),
    "2d stride": (F.conv2d, (2, 3, 9, 9), (5, 3, 3, 3), dict(stride=2, padding=1)),
    "2d dilation": (F.conv2d, (2, 3, 9, 9), (5, 3, 3, 3), dict(dilation=2)),
    "2d groups": (F.conv2d, (2, 4, 8, 8), (6, 2, 3, 3), dict(groups=2, padding=1)),
    "2d depthwise": (F.conv2d, (2, 4, 8, 8), (4, 1, 3, 3), dict(groups=4, padding=1)),
    "2d 1x1 stride": (F.conv2d, (2, 4, 8, 8), (6, 4, 1, 1), dict(stride=2)),
    "2d uneven": (F.conv2d, (1, 2, 7, 10), (3, 2, 2, 4), dict(stride=(2, 3), padding=(1, 2))),
    "3d": (F.conv3d, (1, 2, 5, 6, 5), (3, 2, 3, 2, 3), dict(padding=1)),
    "1d transposed": (F.conv_transpose1d, (2, 4, 7), (4, 3, 3), dict(stride=2, output_padding=1)),
    "2d transposed": (F.conv_transpose2d, (2, 4, 5, 5), (4, 3, 3, 3), dict(stride=2, padding=1, output_padding=1)),
    "2d transposed groups": (F.conv_transpose2d, (2, 4, 5, 5), (4, 3, 3, 3), dict(stride=2, groups=2, dilation=2)),
}


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name, bias):
    function, inputs, kernel, options = CONVOLUTIONS[name]
    channels = kernel[1] * options.get("groups", 1) if "transposed" in name else kernel[0]
    operands = [make(*inputs), make(*kernel)] + ([make(channels)] if bias else [])
    compare(lambda x, w, b=None: function(x, w, b, **options), *operands, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_convolution_in_other_dtypes(dtype):
    tolerances = {} if dtype is torch.float64 else dict(rtol=2e-2, atol=2e-2)
    x, w = make(2, 3, 8, 8, dtype=dtype), make(4, 3, 3, 3, dtype=dtype)
    compare(lambda x, w: F.conv2d(x, w, padding=1), x, w, **tolerances)


def test_channels_last_convolution():
    x = make(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    compare(lambda x, w: F.conv2d(x, w, padding=1), x, make(4, 3, 3, 3), rtol=1e-4, atol=1e-5)


def test_convolution_refuses_what_the_cpu_refuses():
    compare_error(lambda x, w: F.conv2d(x, w), make(2, 3, 8, 8), make(4, 2, 3, 3))
    compare_error(lambda x, w: F.conv2d(x, w), make(2, 3, 2, 2), make(4, 3, 5, 5))


POOLS = {
    "max 1d": (lambda x: F.max_pool1d(x, 3, 2, 1), (2, 3, 9)),
    "max 2d": (lambda x: F.max_pool2d(x, 2), (2, 3, 8, 8)),
    "max 2d overlapping": (lambda x: F.max_pool2d(x, 3, 2, 1), (2, 3, 9, 8)),
    "max 2d dilated": (lambda x: F.max_pool2d(x, 2, 1, 0, 2), (2, 3, 7, 7)),
    "max 2d ceil": (lambda x: F.max_pool2d(x, 2, 2, ceil_mode=True), (2, 3, 7, 7)),
    "max 2d indices": (lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), (2, 3, 8, 8)),
    "max 3d": (lambda x: F.max_pool3d(x, 2), (1, 2, 4, 6, 4)),
    "avg 1d": (lambda x: F.avg_pool1d(x, 3, 2, 1), (2, 3, 9)),
    "avg 2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), (2, 3, 8, 8)),
    "avg 2d inner": (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False, ceil_mode=True), (2, 3, 8, 8)),
    "avg 2d divisor": (lambda x: F.avg_pool2d(x, 2, divisor_override=3), (2, 3, 8, 8)),
    "avg 3d": (lambda x: F.avg_pool3d(x, 2), (1, 2, 4, 6, 4)),
    "adaptive avg 1d": (lambda x: F.adaptive_avg_pool1d(x, 4), (2, 3, 9)),
    "adaptive avg 2d": (lambda x: F.adaptive_avg_pool2d(x, (3, 2)), (2, 3, 8, 7)),
    "adaptive avg global": (lambda x: F.adaptive_avg_pool2d(x, 1), (2, 3, 8, 7)),
    "adaptive avg 3d": (lambda x: F.adaptive_avg_pool3d(x, (2, 3, 1)), (1, 2, 4, 5, 6)),
    "adaptive max 2d": (lambda x: F.adaptive_max_pool2d(x, (3, 2)), (2, 3, 8, 7)),
}


@pytest.mark.parametrize("name", POOLS)
def test_pooling(name):
    function, dims = POOLS[name]
    compare(function, make(*dims))


RESIZED = {
    "nearest 1d": ((2, 3, 5), dict(mode="nearest", scale_factor=1.7)),
    "nearest 2d": ((2, 3, 5, 6), dict(mode="nearest", scale_factor=2)),
    "nearest 3d": ((1, 2, 3, 4, 5), dict(mode="nearest", size=(5, 3, 7))),
    "nearest exact": ((2, 3, 5, 6), dict(mode="nearest-exact", scale_factor=1.7)),
    "linear": ((2, 3, 7), dict(mode="linear", scale_factor=1.7)),
    "bilinear": ((2, 3, 5, 6), dict(mode="bilinear", scale_factor=2)),
    "bilinear corners": ((2, 3, 5, 6), dict(mode="bilinear", size=(9, 3), align_corners=True)),
    "trilinear": ((1, 2, 3, 4, 5), dict(mode="trilinear", scale_factor=2)),
    "bicubic": ((2, 3, 5, 6), dict(mode="bicubic", scale_factor=1.7)),
    "bicubic corners": ((2, 3, 5, 6), dict(mode="bicubic", size=(7, 9), align_corners=True)),
}


@pytest.mark.parametrize("name", RESIZED)
def test_interpolation(name):
    dims, options = RESIZED[name]
    compare(lambda x: F.interpolate(x, **options), make(*dims))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "constant", "circular"])
def test_padding(mode):
    compare(lambda x: F.pad(x, (2, 1), mode=mode), make(2, 3, 5))
    compare(lambda x: F.pad(x, (2, 1, 1, 2), mode=mode), make(2, 3, 5, 6))
    compare(lambda x: F.pad(x, (1, 1, 1, 2, 2, 1), mode=mode), make(1, 2, 4, 5, 6))
