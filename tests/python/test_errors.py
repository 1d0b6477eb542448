"""Bad input: each gives the named exception with a message that says what to do, and the process goes on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch

from compare import compare_error, make

# ---- the plugin ---------------------------------------------------------------------------------------------------

USE = """
    import torch
    assert isinstance(torch.tpu.is_available(), bool)
    try:
        torch.ones(2, device="tpu")
    except {expected} as error:
        print(error)
    else:
        raise SystemExit("no error")
    assert torch.tpu.is_available() is False and torch.tpu.device_count() == 0
    assert torch.ones(2).sum().item() == 2
    try:
        torch.tpu.init()
    except {expected}:
        pass
"""


def test_no_plugin_found(script):
    done = script(
        """
        import sys
        import torch
        # The package is found, and the folders with plugin wheels are not.
        paths, sys.path = sys.path, [path for path in sys.path if "packages" not in path]
        import torch_tpu, torch.tpu
        sys.path = paths
        assert torch.tpu.is_available() is False and torch.tpu.device_count() == 0
        try:
            torch.ones(2, device="tpu")
        except RuntimeError as error:
            print(error)
        else:
            raise SystemExit("no error")
        """,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
        PYTHONPATH=str(Path(torch.tpu.__file__).parents[2]),
    )
    for tried in ("TORCH_TPU_PJRT_PLUGIN", "TPU_LIBRARY_PATH", "libtpu", "lammps-jax-pjrt-cpu", "pip install"):
        assert tried in done.stdout


def test_a_path_that_does_not_exist(script):
    done = script(USE.format(expected="RuntimeError"), TORCH_TPU_PJRT_PLUGIN="/nowhere/plugin.so")
    assert "/nowhere/plugin.so" in done.stdout and "TORCH_TPU_PJRT_PLUGIN" in done.stdout


def test_a_file_that_is_no_library(script, tmp_path):
    path = tmp_path / "plugin.so"
    path.write_text("this is text")
    done = script(USE.format(expected="RuntimeError"), TORCH_TPU_PJRT_PLUGIN=str(path))
    assert str(path) in done.stdout


def library(tmp_path: Path, source: str) -> Path:
    """A shared library from C source."""
    (tmp_path / "plugin.c").write_text(source)
    path = tmp_path / "plugin.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", path, tmp_path / "plugin.c"], check=True)
    return path


def test_a_library_that_is_no_plugin(script, tmp_path):
    path = library(tmp_path, "int something_else(void) { return 1; }")
    done = script(USE.format(expected="RuntimeError"), TORCH_TPU_PJRT_PLUGIN=str(path))
    assert str(path) in done.stdout and "GetPjrtApi" in done.stdout


# The head of PJRT_Api: struct_size, extension_start, PJRT_Api_Version {struct_size, extension_start, major, minor}.
API = """
#include <stddef.h>
struct version {{ size_t size; void *extensions; int major, minor; }};
struct api {{ size_t size; void *extensions; struct version version; void *functions[200]; }};
static struct api the_api = {{ {size}, NULL, {{ sizeof(struct version), NULL, {major}, {minor} }} }};
const void *GetPjrtApi(void) {{ return {result}; }}
"""


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"major": 7, "minor": 3}, ["7.3", "version"]),
        ({"major": 0, "minor": 1, "size": "sizeof(size_t) * 6"}, ["0.1"]),
        ({"result": "NULL"}, ["GetPjrtApi"]),
    ],
    ids=["major version", "too old", "no table"],
)
def test_an_incompatible_plugin(script, tmp_path, values, words):
    options = {"major": 0, "minor": 81, "size": "sizeof(struct api)", "result": "&the_api"} | values
    path = library(tmp_path, API.format(**options))
    done = script(USE.format(expected="RuntimeError"), TORCH_TPU_PJRT_PLUGIN=str(path))
    for word in (*words, str(path)):
        assert word in done.stdout


def test_a_plugin_whose_functions_are_missing(script, tmp_path):
    path = library(tmp_path, API.format(major=0, minor=81, size="sizeof(struct api)", result="&the_api"))
    done = script(USE.format(expected="RuntimeError"), TORCH_TPU_PJRT_PLUGIN=str(path))
    assert "PJRT_" in done.stdout


def test_both_cpu_plugins_run(script):
    packages = Path(torch.__file__).parents[1]
    for plugin in ("lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so", "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"):
        path = packages / plugin
        assert path.exists(), f"{path} is not installed"
        script(
            """
            import torch
            x = torch.arange(6.0, device="tpu").reshape(2, 3).requires_grad_()
            ((x @ x.t()).softmax(-1) * x.sum()).sum().backward()
            assert x.grad.isfinite().all()
            """,
            TORCH_TPU_PJRT_PLUGIN=str(path),
        )


# ---- the environment ----------------------------------------------------------------------------------------------

INVALID = {
    "TORCH_TPU_DEVICE": "gpu",
    "TORCH_TPU_CPU_DEVICES": "many",
    "TORCH_TPU_FALLBACK": "maybe",
    "TORCH_TPU_LAUNCH_BLOCKING": "yes please",
    "TORCH_TPU_MEMORY_LIMIT": "-1",
    "TORCH_TPU_COMPILE_THREADS": "0",
}


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_variable_is_named_at_the_first_use(script, name):
    done = script(USE.format(expected="ValueError"), **{name: INVALID[name]})
    assert name in done.stdout and INVALID[name] in done.stdout and "it takes" in done.stdout


# ---- operands -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + torch.ones(3),
        lambda x: torch.ones(3) * x,
        lambda x: x @ torch.ones(3),
        lambda x: torch.cat([x, torch.ones(3)]),
        lambda x: torch.where(x > 0, x, torch.ones(3)),
        lambda x: x.add_(torch.ones(3)),
        lambda x: torch.nn.functional.linear(x, torch.ones(2, 3)),
        lambda x: torch.add(x, 1, out=torch.empty(3)),
        lambda x: torch.stack([torch.ones(3), x]),
    ],
)
def test_an_operand_on_the_cpu(function):
    with pytest.raises(RuntimeError, match=r"(?s)(cpu.*tpu|tpu.*cpu)"):
        function(torch.ones(3, device="tpu"))
    assert torch.ones(3, device="tpu").sum().item() == 3


def test_indices_that_the_host_knows():
    for function in (
        lambda x: x[7],
        lambda x: x[-5],
        lambda x: x.select(0, 9),
        lambda x: x.sum(3),
        lambda x: x.narrow(0, 3, 4),
        lambda x: x.transpose(0, 5),
        lambda x: x[torch.tensor([0, 9])],
        lambda x: x.squeeze(4),
        lambda x: torch.cat([x, x], 3),
        lambda x: x.cumsum(2),
        lambda x: x.softmax(5),
        lambda x: x.topk(50),
        lambda x: x[1, 2, 3, 4],
    ):
        compare_error(function, make(4, 6))


DEVICE_INDICES = {
    "index": ("x[i]", "IndexError"),
    "index_put": ("x.index_put_((i,), torch.zeros(2, 3, device='tpu'))", "IndexError"),
    "index_select": ("x.index_select(0, i)", "IndexError"),
    "gather": ("x.gather(0, i[:, None])", "RuntimeError"),
    "scatter": ("x.scatter(0, i[:, None], 1.0)", "RuntimeError"),
    "embedding": ("torch.nn.functional.embedding(i, x)", "IndexError"),
    "take": ("x.take(i + 20)", "IndexError"),
    "nll_loss": ("torch.nn.functional.nll_loss(x[:2], i)", "IndexError"),
}


@pytest.mark.parametrize("name", DEVICE_INDICES)
def test_device_indices_are_checked_in_debug_mode(script, name):
    expression, _ = DEVICE_INDICES[name]
    done = script(
        f"""
        import torch
        x = torch.zeros(4, 3, device="tpu")
        i = torch.tensor([1, 99], device="tpu")
        try:
            {expression}
            torch.tpu.synchronize()
        except (IndexError, RuntimeError) as error:
            print(type(error).__name__, error)
        else:
            raise SystemExit("no error")
        assert (x + 1).sum().item() == 12
        """,
        TORCH_TPU_LAUNCH_BLOCKING="1",
    )
    assert "out of" in done.stdout or "range" in done.stdout or "bound" in done.stdout, done.stdout


def test_division_of_integers_by_zero():
    for function in (lambda x, y: x // y, lambda x, y: x % y, lambda x, y: torch.div(x, y, rounding_mode="trunc")):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            function(torch.tensor([1, 2], device="tpu"), torch.tensor([1, 0], device="tpu")).cpu()
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            function(torch.tensor([1, 2], device="tpu"), 0).cpu()
    assert (torch.tensor([1, 2], device="tpu") / torch.tensor([1, 0], device="tpu")).tolist() == [1, float("inf")]
    assert (torch.tensor([4.0], device="tpu") // 0).tolist() == [float("inf")]
    assert (torch.tensor([7, 8], device="tpu") // 2).tolist() == [3, 4]


def test_a_late_error_reaches_the_reader_and_no_one_else():
    good = torch.tensor([4, 6], device="tpu")
    bad = good // torch.tensor([2, 0], device="tpu")
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        bad.cpu()
    assert (good + 1).tolist() == [5, 7]
    torch.tpu.synchronize()


@pytest.mark.parametrize("dtype", [torch.complex32, torch.float8_e8m0fnu], ids=str)
def test_unsupported_dtypes(dtype):
    with pytest.raises((RuntimeError, NotImplementedError, TypeError)) as caught:
        (torch.zeros(2, dtype=dtype, device="tpu") + 1).cpu()
    assert any(word in str(caught.value) for word in (str(dtype).split(".")[1], "ComplexHalf", "Float8_e8m0fnu"))


def test_shapes_that_do_not_fit():
    for function in (
        lambda x: x + torch.ones(5, device=x.device),
        lambda x: x @ x,
        lambda x: x.view(7),
        lambda x: x.reshape(-1, 5),
        lambda x: x.expand(3, 6),
        lambda x: torch.cat([x, x[:, :2]]),
        lambda x: torch.bmm(x, x),
        lambda x: torch.nn.functional.conv2d(x, x),
        lambda x: torch.nn.functional.layer_norm(x, (5,)),
        lambda x: x.masked_fill(torch.ones(3, dtype=torch.bool, device=x.device), 0),
        lambda x: torch.nn.functional.cross_entropy(x, torch.zeros(9, dtype=torch.int64, device=x.device)),
    ):
        compare_error(function, make(4, 6))


def test_errors_name_the_operator():
    x = torch.ones(4, 6, device="tpu")
    with pytest.raises(RuntimeError) as caught:
        torch.nn.functional.layer_norm(x, (5,))
    assert "5" in str(caught.value) and "6" in str(caught.value)


def test_in_place_result_does_not_fit():
    compare_error(lambda x: x.add_(1.5), torch.ones(3, dtype=torch.int64))
    compare_error(lambda x: x.mul_(1j), torch.ones(3))
    compare_error(lambda x: x.add_(torch.ones(2, 3, device=x.device)), torch.ones(3))
    compare_error(lambda x: x.logical_not_().sub_(x), torch.ones(3, dtype=torch.bool))
    compare_error(lambda x: torch.add(x, x, out=torch.empty(3, dtype=torch.int32, device=x.device)), torch.ones(3))


def test_mixed_dtypes_where_pytorch_refuses_them():
    compare_error(lambda x, y: x @ y, make(2, 2), make(2, 2, dtype=torch.float64))
    compare_error(lambda x, i: x.gather(0, i), make(3), torch.tensor([0], dtype=torch.float32))
    compare_error(lambda x, i: x[i], make(3), torch.tensor([0.0]))
    compare_error(lambda x: x.bitwise_and(x), make(3))


# ---- processes ----------------------------------------------------------------------------------------------------


def test_use_after_fork_raises(script):
    script(
        """
        import os, sys, torch
        x = torch.ones(2, device="tpu")
        x.sum().item()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                assert torch.tpu._is_in_bad_fork()
                torch.manual_seed(3)   # must stay harmless
                for use in (lambda: torch.ones(2, device="tpu"), lambda: x + 1, lambda: x.cpu(), torch.tpu.synchronize,
                            torch.tpu.init):
                    try:
                        use()
                    except RuntimeError as error:
                        assert "fork" in str(error) and "spawn" in str(error), error
                    else:
                        raise AssertionError("no error")
                del x
                code = 0
            except BaseException as error:
                print(error, file=sys.stderr, flush=True)
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert x.sum().item() == 2
        """
    )


def test_fork_before_the_first_use_is_fine(script):
    script(
        """
        import os, torch
        assert not torch.tpu.is_initialized()
        pid = os.fork()
        if pid == 0:
            os._exit(0 if torch.ones(2, device="tpu").sum().item() == 2 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert torch.ones(2, device="tpu").sum().item() == 2
        """
    )


def test_spawned_processes_work(script, tmp_path):
    source = tmp_path / "child.py"
    source.write_text(
        "import torch\n"
        "import torch.multiprocessing as mp\n"
        "def work(rank):\n"
        "    assert torch.full((3,), float(rank), device='tpu').sum().item() == 3.0 * rank\n"
        "if __name__ == '__main__':\n"
        "    torch.ones(1, device='tpu').item()\n"
        "    mp.spawn(work, nprocs=2)\n"
    )
    script(f"import runpy; runpy.run_path({str(source)!r}, run_name='__main__')")


def test_exit_with_work_in_flight_and_tensors_alive(script):
    done = script(
        """
        import torch
        x = torch.rand(800, 800, device="tpu")
        for _ in range(20):
            x = x @ x * 1e-3
        keep = [torch.ones(10, device="tpu") for _ in range(100)]
        stream, event = torch.tpu.Stream(), torch.tpu.Event()
        event.record(stream)
        """
    )
    assert done.stdout == "" and done.stderr == ""


def test_a_panic_does_not_cross(script):
    # Nothing here is known to panic; if anything does, it must arrive as an exception.
    done = script(
        """
        import torch
        x = torch.ones(2, 3, device="tpu")
        tried = 0
        for function in (
            lambda: x.as_strided((2**40,), (1,)),
            lambda: x.expand(2**62, 2, 3).clone(),
            lambda: torch.empty(2**62, device="tpu"),
            lambda: torch.empty((2**33, 2**33), device="tpu"),
            lambda: torch.arange(0, 1, 1e-300, device="tpu"),
            lambda: x.repeat(2**40, 2**40),
            lambda: torch.zeros(2, -1, device="tpu"),
            lambda: x.unfold(0, 3, 1),
            lambda: x.roll(2**62, 0).roll(-(2**62), 1),
            lambda: torch.nn.functional.pad(x, (2**62, 2**62)),
            lambda: torch.full((2,), 2**63, dtype=torch.int64, device="tpu"),
            lambda: x.split([2**62, 2**62]),
            lambda: torch.eye(-3, device="tpu"),
            lambda: torch.linspace(0, 1, -1, device="tpu"),
            lambda: torch.nn.functional.max_pool2d(x[None], 0),
            lambda: torch.nn.functional.conv2d(x[None, None], x[None, None], stride=0),
            lambda: torch.nn.functional.interpolate(x[None, None], size=(-1, 2)),
            lambda: torch.randint(5, 5, (3,), device="tpu"),
            lambda: torch.multinomial(torch.zeros(3, device="tpu"), 2).cpu(),
        ):
            try:
                y = function()
                y = y[0] if isinstance(y, tuple) else y
                if y.numel() < 100:
                    y.cpu()
            except Exception as error:  # not BaseException: pyo3's PanicException derives from that
                assert "panick" not in str(error), error
                tried += 1
        assert (x + 1).sum().item() == 12
        print(tried)
        """,
        timeout=200,
    )
    assert "panicked" not in done.stderr and int(done.stdout) >= 10
