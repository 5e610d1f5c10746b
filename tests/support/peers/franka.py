"""A Panda: the arm of ``franky-sim`` in a process of its own, started once by each process of tests: it takes 3 s."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.kinds.manipulator.spec import Manipulator
from tests.support.peers import Misfit

for library in ("franky", "franky_sim"):  # tests skip without them
    if importlib.util.find_spec(library) is None:
        raise ImportError(f"{library} is not installed", name=library)

_PROGRAM = Path(__file__).with_name("_franka_arm.py")


class _Process:
    """The program, asleep between tests; it ends with this process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(_PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None and self._process.stdin is not None
        self._out, self._in = self._process.stdout, self._process.stdin

    def tell(self, line: str) -> dict[str, Any]:
        self._in.write(line + "\n")
        self._in.flush()
        answer = self._out.readline()
        assert answer, "franky-sim has ended"
        said: dict[str, Any] = json.loads(answer)
        return said


_started: list[_Process] = []


class FrankaPeer:
    """One arm."""

    def __init__(self) -> None:
        self.robot = Manipulator.load("panda")
        if not _started:
            _started.append(_Process())
        self._process = _started[0]

    @property
    def uri(self) -> str:
        return f"fci://{self.tell('state')['host']}?realtime=false"

    @property
    def powered(self) -> bool:
        """Whether a motion is under way."""
        return bool(self.tell("state")["powered"])

    @property
    def joints(self) -> Array:
        """(7,) rad."""
        return np.array(self.tell("state")["joints"])

    @property
    def width(self) -> float:
        """Between the fingers, m."""
        return float(self.tell("state")["width"])

    def tell(self, line: str) -> dict[str, Any]:
        """Tell the program something, and return its state."""
        return self._process.tell(line)

    def __enter__(self) -> FrankaPeer:
        self.tell("wake")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.tell("sleep")

    def misfits(self) -> dict[str, Misfit | str]:
        def told(line: str) -> Callable[[], object]:
            return lambda: self.tell(line)

        return {
            "in use": "franky-sim lets a second client wait, as an arm does that is not there",
            "answers twice": "one controller is at an address",
            "firmware": Misfit(("server version: 5", "library version: 10"), told("version 5")),
            "calibration": "it is calibrated by its maker, and its axes are compared",
            "joints": Misfit(("is not a panda", "0.733", "0.649"), told("upper_arm 0.4")),
            "limits": Misfit(("-3.077 to -0.117 rad", "-3.072 to -0.070"), told("fr3")),
            "mass": Misfit(("0.73 kg of end effector", "1.50 kg of load", "0.93 kg"), told("load 1.5")),
        }

    def rest(self) -> dict[str, Array]:
        return {"joint_target": np.array([joint.rest for joint in self.robot.drives])}

    def lose_link(self) -> None:
        self.tell("link false")

    def regain_link(self) -> None:
        self.tell("link true")

    def send_noise(self, data: bytes) -> None:
        self.tell(f"noise {data.hex()}")


PEER = FrankaPeer
