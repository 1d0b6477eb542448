"""PyTorch's own samples (`op_db`) for the families without a file of their own: values against the CPU, no fallback.

A quick slice: a few samples per operator and dtype; the whole database is the conformance suite's, which comes later.
"""

from __future__ import annotations

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_map

from compare import assert_equal_trees

SAMPLES = 3

NAMES = """
add sub rsub mul div floor_divide remainder fmod pow maximum minimum fmax fmin atan2 hypot copysign logaddexp
logaddexp2 xlogy heaviside lerp addcmul addcdiv clamp clamp_min clamp_max where masked_fill gcd lcm exp exp2
expm1 log log1p log2 log10 sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sinc erf
erfc lgamma digamma polygamma sigmoid logit reciprocal abs neg sign sgn signbit floor ceil trunc frac round
nan_to_num frexp deg2rad rad2deg eq ne lt le gt ge isnan isinf isposinf isneginf logical_and logical_or
logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift
polar angle complex conj_physical cat stack flip roll repeat tile diag_embed constant_pad_nd index_select
gather scatter scatter_add scatter_reduce index_add index_copy index_fill index_put take put masked_select
masked_scatter nonzero arange linspace logspace eye tril triu nn.functional.embedding softmax log_softmax
nn.functional.layer_norm nn.functional.group_norm nn.functional.batch_norm native_layer_norm native_batch_norm
nn.functional.instance_norm nn.functional.rms_norm nn.functional.relu nn.functional.relu6 nn.functional.gelu
nn.functional.silu nn.functional.mish nn.functional.elu nn.functional.celu nn.functional.selu
nn.functional.leaky_relu nn.functional.softplus nn.functional.hardswish nn.functional.hardsigmoid
nn.functional.hardtanh nn.functional.hardshrink nn.functional.softshrink nn.functional.logsigmoid
nn.functional.glu nn.functional.prelu nn.functional.threshold nn.functional.mse_loss nn.functional.l1_loss
nn.functional.smooth_l1_loss nn.functional.huber_loss nn.functional.binary_cross_entropy
nn.functional.binary_cross_entropy_with_logits nn.functional.nll_loss nn.functional.cross_entropy
nn.functional.kl_div nn.functional.soft_margin_loss
""".split()

OPERATORS = [
    pytest.param(op, dtype, id=f"{op.formatted_name}-{str(dtype).removeprefix('torch.')}")
    for op in op_db
    if op.name in NAMES
    for dtype in (torch.float32, torch.int64)
    if dtype in op.dtypes
]


def moved(tree, device):
    def move(leaf):
        if isinstance(leaf, torch.Tensor):
            return leaf.detach().to(device)
        return torch.device(device) if isinstance(leaf, torch.device) else leaf

    return tree_map(move, tree)


@pytest.mark.parametrize(("op", "dtype"), OPERATORS)
def test_samples(op, dtype):
    samples = list(op.sample_inputs("cpu", dtype, requires_grad=False))
    before = torch.tpu.fallback_ops()
    for sample in samples[:: max(1, len(samples) // SAMPLES)]:
        arguments = (sample.input, sample.args, sample.kwargs)
        results = []
        for device in ("cpu", "tpu"):
            value, args, kwargs = moved(arguments, device)
            results.append(op(value, *args, **kwargs))
        assert_equal_trees(results[1], results[0], f"{op.name} of {sample}")
    assert torch.tpu.fallback_ops() == before


def test_every_name_is_in_the_database():
    known = {op.name for op in op_db}
    assert [name for name in NAMES if name not in known] == []
