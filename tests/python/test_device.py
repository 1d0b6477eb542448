"""Devices: names and indices, the current device, several devices in one process, `torch.accelerator`."""

from __future__ import annotations

import pytest
import torch

from compare import compare, make


def test_spellings_of_a_device():
    for device in ("tpu", "tpu:0", torch.device("tpu"), torch.device("tpu", 0)):
        x = torch.ones(2, device=device)
        assert x.device == torch.device("tpu", 0)
        assert x.is_tpu and not x.is_cpu and not x.is_cuda
    assert torch.ones(2).tpu().device == torch.device("tpu", 0)
    assert torch.ones(2).to("tpu").device == torch.device("tpu", 0)
    assert torch.nn.Linear(2, 2).tpu().weight.is_tpu
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3, 2), torch.ones(1, 2)])
    assert packed.to("tpu").data.is_tpu


def test_device_arguments_of_torch_tpu():
    for device in (None, 0, "tpu", "tpu:0", torch.device("tpu"), torch.device("tpu:0")):
        torch.tpu.synchronize(device)
        assert isinstance(torch.tpu.get_device_name(device), str)
        assert torch.tpu.memory_allocated(device) >= 0
    for device in ("cpu", "cuda:0", torch.device("cpu"), "nonsense"):
        with pytest.raises(ValueError, match="tpu"):
            torch.tpu.synchronize(device)
    with pytest.raises(RuntimeError, match="tpu:7 does not exist: this process has"):
        torch.tpu.synchronize(7)
    with pytest.raises(TypeError):
        torch.tpu.synchronize(1.5)


def test_a_device_that_does_not_exist():
    with pytest.raises(RuntimeError, match="7"):
        torch.ones(2, device="tpu:7")
    with pytest.raises(RuntimeError, match="7"):
        torch.ones(2).to("tpu:7")
    with pytest.raises(RuntimeError, match="7"):
        torch.tpu.set_device(7)
    assert torch.tpu.current_device() == 0


def test_properties():
    properties = torch.tpu.get_device_properties()
    assert properties.name == torch.tpu.get_device_name()
    assert properties.total_memory > 2**20
    assert properties.multi_processor_count >= 1
    assert torch.tpu.is_available() and torch.tpu.device_count() >= 1
    assert torch.tpu.is_bf16_supported()
    assert {torch.float32, torch.bfloat16} <= set(torch.tpu.get_device_capability()["supported_dtypes"])
    assert torch.bfloat16 in torch.tpu.get_amp_supported_dtype()
    free, total = torch.tpu.mem_get_info()
    assert 0 < free <= total


def test_accelerator():
    accelerator = torch.accelerator
    assert accelerator.is_available()
    assert accelerator.current_accelerator() == torch.device("tpu")
    assert accelerator.device_count() == torch.tpu.device_count()
    assert accelerator.current_device_index() == 0
    accelerator.set_device_index(0)
    assert accelerator.current_stream().device == torch.device("tpu:0")
    accelerator.synchronize()
    assert {torch.float32} <= set(accelerator.get_device_capability()["supported_dtypes"])
    x = torch.ones(1000, device="tpu")
    assert accelerator.memory_allocated() == torch.tpu.memory_allocated() >= x.numel() * 4
    assert accelerator.max_memory_allocated() >= accelerator.memory_allocated()
    assert accelerator.get_memory_info() == torch.tpu.mem_get_info()
    accelerator.reset_peak_memory_stats()
    accelerator.reset_accumulated_memory_stats()
    accelerator.empty_cache()
    with pytest.raises((RuntimeError, ValueError)):
        accelerator.set_device_index(9)


def test_default_device_context():
    with torch.device("tpu"):
        x = torch.arange(4)
        layer = torch.nn.Linear(2, 2)
    assert x.is_tpu and layer.weight.is_tpu
    assert torch.arange(4).device.type == "cpu"


def test_like_and_new_stay_on_the_device():
    x = make(2, 3).to("tpu")
    for y in (torch.zeros_like(x), torch.empty_like(x), x.new_ones(2), x.new_tensor([1.0]), torch.full_like(x, 2)):
        assert y.device == x.device
    assert torch.zeros_like(x, device="cpu").device.type == "cpu"


def test_host_scalars_mix_with_device_tensors():
    compare(lambda x: (x + 1, 2.5 * x, x**2, 1 - x, x + torch.tensor(3.0), torch.tensor(2) * x), make(3, 4))


