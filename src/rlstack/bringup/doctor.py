"""Check the installation: what is installed or missing, what each part is for, and how to install it."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Literal

from rlstack.bringup.supervisor import child_environment
from rlstack.interfaces import tf2_messages
from rlstack.interfaces.backend import BACKENDS

_ISAAC = BACKENDS.load("isaac")

State = Literal["ok", "missing", "broken"]


@dataclass(frozen=True)
class Finding:
    """The finding for one part.

    Args:
        part: Its name.
        state: ``broken``: installed, but it does not work.
        detail: Version when it works, the reason when it does not.
        purpose: What it is for.
        install: The install command, or what else to do.
        core: Nothing works without it.
    """

    part: str
    state: State
    detail: str
    purpose: str
    install: str
    core: bool


@dataclass(frozen=True)
class Part:
    """One part to check; ``look`` returns state and detail."""

    name: str
    purpose: str
    install: str
    look: Callable[[], tuple[State, str]]
    core: bool = False

    def find(self) -> Finding:
        """Check it; an exception while checking means a broken part."""
        try:
            state, detail = self.look()
        except Exception as error:
            state, detail = "broken", f"{type(error).__name__}: {error}".splitlines()[0]
        return Finding(self.name, state, detail, self.purpose, self.install, self.core)


@dataclass(frozen=True)
class Diagnosis:
    """All findings; ``status`` is 1 when a core part is missing or broken, or the installed rclpy does not work."""

    findings: tuple[Finding, ...]

    @property
    def status(self) -> int:
        """Exit status of `rlstack doctor`."""
        bad = any((f.state != "ok" and f.core) or (f.state == "broken" and f.part == "rclpy") for f in self.findings)
        return 1 if bad else 0

    def as_data(self) -> dict[str, object]:
        """Return the findings as plain data for JSON."""
        return {"ok": self.status == 0, "parts": {f.part: asdict(f) for f in self.findings}}

    def table(self) -> str:
        """Format the findings: one line each, and below a missing part what to do."""
        width = max(len(f.part) for f in self.findings)
        lines = []
        for f in self.findings:
            lines.append(f"{f.part:<{width}}  {f.state:<7}  {f.detail}".rstrip())
            if f.state != "ok":
                lines.append(f"{'':<{width}}  for {f.purpose}: {f.install}")
        missing = [f.part for f in self.findings if f.state != "ok"]
        lines.append("")
        if self.status:
            lines.append("A core part does not work: see the lines marked missing or broken above.")
        elif missing:
            lines.append(f"The core works. Missing optional parts: {', '.join(missing)}.")
        else:
            lines.append("Everything is installed.")
        return "\n".join(lines)


def diagnose() -> Diagnosis:
    """Check every part; heavy ones are imported in separate processes, so that a crash there is only a finding."""
    return Diagnosis(tuple(part.find() for part in PARTS))


def _pip(*packages: str) -> str:
    return f"{sys.executable} -m pip install {' '.join(packages)}"


def _package(module: str, distribution: str) -> Callable[[], tuple[State, str]]:
    """Check a small package by importing it here."""

    def look() -> tuple[State, str]:
        if importlib.util.find_spec(module) is None:
            return "missing", ""
        importlib.import_module(module)
        return "ok", _version(distribution)

    return look


def _heavy(module: str, distribution: str, code: str = "") -> Callable[[], tuple[State, str]]:
    """Check a package by importing it, and running ``code``, in another process; its output is the detail."""

    def look() -> tuple[State, str]:
        if importlib.util.find_spec(module.partition(".")[0]) is None:
            return "missing", ""
        state, detail = _run(f"import {module}\n{code}")
        return state, " ".join(filter(None, [_version(distribution) if state == "ok" else "", detail]))

    return look


def _run(code: str, **variables: str) -> tuple[State, str]:
    environment = {**child_environment(os.environ), **variables}
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
    except subprocess.TimeoutExpired:
        return "broken", "no answer within 60 s"
    if done.returncode == 0:
        return "ok", done.stdout.strip().replace("\n", ", ")
    last = done.stderr.strip().splitlines()[-1:] or [f"ended with status {done.returncode}"]
    return "broken", last[0]


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "version unknown"


def _python() -> tuple[State, str]:
    inside = (3, 10) <= sys.version_info[:2] <= (3, 13)
    return "ok" if inside else "broken", f"{platform.python_version()} on {platform.machine()}"


def _robots() -> tuple[State, str]:
    from rlstack.robots import load_robot, robot_names

    return "ok", ", ".join(load_robot(name).name for name in robot_names())


_MESSAGES = (
    "std_msgs",
    "geometry_msgs",
    "sensor_msgs",
    "nav_msgs",
    "trajectory_msgs",
    "visualization_msgs",
    "diagnostic_msgs",
    "std_srvs",
    "rosgraph_msgs",
)


def _messages() -> tuple[State, str]:
    absent = [name for name in _MESSAGES if importlib.util.find_spec(name) is None]
    if absent:
        return "missing", "without " + ", ".join(absent)
    return _run("\n".join(f"import {name}" for name in _MESSAGES))


def _tf2() -> tuple[State, str]:
    if importlib.util.find_spec("tf2_msgs") is None:
        return "missing", ""
    state, detail = _run("from tf2_msgs.msg import TFMessage\nTFMessage.__import_type_support__()")
    return state, "made by rlstack" if state == "ok" and tf2_messages.PACKAGE.is_ours() else detail


def _program(name: str, *version: str) -> Callable[[], tuple[State, str]]:
    def look() -> tuple[State, str]:
        beside = os.path.dirname(sys.executable)  # pip's bin folder; on PATH once the environment is activated
        path = shutil.which(name) or shutil.which(name, path=beside)
        if path is None:
            return "missing", ""
        if not version:
            return "ok", path
        done = subprocess.run([path, *version], capture_output=True, text=True, timeout=20, check=False)
        if done.returncode != 0:
            return "broken", (done.stderr.strip().splitlines() or [path])[-1]
        return "ok", done.stdout.strip().replace("\n", ", ")

    return look


def _egl() -> tuple[State, str]:
    if importlib.util.find_spec("mujoco") is None:
        return "missing", "needs mujoco first"
    code = "import mujoco\nc = mujoco.GLContext(64, 64)\nc.make_current()\nc.free()"
    state, detail = _run(code, MUJOCO_GL="egl")
    return ("ok", "") if state == "ok" else ("missing", detail)


def _ros_install(*packages: str) -> str:
    if platform.machine() != "x86_64":
        return f"sudo apt install ros-jazzy-ros-base (the wheels are for x86-64, this is {platform.machine()})"
    return _pip(*packages)


_TORCH = "import torch; print('with CUDA' if torch.cuda.is_available() else 'CPU')"

_PYBULLET = _pip("pybullet")
if sys.version_info >= (3, 12):
    _PYBULLET += " compiles it for many minutes: there are wheels for Python 3.10 and 3.11 only"

PARTS: tuple[Part, ...] = (
    Part("python", "everything", "install Python 3.10 to 3.13", _python, core=True),
    Part("numpy", "everything", _pip("numpy"), _package("numpy", "numpy"), core=True),
    Part("pyyaml", "reading robot files and recipes", _pip("pyyaml"), _package("yaml", "pyyaml"), core=True),
    Part("tyro", "the command line", _pip("tyro"), _package("tyro", "tyro"), core=True),
    Part("onnxruntime", "running policies", _pip("onnxruntime"), _package("onnxruntime", "onnxruntime"), core=True),
    Part("onnx", "reading and writing policies", _pip("onnx"), _package("onnx", "onnx"), core=True),
    Part("robot files", "everything", "reinstall rlstack", _robots, core=True),
    Part(
        "rclpy",
        "nodes, topics, verification over ROS 2 and every real robot",
        _ros_install("'ros-rclpy[fastrtps]'"),
        _heavy("rclpy", "ros-rclpy"),
    ),
    Part(
        "ROS 2 messages",
        "the common topics",
        _ros_install(*(f"ros-{name.replace('_', '-')}" for name in _MESSAGES)),
        _messages,
    ),
    Part(
        "tf2_msgs",
        "your own programs that import it; nodes publish /tf without it",
        f"{sys.executable} -m rlstack.interfaces.tf2_messages --again builds it; a system ROS 2 has it"
        " (sudo apt install ros-jazzy-tf2-msgs)",
        _tf2,
    ),
    Part(
        "ros2 launch",
        "the files in launch/; `rlstack up` starts the same systems without it",
        "comes with a system ROS 2 (sudo apt install ros-jazzy-ros2launch)",
        _package("launch_ros", "launch-ros"),
    ),
    Part(
        "colcon",
        "building in a ROS 2 workspace; pip install does not need it",
        _pip("colcon-common-extensions"),
        _program("colcon"),
    ),
    Part("mujoco", "the MuJoCo backend", _pip("mujoco"), _heavy("mujoco", "mujoco")),
    Part(
        "EGL",
        "images and cameras from MuJoCo without a display",
        "sudo apt install libegl1 libgl1-mesa-dri",
        _egl,
    ),
    Part("pybullet", "the PyBullet backend", _PYBULLET, _heavy("pybullet", "pybullet")),
    Part("isaacsim", "the Isaac Sim backend", _ISAAC.install, _ISAAC.look),
    Part("llvmlite", "the batch simulator's machine code", _pip("llvmlite"), _heavy("llvmlite", "llvmlite")),
    Part("warp", "the batch simulator on a GPU", _pip("warp-lang"), _heavy("warp", "warp-lang")),
    Part("scipy", "maps, planners and pedestrians of bases", _pip("scipy"), _heavy("scipy.sparse.csgraph", "scipy")),
    Part("torch", "training and export", _pip("torch==2.13.0"), _heavy("torch", "torch", _TORCH)),
    Part("rsl_rl", "PPO", _pip("rsl-rl-lib"), _heavy("rsl_rl", "rsl-rl-lib")),
    Part("rich", "the progress bar of training", _pip("rich"), _package("rich", "rich")),
    Part("tensorboard", "training curves", _pip("tensorboard"), _heavy("tensorboard", "tensorboard")),
    Part("matplotlib", "the plots in reports", _pip("matplotlib"), _package("matplotlib", "matplotlib")),
    Part(
        "opencv",
        "lens distortion of cameras, image encodings",
        _pip("opencv-python-headless"),
        _heavy("cv2", "opencv-python-headless"),
    ),
    Part(
        "open3d",
        "point clouds: downsampling, outliers, normals",
        f"{_pip('open3d')} (1.1 GB; Debian: sudo apt install libusb-1.0-0 libgomp1)",
        _heavy("open3d", "open3d"),
    ),
    Part("casadi", "the fastest line around a race track", _pip("casadi"), _heavy("casadi", "casadi")),
    Part("gymnasium", "Gymnasium environments", _pip("gymnasium"), _package("gymnasium", "gymnasium")),
    Part("pyarrow", "datasets of demonstrations", _pip("pyarrow"), _heavy("pyarrow", "pyarrow")),
    Part("rosbags", "bags to datasets and back", _pip("rosbags"), _package("rosbags", "rosbags")),
    Part("av", "camera videos in datasets", _pip("av"), _heavy("av", "av")),
    Part(
        "pyspacemouse",
        "teleoperation of an arm with a SpaceMouse",
        f"{_pip('pyspacemouse')} (Debian: sudo apt install libhidapi-hidraw0)",
        _package("pyspacemouse", "pyspacemouse"),
    ),
    Part(
        "scservo_sdk",
        "teleoperation with a leader arm of Feetech servos",
        _pip("feetech-servo-sdk"),
        _package("scservo_sdk", "feetech-servo-sdk"),
    ),
    Part(
        "GPU",
        "faster training; everything runs on the CPU as well",
        "install NVIDIA's driver on a machine that has such a GPU",
        _program("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"),
    ),
)
"""Everything that `rlstack doctor` checks, the parts for first steps first."""
