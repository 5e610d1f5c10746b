#!/usr/bin/env python3
"""Run the deployed chain (robot, guard and policy node) for long, and see what grows and what is late.

Two parts, each with the processes that `rlstack up deploy` starts:

- *endurance*: --robot-hours of the robot's time in lock step, as fast as the machine goes: time advances by one control
  period for each command that answers an observation, so every period has its observation, policy step, guard decision
  and command, only without waiting. Resident memory (RssAnon + RssShmem) and open file handles of each process, and
  the files in /dev/shm that it maps, are sampled every five seconds, from --settle seconds on.
- *real time*: --seconds in real time. A period is missed if no command that answers its observation has come before the
  next observation, as seen by a process of its own.

    python benchmarks/soak.py [--robot-hours 1] [--seconds 300] [--robot crazyflie] [--policy FILE]
        [--params-file FILE] [--json FILE]

The exit status is 1 if memory grows by more than 5 MiB, handles or files in /dev/shm grow, the guard takes over, or
0.1% of the periods or more are missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlstack.bringup.params_file import with_params_file
from rlstack.bringup.supervisor import Supervisor
from rlstack.bringup.system import chosen_robot, deploy_system
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.kind_signals import command_of
from rlstack.interfaces.messages import stamp_to_ns
from rlstack.nodes.executor import ControlExecutor
from rlstack.nodes.kind_topics import kind_topics
from rlstack.nodes.runtime import prepare_environment
from rlstack.nodes.shutdown import shut_down
from rlstack.resources import find_resource
from rlstack.robots import load_robot

SAMPLE_S, WAIT_S, STILL_S = 5.0, 90.0, 60.0
MEMORY_MIB, MISSED_PERCENT = 5.0, 0.1


@dataclass
class Usage:
    """What one process holds, at each sample."""

    memory_mib: list[float] = field(default_factory=list)
    handles: list[int] = field(default_factory=list)
    shared: list[int] = field(default_factory=list)

    def sample(self, pid: int) -> None:
        """Add what a process holds now."""
        self.memory_mib.append(memory_mib(pid))
        self.handles.append(handles(pid))
        self.shared.append(shared_files(pid))

    def row(self) -> dict[str, float]:
        """Return first and last values (medians of five samples) and the greatest growth above the first."""
        memory, handles = self.memory_mib, self.handles
        first, last = statistics.median(memory[:5]), statistics.median(memory[-5:])
        return {
            "memory_first_mib": first,
            "memory_last_mib": last,
            "memory_growth_mib": max(memory) - first,
            "handles_first": handles[0],
            "handles_last": handles[-1],
            "handles_most": max(handles),
            "shared_first": self.shared[0],
            "shared_most": max(self.shared),
            "samples": len(memory),
        }


class Listener:
    """Counts, from topics, what the chain does."""

    def __init__(self, robot: Any, namespace: str, periods: bool) -> None:
        import rclpy

        rclpy.init()
        self.node = rclpy.create_node("soak", namespace=namespace, start_parameter_services=False)
        self.executor = ControlExecutor()
        self.executor.add_node(self.node)
        self.modes: list[str] = []
        self.commands = 0
        """Commands that the robot node has counted: in lock step its control periods."""
        self.sent = self.late = 0
        self._waits_for: int | None = None
        latched, event = topics.quality("latched"), topics.quality("event")
        kind = kind_topics(robot)
        self.node.create_subscription(
            topics.type_of(topics.GUARD_MODE), topics.GUARD_MODE, lambda m: self.modes.append(m.data), latched
        )
        self.node.create_subscription(
            topics.type_of(topics.DIAGNOSTICS), topics.DIAGNOSTICS, self._on_diagnostics, event
        )
        if periods:
            for topic, serve, quality in (
                (kind.observed, self._on_observation, topics.quality("sensor_in")),
                (command_of(robot).topic, self._on_command, topics.quality("command")),
            ):
                self.node.create_subscription(topics.type_of(topic), topic, serve, quality)

    def _on_diagnostics(self, message: Any) -> None:
        for status in message.status:
            if status.name.endswith("/robot") or status.name == "robot":
                self.commands = max(self.commands, int({v.key: v.value for v in status.values}.get("commands", 0)))

    def _on_observation(self, message: Any) -> None:
        self.sent += 1
        self.late += self._waits_for is not None
        self._waits_for = stamp_to_ns(message.header.stamp)

    def _on_command(self, message: Any) -> None:
        if stamp_to_ns(message.header.stamp) == self._waits_for:
            self._waits_for = None

    def spin(self, seconds: float) -> None:
        """Serve the topics for a while."""
        end = time.monotonic() + seconds
        self.executor.spin_while(lambda: time.monotonic() < end)

    def close(self) -> None:
        """Leave ROS."""
        import rclpy

        self.executor.shutdown()
        shut_down(self.node)
        rclpy.try_shutdown()


def memory_mib(pid: int) -> float:
    """Return the resident memory of a process without files mapped from disk, such as libraries, MiB."""
    rows = [line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
    return sum(int(row[1]) for row in rows if row[0] in ("RssAnon:", "RssShmem:")) / 1024


def handles(pid: int) -> int:
    """Return the number of open file descriptors of a process."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def shared_files(pid: int) -> int:
    """Return how many files in /dev/shm a process maps."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return len({line.split(maxsplit=5)[5] for line in lines if "/dev/shm/" in line})


def run(robot: Any, policy: Path, options: argparse.Namespace, *, lock_step: bool) -> dict[str, Any]:
    """Run one part and return its figures."""
    space = f"/{robot.name}"
    system = deploy_system(policy, options.robot, "mujoco", namespace=space, lock_step=lock_step)
    system = with_params_file(system, options.params_file)
    lines: list[str] = []
    supervisor = Supervisor(system, log=lines.append)
    listener = Listener(robot, space, periods=not lock_step)
    names = [process.name for process in system.processes]
    usage = {name: Usage() for name in names}
    supervisor.start()
    try:
        begin = time.monotonic()
        while "policy" not in listener.modes:
            listener.spin(0.2)
            if supervisor.poll() is not None or time.monotonic() - begin > WAIT_S:
                raise UserError("The chain did not begin to fly: " + " ".join(lines[-3:]))
        listener.spin(options.settle)
        listener.modes[:] = listener.modes[-1:]
        listener.sent = listener.late = 0
        began, first, moved, last = time.monotonic(), listener.commands, time.monotonic(), -1
        wanted = options.robot_hours * 3600.0 * robot.control_rate_hz

        def is_done() -> bool:
            if lock_step:
                return listener.commands - first >= wanted
            return time.monotonic() - began >= options.seconds

        while not is_done():
            for name in names:
                usage[name].sample(supervisor.pid(name))
            listener.spin(SAMPLE_S if lock_step else min(SAMPLE_S, began + options.seconds - time.monotonic()))
            if listener.commands != last:
                last, moved = listener.commands, time.monotonic()
            if supervisor.poll() is not None or time.monotonic() - moved > STILL_S:
                raise UserError("The chain stopped: " + " ".join(lines[-3:]))
        took = time.monotonic() - began
        periods = listener.commands - first if lock_step else listener.sent
        return {
            "part": "endurance, lock step" if lock_step else "real time",
            "wall_s": took,
            "periods": periods,
            "robot_s": periods / robot.control_rate_hz,
            "modes": listener.modes,
            "missed_percent": None if lock_step else 100.0 * listener.late / max(listener.sent, 1),
            "processes": {name: used.row() for name, used in usage.items()},
        }
    finally:
        supervisor.close()
        listener.close()


def faults(part: dict[str, Any]) -> list[str]:
    """Return what is not as it must be, as sentences."""
    found = [
        f"{name} grew by {row['memory_growth_mib']:.1f} MiB"
        for name, row in part["processes"].items()
        if row["memory_growth_mib"] > MEMORY_MIB
    ]
    found += [
        f"{name} has {row[f'{what}_most'] - row[f'{what}_first']} more {text}"
        for name, row in part["processes"].items()
        for what, text in (("handles", "open files"), ("shared", "files in /dev/shm"))
        if row[f"{what}_most"] > row[f"{what}_first"]
    ]
    if part["modes"] != ["policy"]:
        found.append(f"the guard did not let the policy fly all the time ({', '.join(part['modes'])})")
    if part["missed_percent"] is not None and part["missed_percent"] >= MISSED_PERCENT:
        found.append(f"{part['missed_percent']:.2f}% of the periods were missed")
    return found


def show(part: dict[str, Any]) -> None:
    """Print one part."""
    print(
        f"{part['part']}: {part['periods']:,} periods, {part['robot_s']:.0f} s of the robot in {part['wall_s']:.0f} s"
    )
    if part["missed_percent"] is not None:
        print(f"  missed periods {part['missed_percent']:.3f}%")
    print(
        f"  {'process':<10}{'MiB first':>11}{'last':>8}{'growth':>8}{'handles':>9}{'most':>6}{'shared':>8}{'most':>6}"
    )
    for name, row in part["processes"].items():
        memory = f"{row['memory_first_mib']:>11.1f}{row['memory_last_mib']:>8.1f}{row['memory_growth_mib']:>8.2f}"
        held = f"{row['handles_first']:>9}{row['handles_most']:>6}{row['shared_first']:>8}{row['shared_most']:>6}"
        print(f"  {name:<10}{memory}{held}")


def main() -> int:
    """Run both parts and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot-hours", type=float, default=1.0, help="of the robot's time in lock step; 0: none")
    parser.add_argument("--seconds", type=float, default=300.0, help="in real time; 0: none")
    parser.add_argument("--settle", type=float, default=30.0, help="seconds before the first sample")
    parser.add_argument("--robot", default="")
    parser.add_argument("--policy", type=Path, help="default: the released quadrotor_hover")
    parser.add_argument("--params-file", default="", help="of the nodes, such as one with real-time priorities")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ.setdefault("ROS_DOMAIN_ID", str(1 + os.getpid() % 100))
    prepare_environment()
    policy = options.policy or find_resource("policies/quadrotor_hover/policy.onnx")
    if policy is None:
        raise SystemExit("There is no released policy: give one with --policy.")
    options.robot = chosen_robot(policy, options.robot)
    robot = load_robot(options.robot)
    parts, wrong = [], []
    try:
        if options.robot_hours:
            parts.append(run(robot, policy, options, lock_step=True))
            show(parts[-1])
        if options.seconds:
            parts.append(run(robot, policy, options, lock_step=False))
            show(parts[-1])
    except UserError as error:
        raise SystemExit(str(error)) from error
    wrong = [fault for part in parts for fault in faults(part)]
    if options.json:
        machine = {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()}
        record = {"machine": {**machine, "load": os.getloadavg()}, "settle_s": options.settle}
        options.json.write_text(json.dumps({**record, "parts": parts, "faults": wrong}, indent=2) + "\n")
    for fault in wrong:
        print(f"fault: {fault}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
