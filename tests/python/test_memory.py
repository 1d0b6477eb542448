"""Memory statistics, pinned memory, running out of memory."""

from __future__ import annotations

import gc

import pytest
import torch


def allocated() -> int:
    gc.collect()
    torch.tpu.synchronize()
    torch.tpu.empty_cache()
    return torch.tpu.memory_allocated()


def test_allocated_bytes_follow_the_tensors():
    before = allocated()
    x = torch.zeros(1000, 1000, device="tpu")
    torch.tpu.synchronize()
    with_x = torch.tpu.memory_allocated()
    assert 4_000_000 <= with_x - before < 4_100_000
    view = x[10:20].t()
    assert torch.tpu.memory_allocated() == with_x, "a view takes no memory"
    del x
    assert allocated() - before >= 4_000_000, "the view keeps the storage"
    del view
    assert allocated() - before < 4_000_000


def test_peak_and_totals():
    base = allocated()
    torch.tpu.reset_peak_memory_stats()
    assert torch.tpu.max_memory_allocated() == pytest.approx(base, abs=2**16)
    x = torch.ones(500, 1000, device="tpu")
    y = x + 1
    torch.tpu.synchronize()
    del x, y
    assert torch.tpu.max_memory_allocated() - base >= 4_000_000
    assert allocated() - base < 2_000_000
    torch.tpu.reset_peak_memory_stats()
    assert torch.tpu.max_memory_allocated() - base < 2_000_000
    torch.tpu.reset_accumulated_memory_stats()
    stats = torch.tpu.memory_stats()
    assert stats["allocated_bytes.all.allocated"] <= 2**16
    torch.ones(1000, 1000, device="tpu")
    torch.tpu.synchronize()
    assert torch.tpu.memory_stats()["allocated_bytes.all.allocated"] >= 4_000_000


def test_stats_are_consistent():
    x = torch.ones(100, device="tpu")
    stats = torch.tpu.memory_stats()
    assert list(stats) == sorted(stats)
    assert all(isinstance(value, int) and value >= 0 for value in stats.values())
    for kind in ("allocated_bytes", "reserved_bytes"):
        assert stats[f"{kind}.all.peak"] >= stats[f"{kind}.all.current"]
    assert stats["allocated_bytes.all.current"] == torch.tpu.memory_allocated() >= x.nbytes
    assert stats["reserved_bytes.all.current"] == torch.tpu.memory_reserved()
    assert torch.tpu.max_memory_reserved() >= torch.tpu.memory_reserved()
    text = torch.tpu.memory_summary()
    assert "allocated memory" in text and "tpu:0" in text
    assert "freed" not in torch.tpu.memory_summary(abbreviated=True)


def test_statistics_before_the_first_use(script):
    script(
        """
        import torch
        assert torch.tpu.memory_stats() == {} and torch.tpu.memory_allocated() == 0
        torch.tpu.empty_cache(); torch.tpu.reset_peak_memory_stats(); torch.tpu.reset_accumulated_memory_stats()
        assert "not initialized" in torch.tpu.memory_summary()
        assert not torch.tpu.is_initialized()
        """
    )


def test_no_memory_is_lost_in_a_training_loop():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).to("tpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.ones(8, 64, device="tpu")
    marks = []
    for step in range(30):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        if step in (9, 29):
            marks.append(allocated())
    assert marks[0] == marks[1]


def test_out_of_memory_is_an_exception_with_sizes_and_nothing_is_lost(script):
    script(
        """
        import torch

        keep = torch.ones(1000, device="tpu")
        try:
            x = torch.ones(64 * 2**20, device="tpu")  # 256 MiB
            x.sum().item()
        except torch.OutOfMemoryError as error:
            text = str(error)
            assert "MiB" in text or "GiB" in text or "268435456" in text, text
        else:
            raise SystemExit("more memory than the limit")
        assert keep.sum().item() == 1000
        assert torch.ones(2**20, device="tpu").sum().item() == 2**20
        assert torch.tpu.memory_stats().get("num_ooms", 1) >= 1
        assert torch.tpu.mem_get_info()[1] == 64 * 2**20
        """,
        TORCH_TPU_MEMORY_LIMIT=str(64 * 2**20),
    )


def test_an_impossible_size_is_out_of_memory():
    with pytest.raises((torch.OutOfMemoryError, RuntimeError)):
        torch.empty(2**45, device="tpu").fill_(1).sum().item()
    assert torch.ones(3, device="tpu").sum().item() == 3


def test_pinned_memory():
    x = torch.arange(12.0).reshape(3, 4)
    pinned = x.pin_memory()
    assert pinned.is_pinned() and not x.is_pinned()
    assert torch.equal(pinned, x)
    there = pinned.to("tpu", non_blocking=True)
    pinned_base = pinned.clone()
    assert torch.equal(there.cpu(), pinned_base)
    back = torch.empty(3, 4, pin_memory=True)
    back.copy_(there, non_blocking=True)
    torch.tpu.synchronize()
    assert torch.equal(back, x)
    assert torch.zeros(2, pin_memory=True).is_pinned()
    assert not torch.ones(2, device="tpu").is_pinned()


def test_changing_the_source_after_a_non_blocking_copy_of_pageable_memory():
    source = torch.arange(2**16, dtype=torch.float32)
    expected = source.clone()
    there = source.to("tpu", non_blocking=True)
    source.zero_()
    assert torch.equal(there.cpu(), expected)


def test_data_loader_pins():
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    loader = torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True)
    batches = [batch[0] for batch in loader]
    assert all(batch.is_pinned() for batch in batches)
    assert torch.equal(torch.cat([batch.to("tpu") for batch in batches]).cpu(), torch.arange(8.0))
