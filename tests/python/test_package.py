"""The package: importing it, the entry point, the stub of the native module, the public names."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest
import torch

import torch_tpu
from torch_tpu import _C

STUB = Path(torch_tpu.__file__).with_name("_C.pyi")

PUBLIC = """
Event Stream current_device current_stream default_stream default_generators device device_count device_of eager_mode
set_eager_mode get_amp_supported_dtype get_device_name get_device_properties get_rng_state set_rng_state
get_rng_state_all set_rng_state_all initial_seed manual_seed manual_seed_all seed seed_all is_available is_initialized
init set_device set_stream stream synchronize Precision precision allow_excess_precision EagerMode memory_allocated
max_memory_allocated memory_reserved max_memory_reserved memory_stats memory_summary empty_cache mem_get_info
reset_peak_memory_stats reset_accumulated_memory_stats is_bf16_supported get_device_capability executed_ops
fallback_ops reset_op_counts cache_stats amp random memory
""".split()


def test_the_stub_names_what_the_native_module_has():
    declared = {node.name: node for node in ast.parse(STUB.read_text()).body if isinstance(node, ast.FunctionDef)}
    present = {name for name in dir(_C) if not name.startswith("__")}
    assert present == set(declared)
    for name, node in declared.items():
        parameters = list(inspect.signature(getattr(_C, name)).parameters)
        assert parameters == [argument.arg for argument in node.args.args], name


@pytest.mark.parametrize("first", ["import torch", "import torch_tpu", "import torch_tpu._loader", "import torch.nn"])
def test_importing_prints_nothing_and_touches_no_device(script, first):
    done = script(
        f"""
        {first}
        import torch
        assert torch.device("tpu:1").index == 1
        assert not torch.tpu.is_initialized()
        import torch_tpu
        from torch_tpu import _C
        assert not _C.is_initialized()
        with open("/proc/self/maps") as maps:
            mapped = maps.read()
        assert "pjrt_c_api" not in mapped and "xla_cpu_pjrt" not in mapped and "libtpu" not in mapped
        """,
        PYTHONWARNINGS="error",
    )
    assert done.stdout == "" and done.stderr == ""


def test_autoload_can_be_turned_off(script):
    script(
        """
        import torch
        assert not hasattr(torch, "tpu")
        import torch_tpu
        assert torch.ones(2, device="tpu").sum().item() == 2
        """,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )


def test_importing_twice_is_harmless(script):
    script(
        """
        import importlib, sys
        import torch, torch_tpu
        importlib.reload(torch_tpu)
        module = torch.tpu
        for name in [name for name in sys.modules if name == "torch_tpu" or name == "torch_tpu._loader"]:
            del sys.modules[name]
        import torch_tpu
        assert torch.tpu is module
        assert torch.ones(2, device="tpu").sum().item() == 2
        """
    )


def test_a_package_that_cannot_load_does_not_break_torch(script):
    done = script(
        """
        import sys, warnings
        sys.modules["torch_tpu._C"] = None  # what a missing or unloadable extension looks like
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            import torch
        assert any("torch_tpu could not be loaded" in str(w.message) for w in caught), caught
        assert torch.ones(2).sum().item() == 2
        try:
            import torch_tpu
        except ImportError as error:
            print(error)
        else:
            raise SystemExit("import torch_tpu succeeded")
        """
    )
    assert "torch_tpu._C" in done.stdout


def test_another_out_of_tree_device_is_named(script):
    done = script(
        """
        import torch
        torch.utils.rename_privateuse1_backend("other")
        try:
            import torch_tpu
        except ImportError as error:
            print(error)
        """,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert "'other' already took it" in done.stdout


def test_the_process_can_be_called_neuron(script):
    script(
        """
        import torch
        assert torch.neuron.__name__ == "torch_tpu.tpu"
        x = torch.ones(3, device="neuron")
        assert x.is_neuron and str(x.device) == "neuron:0" and x.sum().item() == 3
        assert torch.nn.Linear(2, 2).neuron().weight.device.type == "neuron"
        import torch.neuron.amp
        """,
        TORCH_TPU_DEVICE="neuron",
    )


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name(name):
    assert name in torch.tpu.__all__
    value = getattr(torch.tpu, name)
    if inspect.isfunction(value) or inspect.isclass(value):
        assert value.__doc__, f"{name} has no docstring"


def test_every_public_function_is_annotated():
    for name in torch.tpu.__all__:
        value = getattr(torch.tpu, name)
        if inspect.isfunction(value):
            signature = inspect.signature(value)
            assert signature.return_annotation is not inspect.Signature.empty, name
            for parameter in signature.parameters.values():
                assert parameter.annotation is not inspect.Parameter.empty, (name, parameter)


def test_submodules_are_the_same_under_both_names():
    import torch.tpu.amp
    import torch.tpu.memory
    import torch.tpu.random

    import torch_tpu.tpu.amp
    import torch_tpu.tpu.random

    assert torch.tpu.amp is torch_tpu.tpu.amp
    assert torch.tpu.random is torch_tpu.tpu.random
    assert torch.get_device_module("tpu") is torch.tpu


def test_nothing_of_pytorch_is_replaced(script):
    # What PyTorch's own registration adds is all that may change.
    done = script(
        """
        import torch, torch.nn.functional as F, torch._dynamo  # noqa: F401
        watched = [torch, torch.Tensor, torch.nn.Module, torch.nn.functional, torch.autograd, torch.optim.Optimizer,
                   torch.accelerator, torch.random, torch.amp, torch.cuda]
        before = [{k: id(v) for k, v in vars(o).items()} for o in watched]
        import torch_tpu
        torch.ones(2, device="tpu").sum().item()
        for owner, old in zip(watched, before):
            new = {k: id(v) for k, v in vars(owner).items()}
            changed = {k for k in old if k in new and new[k] != old[k]}
            added = set(new) - set(old)
            print(owner, sorted(changed), sorted(added)) if changed or added else None
        """,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    for line in done.stdout.splitlines():
        assert "[] " in line, f"changed: {line}"
