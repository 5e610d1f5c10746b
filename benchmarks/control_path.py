"""How long a command takes: sensor message in to command message out, through the policy and the guard node.

    python benchmarks/control_path.py [--seconds 60] [--rate 500] [--policy FILE] [--priority 60] [--json FILE]

A process of its own sends odometry at a fixed rate and takes the commands, as a robot node would; the policy and the
guard run as they are deployed. In the same run a bare ring of three rclpy processes does the same with nothing in
between: one publishes Odometry, the next answers with a JointState, the third passes it back.
With --priority all of them, the ring's too, run at that real-time priority (the nodes' parameter real_time_priority).
A period counts as missed when no command that answers its observation has come before the next period.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

SETTLE_S = 2.0
WAIT_S = 30.0


@dataclass(frozen=True)
class Figures:
    """One row of the table, times in ms."""

    path: str
    messages: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    missed_percent: float


def main() -> int:
    if sys.argv[1:2] == ["--relay"]:
        return relay(sys.argv[2], sys.argv[3])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="of measuring, for each path")
    parser.add_argument("--rate", type=float, default=500.0, help="observations a second, Hz")
    parser.add_argument("--policy", type=Path, help="policy file for the Crazyflie; default: a 64-64 network")
    parser.add_argument("--priority", type=int, default=0, help="real-time priority of all processes; 0: ordinary")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    options = parser.parse_args()
    os.environ.setdefault("ROS_DOMAIN_ID", str(1 + os.getpid() % 100))
    from rlstack.nodes.runtime import prepare_environment

    prepare_environment()
    from rlstack.nodes.real_time import use_real_time_priority

    if options.priority and (why := use_real_time_priority(options.priority)):  # its children inherit it
        raise SystemExit(why)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        robot = fast_robot(Path(folder), options.rate)
        policy = options.policy or write_network(Path(folder) / "network.onnx", robot)
        fast = {"real_time_priority": options.priority} if options.priority else {}
        systems = {
            "bare ring, 3 processes, rclpy's executor": [
                [sys.executable, __file__, "--relay", "odom", "middle"],
                [sys.executable, __file__, "--relay", "middle", "cmd/rotors"],
            ],
            "policy node and guard node, 2 processes": [
                node("policy", policy=policy, robot=robot, goal_position="[0.0, 0.0, 1.0]", **fast),
                # On a busy machine the policy is late at times; its path is what is measured, not the fallback.
                node("guard", robot=robot, auto_arm="true", staleness_periods=50.0, frozen_observations=0, **fast),
            ],
        }
        for name, commands in systems.items():
            processes = [subprocess.Popen(command) for command in commands]
            try:
                rows.append(measure(name, options.rate, options.seconds, bare="bare" in name))
            finally:
                for process in processes:
                    process.send_signal(signal.SIGINT)
                for process in processes:
                    process.wait(timeout=10.0)
    print_table(rows, options)
    if options.json:
        record = {"rate_hz": options.rate, "seconds": options.seconds, "machine": machine()}
        options.json.write_text(json.dumps({**record, "paths": [asdict(row) for row in rows]}, indent=2) + "\n")
    return 0


def node(kind: str, **parameters: Any) -> list[str]:
    arguments = [word for name, value in parameters.items() for word in ("-p", f"{name}:={value}")]
    return [sys.executable, "-m", f"rlstack.nodes.{kind}", "--ros-args", *arguments]


def measure(name: str, rate_hz: float, seconds: float, bare: bool) -> Figures:
    """Send observations and take commands; return the figures after a time to settle."""
    import rclpy
    from rclpy.executors import SingleThreadedExecutor

    from rlstack.interfaces import topics
    from rlstack.interfaces.messages import OdometryMessage, set_stamp, stamp_to_ns
    from rlstack.nodes.executor import ControlExecutor

    rclpy.init()
    robot = rclpy.create_node("robot", start_parameter_services=False, enable_rosout=False)
    odometry = OdometryMessage(topics.type_of(topics.ODOM)(), topics.WORLD_FRAME, topics.BODY_FRAME)
    still = np.zeros(3)
    message = odometry.fill(0, np.array([0.0, 0.0, 1.0]), np.array([0.0, 0.0, 0.0, 1.0]), still, still)
    publisher = robot.create_publisher(topics.type_of(topics.ODOM), topics.ODOM, topics.quality("sensor_out"))
    period_ns = round(1e9 / rate_hz)
    sent: dict[int, int] = {}
    latency: dict[int, int] = {}

    def send() -> None:
        stamp = time.time_ns()
        set_stamp(message.header.stamp, stamp)
        sent[stamp] = time.perf_counter_ns()
        publisher.publish(message)

    modes: list[str] = []

    def receive(command: Any) -> None:
        stamp = stamp_to_ns(command.header.stamp)
        if stamp in sent:
            latency.setdefault(stamp, time.perf_counter_ns() - sent[stamp])

    command = topics.type_of(topics.ROTOR_COMMAND)
    robot.create_subscription(command, topics.ROTOR_COMMAND, receive, topics.quality("command"))
    robot.create_timer(1.0 / rate_hz, send)
    if not bare:
        mode = topics.type_of(topics.GUARD_MODE)
        robot.create_subscription(
            mode, topics.GUARD_MODE, lambda message: modes.append(message.data), topics.quality("latched")
        )
    executor: Any = SingleThreadedExecutor() if bare else ControlExecutor()
    executor.add_node(robot)

    def spin_for(duration_s: float, until_answered: bool = False) -> None:
        end = time.monotonic() + duration_s

        def go_on() -> bool:
            return time.monotonic() < end and not (until_answered and latency)

        if bare:
            while go_on():
                executor.spin_once(timeout_sec=0.1)
        else:
            executor.spin_while(go_on)

    spin_for(WAIT_S, until_answered=True)
    if not latency:
        raise SystemExit(f"{name}: no command came within {WAIT_S:g} s.")
    spin_for(SETTLE_S)
    sent.clear()
    latency.clear()
    modes[:] = modes[-1:]
    gc.collect()
    gc.freeze()
    spin_for(seconds)
    if not bare and modes != ["policy"]:
        raise SystemExit(f"{name}: the guard did not let the policy fly all the time (modes: {', '.join(modes)}).")
    considered = list(sent)[: int(rate_hz * seconds) - 10] or list(sent)  # the last ones are still under way
    executor.shutdown()
    robot.destroy_node()
    rclpy.shutdown()
    answered = np.array([latency[stamp] for stamp in considered if stamp in latency]) * 1e-6
    in_time = int((answered <= 1e-6 * period_ns).sum())
    p50, p99 = np.percentile(answered, [50, 99])
    missed = 100.0 * (1.0 - in_time / len(considered))
    return Figures(name, len(considered), float(p50), float(p99), float(answered.max()), missed)


def relay(source: str, target: str) -> int:
    """One process of the bare ring."""
    import rclpy
    from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor

    from rlstack.interfaces import topics
    from rlstack.interfaces.messages import RotorMessage, stamp_to_ns

    rclpy.init()
    ring = rclpy.create_node(f"relay_{source}")
    command = topics.type_of(topics.ROTOR_COMMAND)
    publisher = ring.create_publisher(command, target, topics.quality("command"))
    message, speed = RotorMessage(command(), ["m1", "m2", "m3", "m4"]), np.full(4, 1500.0)

    def answer(received: Any) -> None:
        publisher.publish(message.fill(stamp_to_ns(received.header.stamp), speed))

    kind = topics.type_of(topics.ODOM) if source == topics.ODOM else command
    quality = topics.quality("sensor_in" if source == topics.ODOM else "command")
    ring.create_subscription(kind, source, answer, quality)
    executor = SingleThreadedExecutor()
    executor.add_node(ring)
    gc.collect()
    gc.freeze()
    try:
        executor.spin()
    except (KeyboardInterrupt, ExternalShutdownException):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    executor.shutdown()
    rclpy.try_shutdown()
    return 0


def fast_robot(folder: Path, rate_hz: float) -> Path:
    """Write the Crazyflie's file with another control rate."""
    import yaml

    from rlstack.robots.spec import robot_files

    data = yaml.safe_load(robot_files()["crazyflie"].read_text())
    data["control_rate_hz"] = rate_hz
    path = folder / "crazyflie.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def write_network(path: Path, robot_file: Path) -> Path:
    """Write a policy of the size that flies a quadrotor, with random weights, whose commands stay near hover."""
    from onnx import TensorProto, helper, numpy_helper

    from rlstack.kinds.quadrotor.spec import load_quadrotor
    from rlstack.policies import contract_for, write_policy

    robot = load_quadrotor(robot_file)
    contract = contract_for(
        robot,
        ["position", "orientation", "linear_velocity", "angular_velocity", "goal_position"],
        ["rotor_speed"],
        name="network",
        task="benchmark",
    )
    random, sizes = np.random.default_rng(0), [16, 64, 64, 4]
    weights = {f"w{i}": random.normal(0.0, 0.3, shape) for i, shape in enumerate(itertools.pairwise(sizes))}
    weights |= {"span": np.array(0.02 * robot.hover_speed_rad_s), "middle": np.array(robot.hover_speed_rad_s)}
    nodes = [helper.make_node("Concat", [port.name for port in contract.inputs], ["h0"], axis=1)]
    for i in range(3):
        nodes.append(helper.make_node("MatMul", [f"h{i}", f"w{i}"], [f"z{i}"]))
        nodes.append(helper.make_node("Tanh", [f"z{i}"], [f"h{i + 1}"]))
    nodes.append(helper.make_node("Mul", ["h3", "span"], ["change"]))
    nodes.append(helper.make_node("Add", ["change", "middle"], ["rotor_speed"]))
    ports = [
        [helper.make_tensor_value_info(p.name, TensorProto.FLOAT, ["batch", *p.shape]) for p in side]
        for side in (contract.inputs, contract.outputs)
    ]
    constants = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "network", ports[0], ports[1], constants)
    write_policy(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), contract, path)
    return path


def machine() -> dict[str, Any]:
    return {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()}


def print_table(rows: list[Figures], options: argparse.Namespace) -> None:
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{options.rate:g} Hz for {options.seconds:g} s each; {os.cpu_count()} cores, load average {load}")
    print(f"{'observation in to command out':<44}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}{'missed %':>10}")
    for row in rows:
        figures = f"{row.p50_ms:>9.3f}{row.p99_ms:>9.3f}{row.max_ms:>9.2f}{row.missed_percent:>10.2f}"
        print(f"{row.path:<44}{figures}")


if __name__ == "__main__":
    raise SystemExit(main())