def test_one_device_is_current_per_thread_and_restored(script):
    script(
        """
        import threading
        import torch

        assert torch.tpu.device_count() == 4 == torch.accelerator.device_count()
        assert torch.tpu.current_device() == 0
        with torch.tpu.device(2):
            assert torch.tpu.current_device() == 2
            x = torch.ones(3, device="tpu")
            assert x.device.index == 2
            with torch.tpu.device("tpu:1"):
                assert torch.empty(1, device="tpu").device.index == 1
            with torch.tpu.device(-1):
                assert torch.tpu.current_device() == 2
            with torch.tpu.device(None):
                assert torch.tpu.current_device() == 2
            with torch.tpu.device_of(torch.ones(1, device="tpu:3")):
                assert torch.tpu.current_device() == 3
            with torch.tpu.device_of(torch.ones(1)):
                assert torch.tpu.current_device() == 2
        assert torch.tpu.current_device() == 0
        try:
            with torch.tpu.device(1):
                raise KeyError
        except KeyError:
            pass
        assert torch.tpu.current_device() == 0
        with torch.accelerator.device_index(3):
            assert torch.tpu.current_device() == 3
        torch.tpu.set_device("tpu:1")
        assert torch.accelerator.current_device_index() == 1
        seen = []
        thread = threading.Thread(target=lambda: seen.append(torch.tpu.current_device()))
        thread.start(); thread.join()
        assert seen == [0], seen
        """,
        TORCH_TPU_CPU_DEVICES="4",
    )


def test_work_and_copies_on_four_devices(script):
    script(
        """
        import torch

        tensors = [torch.full((4, 5), float(i), device=f"tpu:{i}") for i in range(4)]
        for i, x in enumerate(tensors):
            assert x.device.index == i
            y = (x * 2 + 1).sum(1)
            assert y.device.index == i and y.tolist() == [5 * (2.0 * i + 1)] * 4

        # copies between devices: contiguous, strided, of another dtype, non-blocking, in place
        source = torch.arange(24.0).reshape(4, 6)
        on0 = source.to("tpu:0")
        for i in range(1, 4):
            assert torch.equal(on0.to(f"tpu:{i}").cpu(), source)
            assert torch.equal(on0.t().to(f"tpu:{i}", non_blocking=True).cpu(), source.t())
            assert torch.equal(on0[1:3, ::2].to(f"tpu:{i}", torch.int64).cpu(), source[1:3, ::2].long())
            target = torch.zeros(6, 4, device=f"tpu:{i}")
            target.t()[2:].copy_(on0[2:])
            assert torch.equal(target.cpu().t()[2:], source[2:]) and not target.cpu().t()[:2].any()

        # a model per device, gradients stay where they belong
        for i in (0, 3):
            layer = torch.nn.Linear(6, 2).to(f"tpu:{i}")
            loss = layer(on0.to(f"tpu:{i}")).square().mean()
            loss.backward()
            assert layer.weight.grad.device.index == i
        # gradient of a copy between devices
        x = source.to("tpu:1").requires_grad_()
        (x.to("tpu:2") * 3).sum().backward()
        assert x.grad.device.index == 1 and torch.equal(x.grad.cpu(), torch.full((4, 6), 3.0))

        # operands on two devices
        try:
            tensors[0] + tensors[1]
        except RuntimeError as error:
            assert "tpu:0" in str(error) and "tpu:1" in str(error), error
        else:
            raise SystemExit("added tensors of two devices")
        try:
            torch.cat([tensors[0], tensors[1]])
        except RuntimeError as error:
            assert "tpu:0" in str(error) and "tpu:1" in str(error), error
        else:
            raise SystemExit("joined tensors of two devices")
        # a host scalar goes anywhere
        assert (tensors[3] + torch.tensor(1.0)).device.index == 3
        for i in range(4):
            torch.tpu.synchronize(i)
            assert torch.tpu.memory_allocated(i) > 0
        assert not torch.tpu.fallback_ops(), torch.tpu.fallback_ops()
        """,
        TORCH_TPU_CPU_DEVICES="4",
    )


def test_random_state_and_streams_belong_to_a_device(script):
    script(
        """
        import torch

        torch.manual_seed(5)
        assert len(torch.tpu.default_generators) == 4
        a = [torch.rand(4, device=f"tpu:{i}").cpu() for i in range(4)]
        assert all(torch.equal(a[0], other) for other in a[1:]), "the same seed gives the same numbers on each device"
        states = torch.tpu.get_rng_state_all()
        b = [torch.rand(4, device=f"tpu:{i}").cpu() for i in range(4)]
        torch.tpu.set_rng_state_all(states)
        c = [torch.rand(4, device=f"tpu:{i}").cpu() for i in range(4)]
        assert all(torch.equal(x, y) for x, y in zip(b, c)) and not torch.equal(a[0], b[0])
        with torch.random.fork_rng(devices=[1], device_type="tpu"):
            torch.rand(4, device="tpu:1")
        torch.tpu.manual_seed(9, "tpu:2")
        assert torch.tpu.default_generators[2].initial_seed() == 9
        assert torch.tpu.default_generators[1].initial_seed() == 5

        stream = torch.tpu.Stream(3)
        assert stream.device == torch.device("tpu:3")
        with torch.tpu.stream(stream):
            assert torch.tpu.current_device() == 3
            assert torch.tpu.current_stream() == stream
        assert torch.tpu.current_device() == 0
        assert torch.tpu.current_stream(3) == torch.tpu.default_stream(3)
        """,
        TORCH_TPU_CPU_DEVICES="4",
    )
