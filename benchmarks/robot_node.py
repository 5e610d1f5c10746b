"""What the robot node keeps up with over topics: in real time, in lock step, and with many robots in one world.

    python benchmarks/robot_node.py [--seconds 20] [--runs 3] [--backend mujoco] [--fleet 16] [--policy FILE]
                                    [--first] [--json FILE]

Three things are measured, each as the median of several runs, by a process other than the robot node's:

- *real time*: one Crazyflie whose control, odometry and IMU all run at 500 Hz, hovering; the times between arrivals of
  its messages, less 2 ms, and simulated over real time.
- *lock step*: one Crazyflie through the policy and the guard node, three processes, at 100 Hz of control.
- *fleet*: N Crazyflies in one simulation at 100 Hz of control, their IMUs unheard, each hovering under a controller of
  :mod:`rlstack.control.hover`; all N controllers are in one process beside the robot node's.

`--first` runs all that is measured ahead of whatever else this machine does (``chrt -r 1``, which needs the right).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.robots import frames

SETTLE_S = 3.0
WAIT_S = 60.0
TICKS = os.sysconf("SC_CLK_TCK")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="of measuring, in each run")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--backend", default="mujoco", help="of one robot")
    parser.add_argument("--fleet-backend", default="pybullet")
    parser.add_argument("--fleet", type=int, default=16, help="robots in one world")
    parser.add_argument("--policy", type=Path, help="policy for the Crazyflie; left out: the one in the repository")
    parser.add_argument("--first", action="store_true", help="ahead of other processes: chrt -r 1")
    parser.add_argument("--only", choices=("real time", "lock step", "fleet"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ.setdefault("ROS_DOMAIN_ID", str(1 + os.getpid() % 100))
    if options.first:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))  # type: ignore[attr-defined]  # Linux; inherited
    from rlstack.nodes.runtime import prepare_environment

    prepare_environment()
    measures = {"real time": real_time, "lock step": lock_step, "fleet": fleet}
    rows: dict[str, dict[str, float]] = {}
    for name, measure in measures.items():
        if options.only in (None, name):
            runs = [measure(options) for _ in range(options.runs)]
            rows[name] = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"median of {options.runs} runs of {options.seconds:g} s; {os.cpu_count()} cores, load average {load}")
    for name, row in rows.items():
        print(f"{name}:")
        for key, value in row.items():
            print(f"  {key:<58}{value:>10.3f}")
    if options.json:
        machine = {"processor": platform.processor(), "cores": os.cpu_count(), "load": os.getloadavg()}
        options.json.write_text(json.dumps({"machine": machine, "seconds": options.seconds, **rows}, indent=2) + "\n")
    return 0


class Node:
    """One of rlstack's nodes in a process of its own."""

    def __init__(self, kind: str, **parameters: Any) -> None:
        words = [word for name, value in parameters.items() for word in ("-p", f"{name}:={value}")]
        self.process = subprocess.Popen([sys.executable, "-m", f"rlstack.nodes.{kind}", "--ros-args", *words])

    def cpu_s(self) -> float:
        """Processor time of all its threads so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def close(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=20.0)


class Ear:
    """Listens, and may answer, in this process."""

    def __init__(self) -> None:
        import rclpy

        from rlstack.nodes.executor import ControlExecutor

        self.context = rclpy.Context()
        rclpy.init(context=self.context)
        self.node = rclpy.create_node("ear", context=self.context, enable_rosout=False, start_parameter_services=False)
        self.executor = ControlExecutor(context=self.context)
        self.executor.add_node(self.node)

    def spin(self, seconds: float, until: Any = None) -> None:
        end = time.monotonic() + seconds
        self.executor.spin_while(lambda: time.monotonic() < end and not (until is not None and until()))
        if until is not None and not until():
            raise SystemExit(f"Nothing came within {seconds:g} s.")

    def close(self) -> None:
        import rclpy

        self.executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self.context)


class Hovering:
    """Answers a robot's odometry with the commands of a hover controller, and notes when it came."""

    def __init__(self, ear: Ear, robot: Any, prefix: str = "") -> None:
        from rlstack.control.hover import HoverController
        from rlstack.interfaces import topics
        from rlstack.interfaces.messages import RotorMessage
        from rlstack.interfaces.signal_reader import SignalReader
        from rlstack.interfaces.signals import SENSED

        names = ("position", "orientation", "linear_velocity", "angular_velocity")
        odometry, command = topics.type_of(topics.ODOM), topics.type_of(topics.ROTOR_COMMAND)
        self._read = SignalReader(odometry, {name: SENSED[name].field for name in names})
        self._controller, self._robot = HoverController(robot), robot
        self._message = RotorMessage(command(), robot.rotor_names)
        quality = topics.quality("command")
        self._sender = ear.node.create_publisher(command, f"{prefix}{topics.ROTOR_COMMAND}", quality)
        self._goal: Any = None
        self.stamps: list[int] = []
        self.arrivals: list[int] = []
        self.last: Any = None
        quality = topics.quality("sensor_in_reliable")
        ear.node.create_subscription(odometry, f"{prefix}{topics.ODOM}", self._hear, quality, raw=True)

    def _hear(self, data: bytes) -> None:
        now = time.perf_counter_ns()
        stamp, s = self._read(data)
        if self._goal is None:
            self._goal = s["position"].copy()
            self._controller.reset()
        self.stamps.append(stamp)
        self.arrivals.append(now)
        self.last = s["position"]
        sent = self._controller.command(
            s["position"],
            s["orientation"],
            frames.rotate(s["orientation"], s["linear_velocity"]),
            s["angular_velocity"],
            self._goal,
            0.0,
            1.0 / self._robot.control_rate_hz,
        )
        self._sender.publish(self._message.fill(stamp, np.asarray(sent)))

    def away_m(self) -> float:
        """How far from its goal it is."""
        return float(np.linalg.norm(self.last - self._goal))


