"""Execution modes, precision, counters, the program cache."""

from __future__ import annotations

import pytest
import torch

from compare import make


def test_modes_can_be_read_set_and_restored():
    mode = torch.tpu.EagerMode
    assert torch.tpu.eager_mode is mode.DEFER_NEVER
    with torch.tpu.set_eager_mode(mode.DEFER_NEVER_AND_LAUNCH_BLOCKING) as active:
        assert active is torch.tpu.eager_mode is mode.DEFER_NEVER_AND_LAUNCH_BLOCKING
        assert (torch.ones(3, device="tpu") + 1).sum().item() == 6
    assert torch.tpu.eager_mode is mode.DEFER_NEVER
    torch.tpu.set_eager_mode("DEFER_NEVER_AND_LAUNCH_BLOCKING")
    assert torch.tpu.eager_mode is mode.DEFER_NEVER_AND_LAUNCH_BLOCKING
    torch.tpu.eager_mode = mode.DEFER_NEVER
    assert torch.tpu.eager_mode is mode.DEFER_NEVER
    with pytest.raises(ValueError, match="DEFER_NEVER"):
        torch.tpu.set_eager_mode("FAST")
    with pytest.raises(TypeError):
        torch.tpu.set_eager_mode(1)
    with pytest.raises(NotImplementedError, match="deferred mode"):
        torch.tpu.set_eager_mode(mode.DEFER_AND_FUSE)


def test_the_environment_chooses_the_mode(script):
    script(
        "import torch; assert torch.tpu.eager_mode is torch.tpu.EagerMode.DEFER_NEVER_AND_LAUNCH_BLOCKING",
        TORCH_TPU_LAUNCH_BLOCKING="1",
    )


def test_precision():
    Precision = torch.tpu.Precision
    assert torch.get_float32_matmul_precision() == "highest"
    with torch.tpu.precision(Precision.MEDIUM) as active:
        assert active is Precision.MEDIUM is Precision.DEFAULT
        assert torch.get_float32_matmul_precision() == "medium"
        x = make(8, 8).to("tpu")
        torch.testing.assert_close((x @ x).cpu(), make(8, 8) @ make(8, 8), rtol=0.05, atol=0.1)
    with torch.tpu.precision("high"):
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == "highest"
    with pytest.raises(ValueError, match="exact"):
        with torch.tpu.precision("exact"):
            pass
    assert torch.tpu.allow_excess_precision is False
    torch.tpu.allow_excess_precision = False
    with pytest.raises(NotImplementedError):
        torch.tpu.allow_excess_precision = True


def test_executed_operators_are_counted():
    x = torch.ones(3, device="tpu")
    torch.tpu.reset_op_counts()
    assert torch.tpu.executed_ops() == {} and torch.tpu.fallback_ops() == {}
    x + x
    x + 1
    x.mul_(2)
    counts = torch.tpu.executed_ops()
    assert counts["aten::add.Tensor"] == 2 and counts["aten::mul_.Tensor"] == 1
    assert torch.tpu.fallback_ops() == {}


def test_a_changing_scalar_does_not_compile_again():
    x = make(7, 3).to("tpu")
    (x * 1.5 + 2).cpu()
    before = torch.tpu.cache_stats()
    for i in range(20):
        (x * (i + 0.5) + i).cpu()
    after = torch.tpu.cache_stats()
    assert after["misses"] == before["misses"]
    assert after["hits"] > before["hits"]
    assert set(after) >= {"hits", "misses", "compile_seconds", "entries", "bytes"}


def test_a_view_is_read_inside_the_same_program():
    x = make(6, 6).to("tpu")
    (x.t() + x).cpu()
    torch.tpu.reset_op_counts()
    (x.t() + x).cpu()
    assert torch.tpu.executed_ops().get("aten::add.Tensor") == 1
    assert not any("clone" in name or "contiguous" in name for name in torch.tpu.executed_ops())


def test_config_lists_the_variables():
    config = torch.tpu.config()
    assert all(name.startswith("TORCH_TPU_") for name in config)
    assert {"TORCH_TPU_DEVICE", "TORCH_TPU_FALLBACK", "TORCH_TPU_PJRT_PLUGIN"} <= set(config)


FALLBACK = """
    import torch, warnings
    x = torch.tensor([[2.0, 1.0], [1.0, 3.0]], device="tpu")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            for _ in range(2):
                values = torch.linalg.eigvals(x)
            assert values.device.type == "tpu"
            print("values", sorted(round(v, 3) for v in values.real.tolist()))
        except NotImplementedError as error:
            print("error", error)
    about = [str(w.message) for w in caught if "eig" in str(w.message)]
    print("warnings", len(about), about[:1])
    print(sorted(torch.tpu.fallback_ops().items()))
"""


def test_the_fallback_warns_once_per_operator(script):
    lines = script(FALLBACK).stdout.splitlines()
    assert lines[0] == "values [1.382, 3.618]"
    assert lines[1].startswith("warnings 1") and "CPU" in lines[1]
    assert "eig" in lines[2] and "2)" in lines[2]


def test_the_fallback_can_be_silent_or_an_error(script):
    assert script(FALLBACK, TORCH_TPU_FALLBACK="silent").stdout.splitlines()[1].startswith("warnings 0")
    lines = script(FALLBACK, TORCH_TPU_FALLBACK="error").stdout.splitlines()
    assert lines[0].startswith("error") and "eig" in lines[0] and "TORCH_TPU_FALLBACK" in lines[0]


def test_pytorchs_decompositions_run_on_the_device():
    from torch_tpu import decompositions

    before = torch.tpu.fallback_ops()
    x = make(5, low=0.1, high=0.9).to("tpu")
    result = torch.special.ndtri(x)  # no lowering of its own
    torch.testing.assert_close(result.cpu(), torch.special.ndtri(make(5, low=0.1, high=0.9)), rtol=1e-4, atol=1e-5)
    assert torch.tpu.fallback_ops() == before or "aten::special_ndtri" in torch.tpu.executed_ops()
    assert decompositions.register("aten::nonsense") is False
    assert decompositions.register("aten::view") is False
    assert all(reason for reason in decompositions.EXCLUDED.values())
    names = {name for name, *_ in (key.split(".") for key in torch._C._dispatch_get_all_op_names())}
    assert not {base for base in decompositions.EXCLUDED if f"aten::{base}" not in names}
