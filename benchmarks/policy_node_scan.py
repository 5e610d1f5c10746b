"""What a base's policy node and guard node cost: scans and odometry in, twists out, as a share of one core.

    python benchmarks/policy_node_scan.py [--seconds 20] [--scan-rate 20] [--odometry-rate 20] [--policy FILE]

A process of its own publishes a lidar's scans, with noise, dropouts and nothing within reach in places, and odometry;
policy and guard run as they are deployed, each in its own process. Their processor time, user and system, all threads,
is what the kernel counts (`/proc/PID/stat`) from when both have settled. The policy is a 128-128 network on scan,
odometry and goal that steps at 10 Hz, unless a file is given.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

SETTLE_S = 3.0
WAIT_S = 30.0
TICKS = os.sysconf("SC_CLK_TCK")
INPUTS = ("position", "orientation", "linear_velocity", "angular_velocity", "scan", "goal_position")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="of measuring")
    parser.add_argument("--scan-rate", type=float, default=20.0, help="scans a second, Hz")
    parser.add_argument("--odometry-rate", type=float, default=20.0, help="odometry messages a second, Hz")
    parser.add_argument("--policy-rate", type=float, default=10.0, help="of the network that is made, Hz")
    parser.add_argument("--robot", default="turtlebot3_burger", help="a base with a lidar called scan")
    parser.add_argument("--policy", type=Path, help="policy file for the robot; default: a 128-128 network")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    options = parser.parse_args()
    os.environ.setdefault("ROS_DOMAIN_ID", str(1 + os.getpid() % 100))
    from rlstack.nodes.runtime import prepare_environment
    from rlstack.robots import load_robot

    prepare_environment()
    robot = load_robot(options.robot)
    with tempfile.TemporaryDirectory() as folder:
        policy = options.policy or write_network(Path(folder) / "network.onnx", robot, options.policy_rate)
        processes = {
            "policy": start("policy", policy=policy, robot=robot.name, goal_position="[3.0, 0.0, 0.0]"),
            "guard": start("guard", robot=robot.name, auto_arm="true", staleness_s=5.0),
        }
        try:
            commands, used = measure(robot, options, {name: p.pid for name, p in processes.items()})
        finally:
            for process in processes.values():
                process.send_signal(signal.SIGINT)
            for process in processes.values():
                process.wait(timeout=10.0)
    rays, rate = robot.lidars["scan"].rays, options.scan_rate
    print(f"{rays} rays at {rate:g} Hz, odometry at {options.odometry_rate:g} Hz, {options.seconds:g} s;", machine())
    print(f"commands came at {commands:.1f} Hz")
    print(f"{'node':<10}{'% of one core':>14}{'us per scan':>14}")
    for name, share in used.items():
        print(f"{name:<10}{100.0 * share:>14.2f}{1e6 * share / rate:>14.0f}")
    if options.json:
        figures = {"machine": machine(), "rays": rays, "scan_rate_hz": rate, "commands_hz": commands, "cores": used}
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


def start(kind: str, **parameters: Any) -> subprocess.Popen[bytes]:
    arguments = [word for name, value in parameters.items() for word in ("-p", f"{name}:={value}")]
    return subprocess.Popen([sys.executable, "-m", f"rlstack.nodes.{kind}", "--ros-args", *arguments])


def measure(robot: Any, options: argparse.Namespace, pids: dict[str, int]) -> tuple[float, dict[str, float]]:
    """Publish; return how many commands came in a second, and the share of a core that each process used."""
    import rclpy

    from rlstack.interfaces import topics
    from rlstack.interfaces.messages import OdometryMessage
    from rlstack.interfaces.scan_messages import ScanMessage
    from rlstack.nodes.executor import ControlExecutor

    rclpy.init()
    node = rclpy.create_node("robot", start_parameter_services=False, enable_rosout=False)
    quality, lidar = topics.quality("sensor_out"), robot.lidars["scan"]
    odometry = OdometryMessage(topics.type_of(topics.ODOM)(), topics.WORLD_FRAME, topics.BODY_FRAME)
    scan = ScanMessage(topics.message_type(topics.SCAN_TYPE)(), "scan_link", lidar)
    scans = room_scans(lidar)
    odom_out = node.create_publisher(topics.type_of(topics.ODOM), topics.ODOM, quality)
    scan_out = node.create_publisher(topics.message_type(topics.SCAN_TYPE), topics.SCAN, quality)
    came: list[float] = []
    kind = topics.type_of(topics.TWIST_COMMAND)
    node.create_subscription(
        kind, topics.TWIST_COMMAND, lambda message: came.append(time.monotonic()), topics.quality("command")
    )
    still, upright = np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0])
    count = 0

    def send_scan() -> None:
        nonlocal count
        count += 1
        scan_out.publish(scan.fill(time.time_ns(), scans[count % len(scans)]))

    node.create_timer(1.0 / options.scan_rate, send_scan)
    node.create_timer(
        1.0 / options.odometry_rate,
        lambda: odom_out.publish(odometry.fill(time.time_ns(), still, upright, still, still)),
    )
    executor = ControlExecutor()
    executor.add_node(node)

    def spin_while(go_on: Any, seconds: float) -> None:
        end = time.monotonic() + seconds
        executor.spin_while(lambda: go_on() and time.monotonic() < end)

    spin_while(lambda: not came, WAIT_S)
    if not came:
        raise SystemExit("No command came: look at the nodes' lines above.")
    spin_while(lambda: True, SETTLE_S)
    began, before = time.monotonic(), {name: processor_s(pid) for name, pid in pids.items()}
    came.clear()
    spin_while(lambda: True, options.seconds)
    passed = time.monotonic() - began
    used = {name: (processor_s(pid) - before[name]) / passed for name, pid in pids.items()}
    executor.shutdown()
    node.destroy_node()
    rclpy.shutdown()
    return len(came) / passed, used


def processor_s(pid: int) -> float:
    """Return the processor time of a process so far, s."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS


