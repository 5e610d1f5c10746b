#!/usr/bin/env python3
"""A driver as it is deployed: sensor in to actuator command out, and the first command after the start.

    python benchmarks/deployed_driver.py [mavlink] [feetech] [--seconds 20] [--starts 5] [--priority 60]

The robot is emulated by this process (tests/support/peers): an autopilot over UDP, or servos on a pseudo-terminal,
whose bytes take their time at 1 Mbaud. Robot node, policy node and guard are processes of their own, as `rlstack up
deploy` starts them. A measurement carries its number, the policy's command repeats it, and the emulated robot notes
when it has sent the measurement (the last byte of it) and when the command came: the protocol's own time is thus left
out. With --priority all of them run at that real-time priority.

Start: from the start of the process `rlstack up deploy` until the first command has come, where a person arms at the
first moment at which the guard takes it (--force: without the live check, which measures for two seconds).
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from control_path import node
from tests.support.peers.feetech import GOAL, POSITION, SYNC_READ, SYNC_WRITE, FeetechPeer
from tests.support.peers.mavlink import Px4

SETTLE_S, WAIT_S = 3.0, 40.0
STEP_M, COUNT = 1e-5, 256
"""By how much the number of a measurement moves the quadrotor, and how many there are."""


class TimedPx4(Px4):
    """An X500 that hovers at 1 m whatever is commanded; its place along x is the number of the measurement."""

    answers_s: list[float]

    def __init__(self) -> None:
        super().__init__()
        self._number, self._sent = 0, [0.0] * COUNT
        self.answers_s, self.first_s = [], 0.0
        self.airframe.position[2] = 1.0
        self.airframe.advance = lambda seconds: None  # type: ignore[method-assign]

    def _ned(self) -> tuple[list[float], list[float], list[float], list[float]]:
        turn = [float(np.sqrt(0.5)), 0.0, 0.0, float(np.sqrt(0.5))]  # facing east
        return [0.0, STEP_M * self._number, -1.0], [0.0] * 3, turn, [0.0] * 3

    def _stream(self, number: int) -> None:
        if number == 331:
            self._number = (self._number + 1) % COUNT
        super()._stream(number)
        if number == 331:
            self._sent[self._number] = time.perf_counter()

    def _receive(self, number: int, fields: tuple[Any, ...]) -> None:
        now = time.perf_counter()
        super()._receive(number, fields)
        if number == 82:
            self.first_s = self.first_s or now
            self.setpoints.clear()
            answered = round(-fields[7] / STEP_M)  # yaw rate, FRD
            if 0 < answered < COUNT and self.armed:
                self.answers_s.append(now - self._sent[answered])


class TimedFeetech(FeetechPeer):
    """An SO-100 whose first joint is at another tick at every reading, whatever is commanded."""

    def __init__(self) -> None:
        super().__init__()
        self._middle = self.servos[0].word(POSITION)
        self._number, self._sent = 0, dict[int, float]()
        self.answers_s: list[float] = []
        self.first_s = 0.0

    def tick(self, passed_s: float) -> None:
        pass

    def hear(self, packet: bytes) -> None:
        now = time.perf_counter()
        if packet[4] == SYNC_READ and len(packet) > 12:
            self._number = (self._number + 1) % 100
            place = self._middle + (self._number if self._number < 50 else 100 - self._number)
            self.servos[0].move_to(place, 0.0)
            super().hear(packet)
            self._sent[place] = time.perf_counter()
            return
        if packet[4] == SYNC_WRITE and packet[5] == GOAL:
            self.first_s = self.first_s or now
            if (place := packet[8] | packet[9] << 8) in self._sent:
                self.answers_s.append(now - self._sent[place])
        super().hear(packet)


DRIVERS: dict[str, tuple[Any, str, tuple[str, ...], str]] = {
    "mavlink": (TimedPx4, "x500_rates", ("position",), "rates_thrust"),
    "feetech": (TimedFeetech, "so100", ("joint_position",), "joint_target"),
}


def write_repeating_policy(path: Path, robot_name: str, inputs: tuple[str, ...], command: str) -> Path:
    """Write a policy that hovers and turns at the rate that is the place along x, or holds joints where they are."""
    from onnx import TensorProto, helper, numpy_helper

    from rlstack.policies import contract_for, write_policy
    from rlstack.robots import load_robot

    contract = contract_for(load_robot(robot_name), inputs, [command], name=path.stem, task="benchmark")
    (taken,), (given,) = contract.inputs, contract.outputs
    gain, bias = np.eye(int(given.shape[0]), dtype=np.float32), np.zeros(int(given.shape[0]), dtype=np.float32)
    if command == "rates_thrust":
        gain, bias = np.zeros((3, 4), dtype=np.float32), np.array([0.0, 0.0, 0.0, 9.81], dtype=np.float32)
        gain[0, 2] = 1.0
    nodes = [
        helper.make_node("MatMul", [taken.name, "gain"], ["turned"]),
        helper.make_node("Add", ["turned", "bias"], [command]),
    ]
    ports = [
        [helper.make_tensor_value_info(port.name, TensorProto.FLOAT, ["batch", *port.shape])] for port in (taken, given)
    ]
    constants = [numpy_helper.from_array(gain, "gain"), numpy_helper.from_array(bias, "bias")]
    graph = helper.make_graph(nodes, path.stem, ports[0], ports[1], constants)
    write_policy(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), contract, path)
    return path


def latency(driver: str, policy: Path, seconds: float, priority: int) -> None:
    """Print the time from measurement to command."""
    kind, robot, _, _ = DRIVERS[driver]
    fast = {"real_time_priority": priority} if priority else {}
    with kind() as peer:
        commands = [
            node("robot", robot=robot, backend=driver, uri=peer.uri, **fast),
            node("policy", policy=policy, robot=robot, **fast),
            node("guard", robot=robot, auto_arm="true", staleness_periods=50.0, frozen_observations=0, **fast),
        ]
        processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
        try:
            end = time.monotonic() + WAIT_S
            while len(peer.answers_s) < 50:
                if time.monotonic() > end:
                    raise SystemExit(f"{driver}: no command came")
                time.sleep(0.05)
            time.sleep(SETTLE_S)
            gc.collect()
            gc.freeze()
            peer.answers_s.clear()
            time.sleep(seconds)
            found = 1e3 * np.array(peer.answers_s)
        finally:
            for process in processes:
                process.send_signal(signal.SIGINT)
            for process in processes:
                process.wait(timeout=20.0)
    p50, p99 = np.percentile(found, [50, 99])
    print(
        f"{driver}: sensor in to command out, through robot node, policy and guard: p50 {p50:.2f} ms, p99 {p99:.2f} ms,"
        f" most {found.max():.2f} ms ({len(found)} commands)"
    )


def first_command(driver: str, policy: Path) -> float:
    """Return the seconds from the start of `rlstack up deploy` to the first command."""
    import rclpy
    from std_srvs.srv import SetBool

    kind, robot, _, _ = DRIVERS[driver]
    rclpy.init()
    arming = rclpy.create_node("arming")
    client = arming.create_client(SetBool, f"/{robot}/arm")
    with kind() as peer:
        words = ["--robot", robot, "--policy", str(policy), "--backend", driver, "--uri", peer.uri, "--force"]
        begun = time.perf_counter()
        up = subprocess.Popen([sys.executable, "-m", "rlstack", "up", "deploy", *words], stdout=subprocess.DEVNULL)
        try:
            end = time.monotonic() + WAIT_S
            while not peer.first_s and time.monotonic() < end:
                if client.service_is_ready():
                    asked = client.call_async(SetBool.Request(data=True))
                    rclpy.spin_until_future_complete(arming, asked, timeout_sec=0.5)
                time.sleep(0.01)
        finally:
            up.send_signal(signal.SIGINT)
            up.wait(timeout=30.0)
    arming.destroy_node()
    rclpy.shutdown()
    if not peer.first_s:
        raise SystemExit(f"{driver}: no command came")
    return float(peer.first_s - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("drivers", nargs="*", default=list(DRIVERS), help=f"of {', '.join(DRIVERS)}")
    parser.add_argument("--seconds", type=float, default=20.0, help="of measuring; 0: none")
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--priority", type=int, default=0, help="real-time priority; 0: ordinary")
    options = parser.parse_args()
    os.environ.setdefault("ROS_DOMAIN_ID", str(1 + os.getpid() % 100))
    from rlstack.nodes.real_time import use_real_time_priority
    from rlstack.nodes.runtime import prepare_environment

    prepare_environment()
    if options.priority and (why := use_real_time_priority(options.priority)):
        raise SystemExit(why)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        for driver in options.drivers:
            policy = write_repeating_policy(Path(folder) / f"{driver}.onnx", *DRIVERS[driver][1:])
            if options.seconds:
                latency(driver, policy, options.seconds, options.priority)
            if options.starts:
                took = [first_command(driver, policy) for _ in range(options.starts)]
                print(
                    f"{driver}: `rlstack up deploy` to the first command: median {np.median(took):.2f} s,"
                    f" {min(took):.2f} to {max(took):.2f} s ({len(took)} starts)"
                )


if __name__ == "__main__":
    main()