def real_time(options: argparse.Namespace) -> dict[str, float]:
    """One robot, everything at 500 Hz."""
    from rlstack.interfaces import topics
    from rlstack.kinds.quadrotor.spec import load_quadrotor

    with tempfile.TemporaryDirectory() as folder:
        file = fast_robot(Path(folder), 500.0)
        node, ear = Node("robot", robot=file, backend=options.backend, start_height_m=1.0), Ear()
        pilot, imu = Hovering(ear, load_quadrotor(file)), []
        ear.node.create_subscription(
            topics.type_of(topics.IMU),
            topics.IMU,
            lambda data: imu.append(time.perf_counter_ns()),
            topics.quality("sensor_in_reliable"),
            raw=True,
        )
        ear.spin(WAIT_S, lambda: len(pilot.stamps) > 10)
        ear.spin(SETTLE_S)
        for kept in (pilot.stamps, pilot.arrivals, imu):
            kept.clear()
        cpu, begin = node.cpu_s(), time.perf_counter()
        ear.spin(options.seconds)
        used, passed = node.cpu_s() - cpu, time.perf_counter() - begin
        away = pilot.away_m()
        node.close()
        ear.close()
    late = np.abs(np.diff(pilot.arrivals) * 1e-6 - 2.0)
    late_imu = np.abs(np.diff(imu) * 1e-6 - 2.0)
    return {
        "real-time factor": (pilot.stamps[-1] - pilot.stamps[0]) / (pilot.arrivals[-1] - pilot.arrivals[0]),
        "odometry, messages a second": len(pilot.stamps) / passed,
        "odometry, jitter p50, ms": float(np.percentile(late, 50)),
        "odometry, jitter p99, ms": float(np.percentile(late, 99)),
        "odometry, jitter max, ms": float(late.max()),
        "IMU, messages a second": len(imu) / passed,
        "IMU, jitter p99, ms": float(np.percentile(late_imu, 99)),
        "robot node, share of a core": used / passed,
        "distance from the goal at the end, m": away,
    }