def room_scans(lidar: Any) -> list[np.ndarray]:
    """Return scans (rays,) of a room of 4 by 5 m with a door: noisy, 1% of rays not measured."""
    random = np.random.default_rng(0)
    angles = lidar.angles_rad
    with np.errstate(divide="ignore"):
        walls = np.minimum(2.0 / np.abs(np.cos(angles)), 2.5 / np.abs(np.sin(angles)))
    walls[np.abs(angles - 1.0) < 0.2] = np.inf
    walls[walls > lidar.range_max_m] = np.inf
    noisy = [walls + random.normal(0.0, 0.01, walls.shape) for _ in range(16)]
    return [np.where(random.random(walls.shape) < 0.01, np.nan, one).astype(np.float32) for one in noisy]


def write_network(path: Path, robot: Any, rate_hz: float) -> Path:
    """Write a 128-128 network of random weights as a policy file."""
    from onnx import TensorProto, helper, numpy_helper

    from rlstack.policies import contract_for, write_policy

    contract = contract_for(robot, INPUTS, ("twist",), name="network", task="benchmark", rate_hz=rate_hz)
    random = np.random.default_rng(0)
    sizes = [sum(port.shape[0] for port in contract.inputs), 128, 128, 2]  # type: ignore[misc]
    constants = {"most": np.array(contract.outputs[0].maximum, dtype=np.float32)}
    nodes, now = [helper.make_node("Concat", [p.name for p in contract.inputs], ["x0"], axis=1)], "x0"
    for k, (taken, given) in enumerate(pairwise(sizes)):
        constants[f"w{k}"] = (random.normal(size=(taken, given)) / np.sqrt(taken)).astype(np.float32)
        nodes.append(helper.make_node("MatMul", [now, f"w{k}"], [f"y{k}"]))
        nodes.append(helper.make_node("Tanh", [f"y{k}"], [f"x{k + 1}"]))
        now = f"x{k + 1}"
    nodes.append(helper.make_node("Mul", [now, "most"], ["twist"]))
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info(p.name, TensorProto.FLOAT, ["batch", *p.shape]) for p in contract.inputs],
        [helper.make_tensor_value_info("twist", TensorProto.FLOAT, ["batch", 2])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    write_policy(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), contract, path)
    return path


def machine() -> str:
    model = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), ":")
    return f"{model.partition(':')[2].strip()}, Linux {platform.release()}, Python {platform.python_version()}"


if __name__ == "__main__":
    raise SystemExit(main())
