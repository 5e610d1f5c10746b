"""What a recorder loses, needs and delays, and what is left of it when it is killed.

    python benchmarks/recorder.py [--seconds 300] [--rate 1000] [--kills 50] [--folder FOLDER] [--json FILE]

A process sends odometry at ``--rate`` and takes the commands, as a robot node would; the policy node and the guard node
answer it as they are deployed; another process sends an IMU's messages at the same rate and pictures of 640x480 with
sensor noise at 30 Hz. The latency from odometry to command is measured with and without a recorder of all of it. The
recorder's loss is what misses between the first and the last of each publisher's numbers in the bag; its memory is the
peak of its process. The bag takes up to 30 MB a second in ``--folder``.

Then recorders of the same messages are killed (SIGKILL) at random moments, and what they leave is read: by how much its
last message is older than the kill, and whether anything before that is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from control_path import WAIT_S, fast_robot, machine, measure, node, write_network

PICTURES_HZ = 30.0
HEIGHT, WIDTH = 480, 640
NOISE = 3.0
"""Standard deviation of the pictures' noise, of 255: that of a small camera indoors."""
READABLE_S = 1.0


def main() -> int:
    if sys.argv[1:2] == ["--sensors"]:
        return sensors(float(sys.argv[2]), sys.argv[3:4] == ["odom"])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300.0, help="of measuring, with and without a recorder")
    parser.add_argument("--rate", type=float, default=1000.0, help="of odometry, IMU and commands, Hz")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills")
    parser.add_argument("--folder", type=Path, help="where the bags go; default: a temporary folder")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    options = parser.parse_args()
    os.environ.setdefault("ROS_DOMAIN_ID", str(1 + os.getpid() % 100))
    from rlstack.nodes.runtime import prepare_environment

    prepare_environment()
    found: dict[str, Any] = {"rate_hz": options.rate, "seconds": options.seconds, "machine": machine()}
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        if options.seconds:
            found |= beside_a_policy(folder, options)
        if options.kills:
            found["kills"] = killed(folder, options)
    show(found)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    return 0


