"""Saving and loading: `torch.save`, `map_location`, pickle, state dicts, damaged files."""

from __future__ import annotations

import io
import pickle

import pytest
import torch

from compare import ALL_DTYPES, make

pytestmark = pytest.mark.usefixtures("no_fallback")


def round_trip(value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return torch.load(buffer, **options)


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_save_and_load(dtype):
    x = make(3, 4, dtype=dtype, high=100)
    loaded = round_trip(x.to("tpu"))
    assert loaded.device == torch.device("tpu:0") and loaded.dtype == dtype
    assert torch.equal(loaded.cpu(), x)


def test_locations():
    x = make(3)
    for target in ("cpu", torch.device("cpu"), {"tpu:0": "cpu"}, lambda storage, location: storage.cpu()):
        loaded = round_trip(x.to("tpu"), map_location=target)
        assert loaded.device.type == "cpu" and torch.equal(loaded, x)
    for target in ("tpu", "tpu:0", torch.device("tpu", 0), {"cpu": "tpu:0"}):
        loaded = round_trip(x, map_location=target)
        assert loaded.device == torch.device("tpu:0") and torch.equal(loaded.cpu(), x)
    assert round_trip(x.to("tpu"), map_location="meta").device.type == "meta"
    with pytest.raises(RuntimeError, match="device 5"):
        round_trip(x, map_location="tpu:5")


def test_views_stay_views():
    x = make(4, 6).to("tpu")
    loaded = round_trip({"all": x, "part": x[1:3, ::2], "t": x.t()})
    assert torch.equal(loaded["part"].cpu(), make(4, 6)[1:3, ::2])
    loaded["all"].zero_()
    assert not loaded["part"].any() and not loaded["t"].any()
    assert loaded["part"].stride() == (6, 2)


def test_parameters_scalars_and_empty_tensors():
    parameter = torch.nn.Parameter(make(2, 2).to("tpu"))
    loaded = round_trip(parameter)
    assert isinstance(loaded, torch.nn.Parameter) and loaded.requires_grad and loaded.is_tpu
    for x in (make(), torch.zeros(0, 3)):
        loaded = round_trip(x.to("tpu"))
        assert loaded.shape == x.shape and torch.equal(loaded.cpu(), x)


def test_conjugate_and_negative():
    x = make(3, dtype=torch.complex64)
    loaded = round_trip(x.to("tpu").conj())
    assert torch.equal(loaded.cpu(), x.conj())


def test_models_and_optimizers_move_between_devices(tmp_path):
    torch.manual_seed(0)

    def build():
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2))
        return model, torch.optim.AdamW(model.parameters(), lr=0.01)

    def train(model, optimizer, device, steps):
        model.to(device)
        losses = []
        for step in range(steps):
            optimizer.zero_grad()
            loss = model(make(5, 4, seed=step).to(device)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2)).to("tpu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    train(model, optimizer, "tpu", 3)
    path = tmp_path / "checkpoint.pt"
    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.tpu.get_rng_state()}, path
    )
    expected = train(model, optimizer, "tpu", 4)

    for device, location in (("tpu", None), ("tpu", "cpu"), ("cpu", "cpu"), ("cpu", "tpu")):
        checkpoint = torch.load(path, map_location=location)
        assert checkpoint["rng"].device.type in ("cpu", "tpu")
        other, _ = build()
        other.to(device)
        other.load_state_dict(checkpoint["model"])
        resumed = torch.optim.AdamW(other.parameters(), lr=0.01)
        resumed.load_state_dict(checkpoint["optimizer"])
        torch.testing.assert_close(train(other, resumed, device, 4), expected, rtol=1e-4, atol=1e-5)


def test_a_file_written_without_this_package_loads_and_back(script, tmp_path):
    path = tmp_path / "x.pt"
    torch.save({"x": make(3, 2).to("tpu"), "n": 1}, path)
    script(
        f"""
        import torch
        assert not hasattr(torch, "tpu")
        print(torch.load({str(path)!r}, map_location="cpu")["x"].sum())
        torch.save(torch.arange(3.), {str(tmp_path / "y.pt")!r})
        """,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert torch.load(tmp_path / "y.pt", map_location="tpu").tolist() == [0, 1, 2]


def test_pickle():
    x = make(3, 2).to("tpu")
    loaded = pickle.loads(pickle.dumps({"x": x, "t": x.t()}))
    assert (
        loaded["x"].is_tpu
        and torch.equal(loaded["x"].cpu(), make(3, 2))
        and torch.equal(loaded["t"].cpu(), make(3, 2).t())
    )
    assert pickle.loads(pickle.dumps(torch.device("tpu:0"))) == torch.device("tpu:0")
    model = pickle.loads(pickle.dumps(torch.nn.Linear(2, 2).to("tpu")))
    assert model.weight.is_tpu


def test_legacy_format_and_mmap(tmp_path):
    x = make(3).to("tpu")
    buffer = io.BytesIO()
    torch.save(x, buffer, _use_new_zipfile_serialization=False)
    buffer.seek(0)
    assert torch.equal(torch.load(buffer).cpu(), make(3))
    torch.save(make(3), tmp_path / "x.pt")
    assert torch.equal(torch.load(tmp_path / "x.pt", mmap=True, map_location="cpu").to("tpu").cpu(), make(3))


@pytest.mark.parametrize("cut", [0, 10, 0.5, 0.9])
def test_a_damaged_file_is_an_exception(cut):
    buffer = io.BytesIO()
    torch.save({"x": make(100).to("tpu")}, buffer)
    data = buffer.getvalue()
    length = int(cut * len(data)) if isinstance(cut, float) else cut
    with pytest.raises((RuntimeError, EOFError, pickle.UnpicklingError, OSError, ValueError)):
        torch.load(io.BytesIO(data[:length]))
    assert torch.equal(torch.load(io.BytesIO(data))["x"].cpu(), make(100)), "the process goes on"


def test_a_file_with_flipped_bytes_does_not_end_the_process():
    buffer = io.BytesIO()
    torch.save({"x": make(100).to("tpu")}, buffer)
    data = bytearray(buffer.getvalue())
    for position in range(0, len(data), 97):
        damaged = bytearray(data)
        damaged[position] ^= 0xFF
        try:
            torch.load(io.BytesIO(bytes(damaged)))
        except Exception:
            continue
    assert torch.ones(2, device="tpu").sum().item() == 2