def lock_step(options: argparse.Namespace) -> dict[str, float]:
    """Robot, guard and policy, three processes."""
    from rlstack.interfaces import topics
    from rlstack.interfaces.messages import stamp_to_ns

    policy = options.policy or Path(__file__).parents[1] / "policies" / "quadrotor_foundation" / "policy.onnx"
    robot = "crazyflie"
    nodes = [
        Node("robot", backend=options.backend, robot=robot, lock_step="true"),
        Node("guard", robot=robot, lock_step="true", auto_arm="true"),
        Node("policy", policy=policy, robot=robot, lock_step="true", goal_position="[0.0, 0.0, 1.0]"),
    ]
    ear, heard, modes = Ear(), [], []
    ear.node.create_subscription(
        topics.type_of(topics.GUARD_MODE), topics.GUARD_MODE, lambda m: modes.append(m.data), topics.quality("latched")
    )
    # once in a while: to listen to every message would take from the processor what is measured
    clock = ear.node.create_subscription(topics.type_of(topics.ODOM), topics.ODOM, heard.append, 1)
    ear.spin(WAIT_S, lambda: modes[-1:] == ["policy"])
    ear.node.destroy_subscription(clock)

    def now() -> tuple[float, float]:
        kept: list[Any] = []
        one = ear.node.create_subscription(topics.type_of(topics.ODOM), topics.ODOM, kept.append, 1)
        ear.spin(WAIT_S, lambda: bool(kept))
        stamp, at = stamp_to_ns(kept[0].header.stamp), time.perf_counter_ns()
        ear.node.destroy_subscription(one)
        return stamp * 1e-9, at * 1e-9

    before_s, begin_s = now()
    cpu = [node.cpu_s() for node in nodes]
    time.sleep(options.seconds)
    after_s, end_s = now()
    used = [node.cpu_s() - was for node, was in zip(nodes, cpu)]
    ear.close()
    for node in nodes:
        node.close()
    passed = end_s - begin_s
    return {
        "simulated over real time": (after_s - before_s) / passed,
        "control period, ms": 10.0 * passed / (after_s - before_s),
        **{
            f"{name}, CPU ms a period": 10.0 * u / (after_s - before_s)
            for name, u in zip(("robot", "guard", "policy"), used)
        },
    }


def fleet(options: argparse.Namespace) -> dict[str, float]:
    """Many robots in one simulation."""
    from rlstack.kinds.quadrotor.spec import load_quadrotor

    robot = load_quadrotor("crazyflie")
    node = Node("robot", backend=options.fleet_backend, count=options.fleet, start_height_m=1.0)
    ear = Ear()
    pilots = [Hovering(ear, robot, f"crazyflie{k + 1}/" if options.fleet > 1 else "") for k in range(options.fleet)]
    ear.spin(WAIT_S, lambda: all(len(pilot.stamps) > 10 for pilot in pilots))
    ear.spin(SETTLE_S)
    for pilot in pilots:
        pilot.stamps.clear()
        pilot.arrivals.clear()
    cpu, own, begin = node.cpu_s(), time.process_time(), time.perf_counter()
    ear.spin(options.seconds)
    used, own, passed = node.cpu_s() - cpu, time.process_time() - own, time.perf_counter() - begin
    node.close()
    ear.close()
    factors = [(p.stamps[-1] - p.stamps[0]) / (p.arrivals[-1] - p.arrivals[0]) for p in pilots]
    return {
        "robots": float(options.fleet),
        "real-time factor": min(factors),
        "odometry of each, messages a second, least": min(len(p.stamps) for p in pilots) / passed,
        "odometry, jitter p99, ms": float(np.percentile(np.abs(np.diff(pilots[0].arrivals) * 1e-6 - 10.0), 99)),
        "robot node, share of a core": used / passed,
        "the controllers' process, share of a core": own / passed,
        "farthest from its goal at the end, m": max(pilot.away_m() for pilot in pilots),
    }


def fast_robot(folder: Path, rate_hz: float) -> Path:
    """Write the Crazyflie's file with another rate of control, odometry and IMU."""
    import yaml

    from rlstack.robots.spec import robot_files

    data = yaml.safe_load(robot_files()["crazyflie"].read_text())
    data["control_rate_hz"] = rate_hz
    for topic in ("odom", "imu"):
        data["sensors"][topic]["rate_hz"] = rate_hz
    path = folder / "crazyflie.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


if __name__ == "__main__":
    raise SystemExit(main())