def beside_a_policy(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Return the latency with and without a recorder, and the recorder's figures."""
    robot = fast_robot(folder, options.rate)
    policy = write_network(folder / "network.onnx", robot)
    chain = [
        node("policy", policy=policy, robot=robot, goal_position="[0.0, 0.0, 1.0]"),
        node("guard", robot=robot, auto_arm="true", staleness_periods=100.0, frozen_observations=0),
    ]
    found: dict[str, Any] = {}
    for name in ("without", "with"):
        with running(*chain, [sys.executable, __file__, "--sensors", str(options.rate)]):
            if name == "without":
                row = measure(name, options.rate, options.seconds, bare=False)
            else:
                bag = folder / "bag"
                process = subprocess.Popen(node("record", out=bag, pictures="true"))
                cpu, began = 0.0, time.monotonic()
                try:
                    row = measure(name, options.rate, options.seconds, bare=False)
                    cpu, passed = cpu_s(process.pid), time.monotonic() - began
                    peak = memory_mib(process.pid)
                finally:
                    process.send_signal(signal.SIGINT)
                    process.wait(timeout=60.0)
                found["recorder"] = {"memory_mib": peak, "cores": cpu / passed, **read(bag)}
        found[name] = {"p50_ms": row.p50_ms, "p99_ms": row.p99_ms, "max_ms": row.max_ms, "missed": row.missed_percent}
    shutil.rmtree(folder / "bag")
    return found


def read(bag: Path) -> dict[str, Any]:
    """Return what a bag has, and what misses in it."""
    from rlstack.data.bags import Bag

    topics: dict[str, dict[str, int]] = {}
    with Bag(bag) as opened:
        lost, dropped = opened.lost(), opened.lost("dropped")
        several = {"/diagnostics", "/rosout"}  # numbers of several publishers
        seen: dict[str, list[int]] = {}
        for message in opened.messages([topic for topic in opened.topics if topic not in several]):
            seen.setdefault(message.topic, []).append(message.sequence)
        for topic, numbers in seen.items():
            missing = numbers[-1] - numbers[0] + 1 - len(numbers)
            told = lost.get(topic, 0) + dropped.get(topic, 0)
            topics[topic] = {"messages": len(numbers), "missing": missing, "counted": told}
        size = sum(file.stat().st_size for file in opened.files)
        seconds = 1e-9 * (opened.last_ns - opened.first_ns)
    return {"mb_s": size / seconds * 1e-6, "topics": {t: f for t, f in topics.items() if f["messages"] > 10}}


def killed(folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """Kill recorders, and return what is left of them."""
    from rlstack.data.bags import Bag

    chance = random.Random(options.seed)
    ages, gaps, readable = [], 0, 0
    with running([sys.executable, __file__, "--sensors", str(options.rate), "odom"]):
        for number in range(options.kills):
            bag = folder / f"killed_{number}"
            process = subprocess.Popen(node("record", out=bag, pictures="true"))
            end = time.monotonic() + WAIT_S
            while not any(file.stat().st_size > 2**20 for file in bag.glob("*.mcap")):
                if time.monotonic() > end:
                    raise SystemExit("The recorder recorded nothing.")
                time.sleep(0.02)
            time.sleep(chance.uniform(2.0, 6.0))  # every topic is found by then
            process.kill()
            killed_ns = time.time_ns()
            process.wait()
            with Bag(bag) as opened:
                last: dict[str, tuple[int, int]] = {}
                for message in opened.messages(["/odom", "/imu", "/camera/image_raw"]):
                    before = last.get(message.topic)
                    gaps += 0 if before is None else message.sequence - before[0] - 1
                    last[message.topic] = message.sequence, message.received_ns
            ages.append(
                max(1e-9 * (killed_ns - at_ns) for _, at_ns in last.values()) if len(last) == 3 else float("inf")
            )
            readable += ages[-1] < READABLE_S
            shutil.rmtree(bag)
    return {"kills": options.kills, "readable": readable, "oldest_s": max(ages), "missing_before": gaps}


def sensors(rate_hz: float, with_odometry: bool) -> int:
    """One process: an IMU's messages and pictures, and odometry if nobody else sends it."""
    import rclpy
    from rclpy.signals import SignalHandlerOptions

    from rlstack.interfaces import topics
    from rlstack.nodes.executor import ControlExecutor

    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    ended: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: ended.append(number))
    sender = rclpy.create_node("sensors", start_parameter_services=False, enable_rosout=False)

    def publisher(kind: str, topic: str) -> Any:
        return sender.create_publisher(topics.message_type(kind), topic, topics.quality("sensor_out"))

    fast = [(publisher(topics.TYPES[topics.IMU], topics.IMU), topics.type_of(topics.IMU)())]
    if with_odometry:
        fast.append((publisher(topics.TYPES[topics.ODOM], topics.ODOM), topics.type_of(topics.ODOM)()))
    image_type = topics.CAMERA_TYPES[topics.IMAGE]
    camera = publisher(image_type, f"camera/{topics.IMAGE}")
    random = np.random.default_rng(0)
    scene = np.add.outer(np.linspace(40, 120, HEIGHT), np.linspace(0, 90, WIDTH))[..., None] + (0.0, 10.0, 20.0)
    pictures = []
    for _ in range(8):
        picture = topics.message_type(image_type)(height=HEIGHT, width=WIDTH, encoding="rgb8", step=3 * WIDTH)
        picture.data = np.clip(scene + random.normal(0.0, NOISE, scene.shape), 0, 255).astype(np.uint8).tobytes()
        pictures.append(picture)
    shown = 0

    def send() -> None:
        for one, message in fast:
            stamp(message)
            one.publish(message)

    def show_picture() -> None:
        nonlocal shown
        shown += 1
        picture = pictures[shown % len(pictures)]
        stamp(picture)
        camera.publish(picture)

    sender.create_timer(1.0 / rate_hz, send)
    sender.create_timer(1.0 / PICTURES_HZ, show_picture)
    executor = ControlExecutor()
    executor.add_node(sender)
    executor.spin_while(lambda: not ended)
    executor.shutdown()
    sender.destroy_node()
    rclpy.shutdown()
    return 0


def stamp(message: Any) -> None:
    """Stamp a message with the present time."""
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(time.time_ns(), 10**9)


@contextmanager
def running(*commands: list[str]) -> Iterator[None]:
    """Run processes."""
    processes = [subprocess.Popen(command) for command in commands]
    try:
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGINT)
        for process in processes:
            process.wait(timeout=20.0)


def cpu_s(pid: int) -> float:
    """Return the processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid: int) -> float:
    """Return the peak of a process's resident memory."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024.0


def show(found: dict[str, Any]) -> None:
    """Print the tables."""
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{found['rate_hz']:g} Hz for {found['seconds']:g} s each; {os.cpu_count()} cores, load average {load}")
    if "recorder" in found:
        print(f"{'odometry in to command out':<30}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}{'missed %':>10}")
        for name in ("without", "with"):
            row = found[name]
            figures = f"{row['p50_ms']:>9.3f}{row['p99_ms']:>9.3f}{row['max_ms']:>9.2f}{row['missed']:>10.2f}"
            print(f"{name + ' a recorder':<30}{figures}")
        recorder = found["recorder"]
        print(
            f"p99 is {100.0 * (found['with']['p99_ms'] / found['without']['p99_ms'] - 1.0):+.1f}%; the recorder takes"
            f" {recorder['memory_mib']:.0f} MiB and {recorder['cores']:.2f} cores, and writes"
            f" {recorder['mb_s']:.1f} MB/s"
        )
        print(f"{'topic':<30}{'messages':>10}{'missing':>9}{'counted as lost':>17}")
        for topic, row in recorder["topics"].items():
            print(f"{topic:<30}{row['messages']:>10}{row['missing']:>9}{row['counted']:>17}")
    if "kills" in found:
        row = found["kills"]
        print(
            f"{row['kills']} kills: {row['readable']} readable up to the last {READABLE_S:g} s; the oldest last message"
            f" was {row['oldest_s']:.2f} s old, and {row['missing_before']} were missing before it"
        )


if __name__ == "__main__":
    raise SystemExit(main())
