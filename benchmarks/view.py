"""What the browser view costs: its own processor time, and what it takes from a robot node beside it.

    python benchmarks/view.py [--seconds 20] [--runs 3] [--json FILE]

A process of its own stands in for the browser: it opens the view's socket as the page does, says where its camera is,
and reads what comes, or is stopped, as one that hangs. The rows are medians of several runs:

- *one quadrotor*, hovering at 500 Hz of control and odometry, without a view, with one that is read, and with one whose
  browser hangs: how evenly its odometry arrives at a process that is neither, and the view's share of a core.
- *from the command*: `rlstack up deploy --policy quadrotor_hover --view` until its address is printed, and until the
  third new place of the robot has reached the browser, which connects as soon as it can.
- *four bases*, standing in one world with scans of 360 rays at 10 Hz: the view's share of a core.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
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

import msgspec
import numpy as np
import viser
import zstandard
from robot_node import SETTLE_S, WAIT_S, Ear, Hovering, Node, fast_robot
from websockets.sync.client import connect

PORT = 18_480
_PLACES = 3
"""New places of a robot in the browser, after which it moves."""
CAMERA = {
    "type": "ViewerCameraMessage",
    "wxyz": [1.0, 0.0, 0.0, 0.0],
    "position": [2.0, -2.0, 2.0],
    "fov": 1.0,
    "near": 0.01,
    "far": 1000.0,
    "image_height": 600,
    "image_width": 800,
    "look_at": [0.0, 0.0, 1.0],
    "up_direction": [0.0, 0.0, 1.0],
}


def _moves(data: str | bytes) -> bool:
    """Return whether a message of viser, whose size and compressed size are before it, moves the quadrotor."""
    if isinstance(data, str):
        return False
    size = int.from_bytes(data[:8], "little")
    plain = zstandard.ZstdDecompressor().decompress(data[16:], max_output_size=size)
    return b"SetPositionMessage" in plain and b"/robots/crazyflie" in plain


class Browser:
    """What a browser is to the view: a process of its own, so that it takes none of the measuring one's time.

    Args:
        hangs: It stops once it is connected, without closing anything.
        port: The view's.
    """

    def __init__(self, hangs: bool = False, port: int = PORT) -> None:
        context = multiprocessing.get_context("spawn")
        self._bytes, self._places = context.Value("q", 0), context.Array("d", _PLACES)
        connected = context.Event()
        arguments = (port, self._bytes, self._places, connected)
        self._process = context.Process(target=_browse, args=arguments, daemon=True)
        self._process.start()
        if not connected.wait(WAIT_S):
            raise RuntimeError("The view did not answer.")
        if hangs:
            time.sleep(SETTLE_S)
            assert self._process.pid is not None
            os.kill(self._process.pid, signal.SIGSTOP)

    @property
    def bytes(self) -> int:
        """How much has come."""
        return int(self._bytes.value)

    @property
    def places(self) -> list[float]:
        """When the robot's first places came, by ``time.perf_counter``."""
        return [at for at in self._places if at]

    def close(self) -> None:
        """Vanish."""
        self._process.kill()
        self._process.join()


def _browse(port: int, count: Any, places: Any, connected: Any) -> None:
    """Open the view's socket as its page does, say where the camera is, and read what comes."""
    deadline, found = time.monotonic() + WAIT_S, 0
    while True:
        try:
            socket = connect(f"ws://localhost:{port}", subprotocols=[f"viser-v{viser.__version__}"], max_size=None)
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
    socket.send(msgspec.msgpack.encode(CAMERA))
    connected.set()
    for data in socket:
        count.value += len(data)
        if found < _PLACES and _moves(data):
            places[found], found = time.perf_counter(), found + 1


