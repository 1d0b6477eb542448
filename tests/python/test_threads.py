"""Threads: operators, compiles, streams and modes from several threads at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import torch

from compare import make


def in_threads(count, function):
    barrier = threading.Barrier(count)

    def run(number):
        barrier.wait()
        return function(number)

    with ThreadPoolExecutor(count) as pool:
        return [future.result(timeout=120) for future in [pool.submit(run, i) for i in range(count)]]


def test_the_same_work_in_eight_threads():
    x = make(13, 7).to("tpu")
    expected = (make(13, 7).tanh() @ make(13, 7).t()).sum(0)

    def work(number):
        for _ in range(20):
            y = (x.tanh() @ x.t()).sum(0)
        return y.cpu()

    for result in in_threads(8, work):
        torch.testing.assert_close(result, expected)


def test_identical_new_programs_share_one_compile():
    x = make(11, 3).to("tpu")
    torch.tpu.synchronize()
    before = torch.tpu.cache_stats()["misses"]
    in_threads(8, lambda number: (x.cosh() - x.sinh()).cpu())
    assert torch.tpu.cache_stats()["misses"] - before <= 3


def test_different_programs_at_once():
    results = in_threads(6, lambda n: (make(n + 2, n + 3).to("tpu").exp() * (n + 1)).cpu())
    for n, result in enumerate(results):
        torch.testing.assert_close(result, make(n + 2, n + 3).exp() * (n + 1))


def test_a_compile_lets_other_python_threads_run():
    ticks = []
    done = threading.Event()

    def tick():
        while not done.wait(0.001):
            ticks.append(1)

    thread = threading.Thread(target=tick)
    thread.start()
    x = make(9, 9).to("tpu")
    for n in range(2, 8):
        (x[:n].softmax(-1) @ x).cpu()
    done.set()
    thread.join()
    assert len(ticks) >= 5


def test_writes_to_tensors_of_each_thread():
    def work(number):
        x = torch.zeros(50, device="tpu")
        for step in range(50):
            x[step] = number
            x.add_(1)
        return x.cpu()

    results = in_threads(4, work)
    expected = torch.zeros(50)
    for step in range(50):
        expected[step] = 2
        expected.add_(1)
    assert torch.equal(results[2], expected)


def test_training_in_threads():
    def train(number):
        torch.manual_seed(0)
        w = torch.nn.Parameter(torch.ones(4, 4, device="tpu"))
        optimizer = torch.optim.SGD([w], lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            (make(3, 4).to("tpu") @ w).square().mean().backward()
            optimizer.step()
        return w.detach().cpu()

    results = in_threads(4, train)
    assert all(torch.equal(results[0], other) for other in results[1:])


def test_the_current_stream_belongs_to_the_thread():
    stream = torch.tpu.Stream()
    with torch.tpu.stream(stream):
        assert in_threads(2, lambda n: torch.tpu.current_stream() == torch.tpu.default_stream()) == [True, True]
        assert torch.tpu.current_stream() == stream


def test_a_data_loader_with_forked_workers():
    data = torch.utils.data.TensorDataset(torch.arange(12.0).reshape(6, 2))
    loader = torch.utils.data.DataLoader(data, batch_size=2, num_workers=2, multiprocessing_context="fork")
    torch.ones(1, device="tpu")
    total = sum(batch[0].to("tpu").sum().item() for batch in loader)
    assert total == 66


def test_tensors_released_while_others_compute():
    def churn(number):
        for size in range(200):
            torch.ones(100 + number, device="tpu").add_(1)
        return True

    assert all(in_threads(4, churn))
    torch.tpu.synchronize()
