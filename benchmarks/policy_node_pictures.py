"""How fast a policy that sees runs over topics: two cameras and joint states in, joint commands out, on one core.

    python benchmarks/policy_node_pictures.py [--sizes 84 128] [--rates 20 40] [--seconds 20] [--policy FILE]

A process of its own publishes a Panda's joint states at 100 Hz and two cameras' pictures at a rate of their own, as a
robot node does; policy and guard run as they are deployed. All three are bound to one core. Latency is from publishing
the joint states to the arrival of the command that answers them, through the guard. Each node's processor time is what
the kernel counts (`/proc/PID/stat`). Unless a file is given, the policy is the network that arm_pick_place_camera
trains, in its graph as the exporter writes it for 20 Hz, with the weights that training begins with: what it commands
is of no use, what it computes is all of it. The guard waits longer than it does otherwise, so that on a busy machine
the path is measured and not the guard.
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
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

_HEADS = {
    "pixels": 7,
    "policy Hz": 10,
    "commands Hz": 12,
    "p50 ms": 8,
    "p99 ms": 8,
    "max ms": 8,
    "policy": 8,
    "guard": 7,
}
_PATIENT = {"staleness_s": 5.0, "observation_timeout_s": 5.0, "policy_timeout_s": 5.0}
SETTLE_S, WAIT_S, PERIOD_S = 3.0, 60.0, 0.01
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Figures:
    """One row of the table."""

    pixels: int
    rate_hz: float
    commands_hz: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    policy_core: float
    guard_core: float
    modes: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[84, 128], help="of the pictures, pixels to a side")
    parser.add_argument("--rates", type=float, nargs="+", default=[20.0, 50.0], help="of the policy, Hz")
    parser.add_argument("--camera-rate", type=float, default=30.0, help="of each of the two cameras, Hz")
    parser.add_argument("--seconds", type=float, default=20.0, help="of measuring, for each")
    parser.add_argument("--cores", type=int, default=1, help="that all processes share")
    parser.add_argument("--keep", type=Path, help="folder for the policies that are made; those there are used again")
    parser.add_argument("--policy", type=Path, help="policy file for the Panda with a camera or two, instead")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    options = parser.parse_args()
    os.environ.setdefault("ROS_DOMAIN_ID", str(1 + os.getpid() % 100))
    from rlstack.nodes.runtime import prepare_environment

    prepare_environment()
    rows, load = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = options.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        for pixels in options.sizes if options.policy is None else [0]:
            for rate_hz in options.rates if options.policy is None else [0.0]:
                robot_file, policy = options.policy and "panda", options.policy
                if policy is None:
                    robot_file, policy = written(folder, pixels)
                    policy = at_rate(policy, robot_file, rate_hz)
                load.append(os.getloadavg()[0])
                rows.append(measured(str(robot_file), policy, options))
    print(
        f"cameras at {options.camera_rate:g} Hz, joint states at 100 Hz, {options.seconds:g} s, {options.cores} core;"
    )
    print(f"{machine()}; load before each: {', '.join(f'{one:.1f}' for one in load)}")
    print("".join(f"{head:>{width}}" for head, width in _HEADS.items()))
    for row in rows:
        print(
            f"{row.pixels:>7}{row.rate_hz:>10g}{row.commands_hz:>12.2f}{row.p50_ms:>8.1f}{row.p99_ms:>8.1f}"
            f"{row.max_ms:>8.1f}{100.0 * row.policy_core:>7.1f}%{100.0 * row.guard_core:>6.1f}%  guard: {row.modes}"
        )
    if options.json:
        record = {"machine": machine(), "load": load, "cores": options.cores, "camera_rate_hz": options.camera_rate}
        options.json.write_text(json.dumps({**record, "rows": [asdict(row) for row in rows]}, indent=2) + "\n")
    return 0


def at_rate(policy: Path, robot_file: Path, rate_hz: float) -> Path:
    """Write the policy once more, to be stepped at another rate."""
    import onnx

    from rlstack.policies import load_policy, write_policy
    from rlstack.robots import load_robot

    path = policy.with_name(f"{policy.stem}_{rate_hz:g}.onnx")
    contract = replace(load_policy(policy, robot=load_robot(robot_file)).contract, rate_hz=rate_hz)
    model = onnx.load(policy)
    del model.metadata_props[:]
    write_policy(model, contract, path)
    return path


def written(folder: Path, pixels: int) -> tuple[Path, Path]:
    """Write a Panda whose pictures have so many pixels to a side, and an untrained policy for it."""
    stem = folder / f"panda_{pixels}"
    if stem.with_suffix(".yaml").is_file():
        return stem.with_suffix(".yaml"), stem.with_suffix(".onnx")
    import torch
    import yaml

    from rlstack import schema
    from rlstack.kinds.manipulator.spec import Manipulator
    from rlstack.robots import load_robot
    from rlstack.tasks.catalog.arm_pick_place_camera import CameraPickPlaceTask
    from rlstack.training.algorithms.bc import Cloner
    from rlstack.training.algorithms.bc_camera import BCCameraSettings
    from rlstack.training.export import PolicyGraph, export_policy, make_contract
    from rlstack.training.vision_encoder import Encoder, VisionActor, split_of

    torch.manual_seed(0)
    panda = load_robot("panda")
    cameras = {name: replace(camera, width=pixels, height=pixels) for name, camera in panda.cameras.items()}
    robot = replace(panda, cameras=cameras)
    assert isinstance(robot, Manipulator)
    task, settings = CameraPickPlaceTask(), BCCameraSettings()
    pipeline, look = task.pipeline(robot), settings.encoder
    split = split_of(pipeline, "bc_camera")
    encoder = Encoder(split, look.channels, look.hidden, look.size)
    head = Cloner(settings, split.state + encoder.size, pipeline.action_size, 0).actor
    graph = PolicyGraph(pipeline, VisionActor(encoder, head).eval().requires_grad_(False), task.inputs)
    contract = make_contract("untrained", "arm_pick_place_camera", task, robot, graph)
    export_policy(graph, contract, robot, stem.with_suffix(".onnx"))
    stem.with_suffix(".yaml").write_text(yaml.safe_dump(schema.to_data(robot)))
    return stem.with_suffix(".yaml"), stem.with_suffix(".onnx")


def measured(robot_file: str, policy: Path, options: argparse.Namespace) -> Figures:
    """Start the nodes, feed them, and return how they did."""
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(everywhere)[-options.cores :])  # the nodes inherit it
    try:
        given = {"policy": policy, "robot": robot_file, "goal_position": "[0.5, 0.0, 0.3]", **instruction(policy)}
        nodes = {
            "policy": started("policy", **given),
            "guard": started("guard", robot=robot_file, auto_arm="true", **_PATIENT),
        }
        try:
            return fed(robot_file, policy, options, {name: node.pid for name, node in nodes.items()})
        finally:
            for node in nodes.values():
                node.send_signal(signal.SIGINT)
            for node in nodes.values():
                node.wait(timeout=20.0)
    finally:
        os.sched_setaffinity(0, everywhere)


def instruction(policy: Path) -> dict[str, str]:
    """Return what a policy that follows instructions is told; empty: it follows none."""
    from rlstack.policies import load_policy

    text = next((port.text for port in load_policy(policy).contract.inputs if port.text is not None), None)
    return {} if text is None else {"instruction": text.examples[0]}


def started(kind: str, **parameters: Any) -> subprocess.Popen[bytes]:
    arguments = [word for name, value in parameters.items() for word in ("-p", f"{name}:={value}")]
    return subprocess.Popen([sys.executable, "-m", f"rlstack.nodes.{kind}", "--ros-args", *arguments])


def fed(robot_file: str, policy: Path, options: argparse.Namespace, pids: dict[str, int]) -> Figures:
    """Publish joint states and pictures, and take the commands."""
    import rclpy

    from rlstack.interfaces import topics
    from rlstack.interfaces.image_messages import ImageMessage
    from rlstack.interfaces.messages import JointMessage, stamp_to_ns
    from rlstack.nodes.executor import ControlExecutor
    from rlstack.policies import load_policy
    from rlstack.robots import load_robot

    robot, contract = load_robot(robot_file), load_policy(policy).contract
    seen = {port.topic: port for port in contract.inputs if port.picture is not None}
    rclpy.init()
    node = rclpy.create_node("robot", start_parameter_services=False, enable_rosout=False)
    joints = JointMessage(topics.type_of(topics.JOINT_STATES)(), [drive.name for drive in robot.drives])
    quality = topics.quality("sensor_out")
    joints_out = node.create_publisher(topics.type_of(topics.JOINT_STATES), topics.JOINT_STATES, quality)
    rest, still = np.array([drive.rest for drive in robot.drives]), np.zeros(len(robot.drives))
    sent: dict[int, int] = {}
    latency: dict[int, int] = {}
    came: list[float] = []
    modes: list[str] = []

    def send_joints() -> None:
        stamp = time.time_ns()
        message = joints.fill(stamp, rest, still)
        sent[stamp] = time.perf_counter_ns()
        joints_out.publish(message)

    def take(command: Any) -> None:
        stamp = stamp_to_ns(command.header.stamp)
        came.append(time.monotonic())
        if stamp in sent:
            latency.setdefault(stamp, time.perf_counter_ns() - sent[stamp])

    def camera(topic: str, port: Any) -> None:
        image_type = topics.message_type(port.type)
        picture, publisher = (
            ImageMessage(image_type(), port.frame, "rgb8"),
            node.create_publisher(image_type, topic, quality),
        )
        random = np.random.default_rng(0)
        shown = [random.integers(0, 256, port.shape, dtype=np.uint8) for _ in range(8)]
        node.create_timer(
            1.0 / options.camera_rate,
            lambda: publisher.publish(picture.fill(time.time_ns(), shown[len(came) % len(shown)])),
        )

    node.create_subscription(
        topics.type_of(topics.JOINT_COMMAND), topics.JOINT_COMMAND, take, topics.quality("command")
    )
    node.create_subscription(
        topics.type_of(topics.GUARD_MODE),
        topics.GUARD_MODE,
        lambda message: modes.append(message.data),
        topics.quality("latched"),
    )
    node.create_timer(PERIOD_S, send_joints)
    for topic, port in seen.items():
        camera(topic, port)
    executor = ControlExecutor()
    executor.add_node(node)

    def spin(seconds: float, go_on: Any = lambda: True) -> None:
        end = time.monotonic() + seconds
        executor.spin_while(lambda: go_on() and time.monotonic() < end)

    spin(WAIT_S, lambda: not latency)
    if not latency:
        raise SystemExit("No command came: look at the nodes' lines above.")
    spin(SETTLE_S)
    modes[:] = modes[-1:]
    for kept in (sent, latency, came):
        kept.clear()
    began, before = time.monotonic(), {name: processor_s(pid) for name, pid in pids.items()}
    spin(options.seconds)
    passed = time.monotonic() - began
    used = {name: (processor_s(pid) - before[name]) / passed for name, pid in pids.items()}
    executor.shutdown()
    node.destroy_node()
    rclpy.shutdown()
    answered = np.array(list(latency.values())) * 1e-6
    p50, p99 = np.percentile(answered, [50, 99])
    return Figures(
        pixels=next(iter(seen.values())).shape[0],
        rate_hz=contract.rate_hz,
        commands_hz=len(latency) / passed,
        p50_ms=float(p50),
        p99_ms=float(p99),
        max_ms=float(answered.max()),
        policy_core=used["policy"],
        guard_core=used["guard"],
        modes=" ".join(modes),
    )


def processor_s(pid: int) -> float:
    """Return the processor time of a process so far, s."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS


def machine() -> str:
    model = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), ":")
    return f"{model.partition(':')[2].strip()}, Linux {platform.release()}, Python {platform.python_version()}"


if __name__ == "__main__":
    raise SystemExit(main())
