"""Timing: throughput per CPU-second and per second, and latency of a call."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def rate(
    call: Callable[[], object],
    done: int,
    seconds: float,
    repeats: int,
    wait: Callable[[], object] | None = None,
) -> dict[str, Any]:
    """Return the throughput per CPU-second and per second of wall time.

    Args:
        call: The measured function.
        done: Units of work in one call.
        seconds: Approximate duration of each measurement.
        repeats: Number of measurements.
        wait: Called at the end of each, if ``call`` returns before its work is done (a GPU).

    Returns:
        ``per_cpu_second`` and ``per_second``, each with ``median``, ``least``, ``most``; and ``calls`` of each
        measurement. CPU-seconds are user and system time of all threads of this process.
    """
    wait = wait or (lambda: None)
    calls = 1
    while True:  # also warms up
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        wait()
        took = time.perf_counter() - begin
        if took > 0.2 * seconds:
            break
        calls *= 2
    calls = max(1, round(calls * seconds / took))
    by_cpu, by_wall = [], []
    for _ in range(repeats):
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(calls):
            call()
        wait()
        by_wall.append(done * calls / (time.perf_counter() - wall))
        by_cpu.append(done * calls / (time.process_time() - cpu))
    return {"per_cpu_second": spread(by_cpu), "per_second": spread(by_wall), "calls": calls}


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return the median, minimum and maximum of ``values``."""
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def latency(call: Callable[[], object], calls: int) -> dict[str, float]:
    """Return the wall time of single calls in microseconds: ``p50_us``, ``p99_us`` and ``calls``, after a tenth more
    to warm up, with Python's garbage collector off.
    """
    for _ in range(max(1, calls // 10)):
        call()
    collecting = gc.isenabled()
    gc.disable()
    try:
        took = []
        for _ in range(calls):
            begin = time.perf_counter_ns()
            call()
            took.append(time.perf_counter_ns() - begin)
    finally:
        if collecting:
            gc.enable()
    p50, p99 = np.percentile(took, [50, 99], method="inverted_cdf")
    return {"p50_us": float(p50) / 1e3, "p99_us": float(p99) / 1e3, "calls": calls}
