"""Streams and events mean what they say: order, query, wait, synchronize, elapsed time."""

from __future__ import annotations

import time

import pytest
import torch


def long_work(x: torch.Tensor, times: int = 6) -> torch.Tensor:
    for _ in range(times):
        x = x @ x * 1e-3
    return x


@pytest.fixture(scope="module")
def big() -> torch.Tensor:
    x = torch.rand(1200, 1200, device="tpu")
    long_work(x)  # compile
    torch.tpu.synchronize()
    return x


def test_streams_are_distinct_and_the_current_one_is_restored():
    default = torch.tpu.current_stream()
    assert default == torch.tpu.default_stream()
    first, second = torch.tpu.Stream(), torch.tpu.Stream()
    assert first != second and first != default and hash(first) != hash(second)
    assert isinstance(first, torch.Stream)
    with torch.tpu.stream(first):
        assert torch.tpu.current_stream() == first == torch.accelerator.current_stream()
        with second:
            assert torch.tpu.current_stream() == second
        with torch.tpu.stream(None):
            assert torch.tpu.current_stream() == first
    assert torch.tpu.current_stream() == default
    torch.tpu.set_stream(first)
    assert torch.accelerator.current_stream() == first
    torch.tpu.set_stream(default)
    with pytest.raises(ValueError, match="tpu"):
        torch.tpu.set_stream(torch.Stream(device="cpu"))


def test_generic_classes_work_with_the_device_name():
    stream = torch.Stream(device="tpu")
    assert stream.device == torch.device("tpu:0")
    event = torch.Event(device="tpu", enable_timing=True)
    event.record(stream)
    event.synchronize()
    assert event.query()
    stream.wait_event(event)
    assert stream.query()


def test_results_cross_streams():
    default = torch.tpu.default_stream()
    side = torch.tpu.Stream()
    x = torch.arange(1000.0, device="tpu")
    side.wait_stream(default)
    with torch.tpu.stream(side):
        y = x * 2
        event = side.record_event()
    default.wait_event(event)
    assert torch.equal((y + 1).cpu(), torch.arange(1000.0) * 2 + 1)
    y.record_stream(default)


def test_an_event_is_done_when_the_work_before_it_is(big):
    event = torch.tpu.Event()
    assert isinstance(event, torch.tpu.Event) and isinstance(event, torch.Event)
    assert not isinstance(torch.Event("cpu"), torch.tpu.Event)
    assert event.query(), "an event that was never recorded is done"
    result = long_work(big)
    event.record()
    event.synchronize()
    assert event.query()
    start = time.perf_counter()
    result.sum().item()
    assert time.perf_counter() - start < 5


def test_query_tells_unfinished_work(big):
    # Enqueueing must not wait: some query in between is False, and it ends at True without a wait.
    saw_unfinished = False
    for _ in range(5):
        result = long_work(big, 12)
        event = torch.tpu.current_stream().record_event()
        saw_unfinished = saw_unfinished or not event.query() or not torch.tpu.current_stream().query()
        deadline = time.monotonic() + 60
        while not event.query():
            assert time.monotonic() < deadline
            time.sleep(0.001)
        assert torch.tpu.current_stream().query()
        del result
    assert saw_unfinished


def test_stream_synchronize_waits(big):
    stream = torch.tpu.Stream()
    with torch.tpu.stream(stream):
        long_work(big, 12)
    stream.synchronize()
    assert stream.query()


def test_elapsed_time(big):
    start, end = torch.tpu.Event(enable_timing=True), torch.tpu.Event(enable_timing=True)
    torch.tpu.synchronize()
    before = time.perf_counter()
    start.record()
    long_work(big, 12)
    end.record()
    end.synchronize()
    host = (time.perf_counter() - before) * 1e3
    measured = start.elapsed_time(end)
    assert 0 < measured <= host * 1.05 + 1
    assert measured > host * 0.3, f"{measured} ms measured, {host} ms on the host"


def test_elapsed_time_errors():
    plain, timed = torch.tpu.Event(), torch.tpu.Event(enable_timing=True)
    plain.record()
    timed.record()
    torch.tpu.synchronize()
    with pytest.raises((RuntimeError, ValueError)):
        plain.elapsed_time(timed)
    with pytest.raises((RuntimeError, ValueError)):
        torch.tpu.Event(enable_timing=True).elapsed_time(torch.tpu.Event(enable_timing=True))


def test_an_event_of_another_device_type_is_refused():
    event = torch.tpu.Event()
    with pytest.raises((RuntimeError, ValueError, TypeError)):
        event.record(torch.Stream(device="cpu"))


def test_many_events_and_streams_are_cheap():
    start = time.perf_counter()
    for _ in range(2000):
        torch.tpu.Event().record()
    torch.tpu.synchronize()
    assert time.perf_counter() - start < 5
