"""The checklists that come with rlstack, walked through against emulated robots, to the end."""

from __future__ import annotations

import io
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlstack import cli
from rlstack.bringup.checklist import checks
from rlstack.bringup.checklist.steps import checklist_names
from rlstack.bringup.sitl import Poses
from rlstack.interfaces.kind_signals import command_of
from rlstack.resources import find_resource
from rlstack.robots import load_robot
from tests.support.peers import peer_of
from tests.support.policies import write_still_policy

pytestmark = pytest.mark.integration

LONGEST_S = 0.5
"""Longest motion here."""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Helper:
    """A person who says yes, lets it move, moves it by hand, and pulls the cable.

    Args:
        peer: The robot.
        steps: The checklist's.
    """

    def __init__(self, peer: Any, steps: list[dict[str, Any]]) -> None:
        self._peer, self._by_hand = peer, [step for step in steps if step.get("check") == "by_hand"]
        self._moves = iter([step["check"] for step in steps if step.get("check") in ("motion", "stop", "link_loss")])

    def answer(self, prompt: str) -> str:
        """Return what is typed, and do what is asked for a moment later."""
        if "IT WILL MOVE" in prompt:
            if next(self._moves) == "link_loss":
                threading.Timer(0.2, self._peer.lose_link).start()
            return "move"
        if "Ready" in prompt:
            threading.Timer(0.1, self._move, [self._by_hand.pop(0)]).start()
            return ""
        self._peer.regain_link()
        return "y"

    def _move(self, step: dict[str, Any]) -> None:
        peer, element, by = self._peer, step["element"], 1.3 * step["by"]
        if step["signal"] == "position":
            peer.airframe.position[element] += by
        elif hasattr(peer, "turned"):
            peer.turned[element] += by
        else:
            peer.move.at[element] += by * 4096 / 6.2832


def shortened(name: str, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Write a robot's checklist with shorter motions."""
    file = find_resource(f"hardware/{name}/bringup.yaml")
    assert file is not None
    data = yaml.safe_load(file.read_text())
    for step in data["steps"]:
        if "seconds" in step and step["check"] != "link_loss":
            step["seconds"] = min(step["seconds"], LONGEST_S)
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(data))
    return path, data


SLOW_SIMULATOR = [
    pytest.mark.quiet,
    pytest.mark.xfail(reason="franky-sim's measurements seem 113 ms old, on a quiet machine, too: not understood"),
]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=SLOW_SIMULATOR if name == "panda" else []) for name in checklist_names()],
)
def test_a_robot_that_is_as_it_should_be_passes_its_whole_checklist(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checks, "_MEASURE_S", 0.7)
    monkeypatch.setattr(sys, "stdin", Terminal())
    checklist, data = shortened(name, tmp_path)
    robot = load_robot(data["robot"])
    try:
        peer = peer_of(data["backend"])
    except ImportError as error:
        pytest.skip(f"{name}: {error}")
    senses = (
        ("position", "orientation")
        if robot.has_rotors or robot.is_mobile_base
        else ("joint_position", "joint_velocity")
    )
    policy = write_still_policy(tmp_path / "still.onnx", robot, senses, command_of(robot).name)
    record = tmp_path / "record.json"
    with peer, Posing(peer, robot.name):
        monkeypatch.setattr("builtins.input", Helper(peer, data["steps"]).answer)
        words = ["bringup", str(checklist), "--uri", peer.uri, "--policy", str(policy), "--record", str(record)]
        assert cli.main(words) == 0, capsys.readouterr().out
    results = {step: entry["result"] for step, entry in json.loads(record.read_text())["steps"].items()}
    assert set(results) == {step["name"] for step in data["steps"]} and set(results.values()) == {"passed"}


class Posing:
    """Motion capture of a robot that needs it; a context manager."""

    def __init__(self, peer: Any, namespace: str) -> None:
        self._pose: Callable[[], Any] | None = getattr(peer, "pose", None) if hasattr(peer, "answers") else None
        self._poses, self._over = Poses(namespace), threading.Event()

    def __enter__(self) -> None:
        if self._pose is not None:
            self._thread = threading.Thread(target=self._serve, args=(self._poses.__enter__(), self._pose))
            self._thread.start()

    def _serve(self, publish: Callable[..., None], pose: Callable[[], Any]) -> None:
        while not self._over.wait(0.005):
            publish(time.time(), *pose())

    def __exit__(self, *_: object) -> None:
        if self._pose is not None:
            self._over.set()
            self._thread.join()
            self._poses.__exit__()