def hovering(seconds: float, view: str) -> dict[str, float]:
    """One quadrotor, with a ``view`` that is "read" or "hangs", or without one."""
    from rlstack.kinds.quadrotor.spec import load_quadrotor

    with tempfile.TemporaryDirectory() as folder:
        file = fast_robot(Path(folder), 500.0)
        node, ear = Node("robot", robot=file, start_height_m=1.0), Ear()
        viewer = Node("view", port=PORT) if view else None
        browser = Browser(hangs=view == "hangs") if view else None
        pilot = Hovering(ear, load_quadrotor(file))
        ear.spin(WAIT_S, lambda: len(pilot.stamps) > 10)
        ear.spin(SETTLE_S)
        pilot.stamps.clear(), pilot.arrivals.clear()
        before = browser.bytes if browser else 0
        cpu, begin = viewer.cpu_s() if viewer else 0.0, time.perf_counter()
        ear.spin(seconds)
        passed = time.perf_counter() - begin
        late = np.abs(np.diff(pilot.arrivals) * 1e-6 - 2.0)
        found = {
            "odometry, messages a second": len(pilot.stamps) / passed,
            "odometry, jitter p50, ms": float(np.percentile(late, 50)),
            "odometry, jitter p99, ms": float(np.percentile(late, 99)),
        }
        if viewer and browser:
            found["view, share of a core"] = (viewer.cpu_s() - cpu) / passed
            found["to the browser, kB/s"] = (browser.bytes - before) / passed / 1000.0
            browser.close()
            viewer.close()
        node.close()
        ear.close()
    return found


def from_the_command() -> dict[str, float]:
    """A deployment with a view, from its command line."""
    begin = time.perf_counter()
    words = [sys.executable, "-m", "rlstack", "up", "deploy", "--policy", "quadrotor_hover", "--view"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as up:
        assert up.stdout is not None
        address = next(line for line in up.stdout if "Open http" in line).partition("Open ")[2].split()[0]
        printed = time.perf_counter()
        browser = Browser(port=int(address.rpartition(":")[2]))
        while len(browser.places) < _PLACES and time.perf_counter() - begin < WAIT_S:
            time.sleep(0.01)
        found = {
            "until the address is printed, s": printed - begin,
            "until the robot moves, s": browser.places[-1] - begin,
        }
        browser.close()
        up.send_signal(signal.SIGINT)
        for _ in up.stdout:  # it lands
            pass
    return found


def bases(seconds: float) -> dict[str, float]:
    """Four bases with scans."""
    names = "[" + ", ".join(f"base{k}" for k in range(4)) + "]"
    node = Node("robot", robot="turtlebot3_burger", world="clutter:1000007", robots=names)
    viewer, browser = Node("view", port=PORT), Browser()
    time.sleep(2.0 * SETTLE_S)
    before, cpu, begin = browser.bytes, viewer.cpu_s(), time.perf_counter()
    time.sleep(seconds)
    passed = time.perf_counter() - begin
    found = {
        "view, share of a core": (viewer.cpu_s() - cpu) / passed,
        "to the browser, kB/s": (browser.bytes - before) / passed / 1000.0,
    }
    browser.close()
    viewer.close()
    node.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="of measuring, in each run")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ.setdefault("ROS_DOMAIN_ID", str(1 + os.getpid() % 100))
    from rlstack.nodes.runtime import prepare_environment

    prepare_environment()
    kinds: dict[str, Any] = {
        "one quadrotor, no view": lambda: hovering(options.seconds, ""),
        "one quadrotor, view": lambda: hovering(options.seconds, "read"),
        "one quadrotor, browser hangs": lambda: hovering(options.seconds, "hangs"),
        "from the command": from_the_command,
        "four bases, view": lambda: bases(options.seconds),
    }
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in kinds}
    for _ in range(options.runs):  # in turn, so that whatever else the machine does disturbs all alike
        for name, measure in kinds.items():
            runs[name].append(measure())
    rows = {name: {key: statistics.median(one[key] for one in many) for key in many[0]} for name, many in runs.items()}
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"median of {options.runs} runs of {options.seconds:g} s; {os.cpu_count()} cores, load average {load}")
    for name, row in rows.items():
        print(f"{name}:")
        for key, value in row.items():
            print(f"  {key:<40}{value:>10.3f}")
    if options.json:
        machine = {"processor": platform.processor(), "cores": os.cpu_count(), "load": os.getloadavg()}
        options.json.write_text(json.dumps({"machine": machine, "seconds": options.seconds, **rows}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
