#!/usr/bin/env python3
"""Teleoperate an SO-100 by another one, both on emulated servo buses, with every node on one core.

    python benchmarks/servo_teleoperation.py [--seconds 10] [--core 0] [--loss 0.05]

The leader's shoulder is swung by a hand that never tires; teleop, teleop_arm, guard and robot node run as processes on
one core, and the two buses, which take the time of their bytes at 1 Mbaud, in this process on the others. Printed are
the rate at which the follower's goals are written and its gaps, how far the follower is behind the leader, the bus's
latency and the CPU time of each node.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.support.peers._servos import Lag, ranges
from tests.support.peers.feetech import GOAL, SYNC_READ, SYNC_WRITE, FeetechPeer
from tests.support.ros import NodeProcess, nodes

SWING_RAD, SWING_HZ = 0.4, 0.25
TICK_RAD = 2.0 * math.pi / 4096


class Swung:
    """Servos of a limp arm whose first joint a hand swings."""

    def __init__(self, middles: list[float]) -> None:
        self._middles, self.begun = middles, math.inf

    def __call__(self, goals: list[float], torques: list[bool], passed_s: float) -> list[tuple[float, float]]:
        passed = max(time.perf_counter() - self.begun, 0.0)
        swing = SWING_RAD * math.sin(2.0 * math.pi * SWING_HZ * passed) / TICK_RAD
        return [(middle + swing * (k == 0), 0.0) for k, middle in enumerate(self._middles)]


class Counted(FeetechPeer):
    """A bus that notes when goals are written and when its servos are read."""

    def hear(self, packet: bytes) -> None:
        now = time.perf_counter()
        if packet[4] == SYNC_WRITE and packet[5] == GOAL:
            self.written.append(now)
        super().hear(packet)
        if packet[4] == SYNC_READ:
            self.latencies.append(time.perf_counter() - now)

    written: list[float]
    latencies: list[float]


def lag_s(times: np.ndarray, leader: np.ndarray, follower: np.ndarray) -> float:
    """Return the shift, s, with which the follower fits the leader best."""
    shifts = np.arange(0.0, 0.5, 0.002)
    inner = times > times[0] + 0.6
    errors = [np.abs(np.interp(times[inner] - shift, times, leader) - follower[inner]).mean() for shift in shifts]
    return float(shifts[int(np.argmin(errors))])


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--loss", type=float, default=0.0)
    options = parser.parse_args()
    follower = Counted()
    follower.written, follower.latencies = [], []
    middles = [0.5 * (low + high) for low, high in ranges(follower.robot)]
    hand = Swung(middles)
    leader = FeetechPeer(move=hand)
    follower.move = Lag(list(middles))
    all_cores = os.sched_getaffinity(0)
    with tempfile.TemporaryDirectory() as folder, leader, follower:
        file = Path(folder) / "leader.yaml"
        file.write_text(f"port: {leader.port}\ncalibration: {leader.calibration}\n")
        follower.loss = options.loss
        uri = follower.uri.partition("&answer_ms")[0]  # the driver's own wait for an answer, not that of busy tests
        os.sched_setaffinity(0, {options.core})  # what is started now stays there
        started = (
            NodeProcess("robot", robot="so100", backend="feetech", uri=uri),
            NodeProcess("guard", robot="so100", auto_arm=True),
            NodeProcess("teleop_arm", robot="so100"),
            NodeProcess("teleop", robot="so100", device=f"leader:{file}"),
        )
        os.sched_setaffinity(0, all_cores - {options.core} or all_cores)
        with nodes(*started):
            hand.begun = time.perf_counter() + 6.0
            end = time.monotonic() + 60.0
            while len(follower.written) < 100:
                if time.monotonic() > end:
                    raise SystemExit("no commands came")
                time.sleep(0.05)
            time.sleep(max(hand.begun + 4.0 - time.perf_counter(), 0.0))
            before = {process.kind: cpu_s(process.process.pid) for process in started}
            follower.written.clear()
            begun, samples = time.perf_counter(), []
            while (now := time.perf_counter()) - begun < options.seconds:
                samples.append((now, leader.servos[0].word(56), follower.servos[0].word(56)))
                time.sleep(0.002)
            took = time.perf_counter() - begun
            used = {process.kind: (cpu_s(process.process.pid) - before[process.kind]) / took for process in started}
    gaps = np.diff([begun, *follower.written])
    times, led, followed = np.array(samples, dtype=float).T
    late = np.array(follower.latencies[-1000:])
    print(f"goals written: {len(follower.written) / took:.1f} a second; gaps p50 {1e3 * np.median(gaps):.1f} ms,")
    print(f"    p99 {1e3 * np.percentile(gaps, 99):.1f} ms, most {1e3 * gaps.max():.1f} ms")
    print(f"follower behind leader: {1e3 * lag_s(times, led, followed):.0f} ms, its own lag of 50 ms included")
    print(f"the bus answers a reading of six servos in p50 {1e3 * np.median(late):.2f} ms,")
    print(f"    p99 {1e3 * np.percentile(late, 99):.2f} ms")
    print(
        "CPU: "
        + ", ".join(f"{kind} {share:.0%}" for kind, share in used.items())
        + f", together {sum(used.values()):.0%}"
    )


if __name__ == "__main__":
    main()
