"""`rlstack bringup` against emulated robots, with a scripted person at a terminal."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlstack import cli
from rlstack.bringup.checklist.checks import Bench, CheckFailed, run
from rlstack.bringup.checklist.steps import Step, check_commands, checklist_names, load_checklist
from rlstack.errors import UserError
from rlstack.interfaces.backend import BACKENDS
from rlstack.robots import load_robot
from tests.support.peers.serial_base import SerialBasePeer
from tests.support.waiting import soon

ROBOT = load_robot("turtlebot3_burger")


@pytest.fixture
def peer() -> Iterator[SerialBasePeer]:
    with SerialBasePeer() as made:
        yield made


def write_checklist(folder: Path, *steps: dict[str, Any]) -> Path:
    path = folder / "mine.yaml"
    head = {"robot": "turtlebot3_burger", "backend": "serial_base", "uri": "serial:///dev/ttyACM0"}
    path.write_text(yaml.safe_dump({**head, "steps": list(steps)}))
    return path


AUTOMATIC: list[dict[str, Any]] = [
    {"name": "device", "check": "device"},
    {"name": "connect", "check": "connect"},
    {"name": "sensors", "check": "sensors"},
    {"name": "battery", "check": "battery", "at_least": {"battery_voltage": 11.0}},
]
PLACE = {"name": "place", "ask": "Are the wheels off the floor?"}
MOTION = {"name": "motion", "check": "motion", "command": [0.05, 0.0], "seconds": 1.0, "ask": "Forward?"}


class Person:
    """Answers prompts at a terminal, in order.

    Args:
        answers: Pairs: what the prompt contains, and what is typed then.
    """

    def __init__(self, *answers: tuple[str, str]) -> None:
        self.answers = list(answers)
        self.seen = ""
        self.ours, theirs = pty.openpty()
        self.theirs = os.fdopen(theirs, "r+b", buffering=0)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        new = ""
        while not self._over.is_set():
            if select.select([self.ours], [], [], 0.02)[0]:
                text = os.read(self.ours, 4096).decode()
                self.seen, new = self.seen + text, new + text
            if self.answers and self.answers[0][0] in new:
                new = ""
                os.write(self.ours, self.answers.pop(0)[1].encode() + b"\n")

    def leave(self) -> None:
        self._over.set()
        self._thread.join()
        self.theirs.close()
        os.close(self.ours)


def at_terminal(monkeypatch: pytest.MonkeyPatch, words: list[str], *answers: tuple[str, str]) -> tuple[int, Person]:
    """Run a command line at a pseudo-terminal with a person; return its exit status."""
    person = Person(*answers)
    terminal = os.fdopen(os.dup(person.theirs.fileno()), "r")
    screen = os.fdopen(os.dup(person.theirs.fileno()), "w", buffering=1)
    with monkeypatch.context() as patched, terminal, screen:
        patched.setattr(sys, "stdin", terminal)
        patched.setattr(sys, "stdout", screen)
        status = cli.main(words)
        screen.flush()
        time.sleep(0.1)
    person.leave()
    return status, person


def test_a_person_walks_through_and_what_passed_is_not_asked_again(
    peer: SerialBasePeer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checklist, record = write_checklist(tmp_path, PLACE, *AUTOMATIC, MOTION), tmp_path / "record.json"
    words = ["bringup", str(checklist), "--uri", peer.uri, "--record", str(record)]
    status, person = at_terminal(
        monkeypatch, words, ("wheels off", "maybe"), ("wheels off", "y"), ("IT WILL MOVE", "move"), ("Forward?", "n")
    )
    assert status == 1 and not person.answers, person.seen
    assert not peer.powered
    steps = json.loads(record.read_text())["steps"]
    assert [steps[name]["result"] for name in ("place", "device", "connect", "sensors", "battery")] == ["passed"] * 5
    assert steps["sensors"]["measured"]["rate_hz"] > 24.0
    assert steps["connect"]["measured"]["firmware"].endswith("protocol 1")
    assert steps["motion"]["result"] == "failed" and steps["motion"]["said"] == "Forward? no"
    assert steps["motion"]["measured"]["measured"][0] > 0.015
    status, person = at_terminal(monkeypatch, words, ("IT WILL MOVE", "move"), ("Forward?", "yes"))
    assert status == 0 and "PASSED." in person.seen, person.seen
    assert "place: passed on " in person.seen and "[6/6] motion" in person.seen
    status, person = at_terminal(monkeypatch, [*words, "--again"], ("wheels off", "q"))
    assert status == 1 and "Ended here" in person.seen


def test_nothing_moves_without_the_word(peer: SerialBasePeer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["bringup", str(write_checklist(tmp_path, MOTION)), "--uri", peer.uri, "--record", str(tmp_path / "r.json")]
    status, person = at_terminal(monkeypatch, words, ("IT WILL MOVE", ""), ("IT WILL MOVE", "y"), ("IT WILL MOVE", "s"))
    assert status == 1 and "Open: motion." in person.seen
    assert not peer.powered and peer.turned == [0.0, 0.0]


def test_without_a_person_the_automatic_steps_are_done(
    peer: SerialBasePeer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checklist, record = write_checklist(tmp_path, PLACE, *AUTOMATIC, MOTION), tmp_path / "record.json"
    words = ["bringup", str(checklist), "--uri", peer.uri, "--record", str(record)]
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert cli.main(words) == 2 and "give --automatic" in capsys.readouterr().err
    assert cli.main([*words, "--automatic"]) == 0
    said = json.loads(record.read_text())
    assert set(said["steps"]) == {"device", "connect", "sensors", "battery"}
    assert said["robot"] == "turtlebot3_burger" and said["versions"]["python"] and said["written"]
    peer.battery = (10.2, 20)
    assert cli.main([*words, "--automatic", "--again"]) == 1
    assert "battery_voltage is 10.2, and must be at least 11" in capsys.readouterr().out


def test_a_robot_that_is_not_that_of_its_file_fails_with_both_values(
    peer: SerialBasePeer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    peer.radius = 0.04
    words = ["bringup", str(write_checklist(tmp_path, *AUTOMATIC)), "--uri", peer.uri, "--automatic"]
    assert cli.main([*words, "--record", str(tmp_path / "r.json")]) == 1
    said = capsys.readouterr().out
    assert "0.0400 m" in said and "0.0330 m" in said and "Stopped" in said


def test_rates_delays_and_noise_are_held_against_the_policy(peer: SerialBasePeer) -> None:
    pytest.importorskip("onnxruntime")
    from rlstack.policies import find_policy

    bench = Bench(ROBOT, "serial_base", peer.uri, str(find_policy("base_navigation")))
    try:  # it has no lidar, which the policy needs
        with pytest.raises(CheckFailed, match="scan: 0 messages came"):
            run(bench, Step(name="envelope", check="envelope"))
    finally:
        bench.close()


def test_a_direction_is_told_from_the_way_it_is_moved_by_hand(peer: SerialBasePeer) -> None:
    bench = Bench(ROBOT, "serial_base", peer.uri)
    forward = Step(name="left", check="by_hand", signal="joint_position", element=0, by=0.5)
    try:
        bench.connect(forward)
        for turn, right in ((1.0, True), (-1.0, False)):
            hand = threading.Timer(0.5, lambda turn=turn: peer.turned.__setitem__(0, peer.turned[0] + turn))
            hand.start()
            if right:
                assert run(bench, forward)["change"] > 0.5
            else:
                with pytest.raises(CheckFailed, match="its direction is wrong"):
                    run(bench, forward)
            hand.join()
    finally:
        bench.close()


def test_a_lost_link_and_a_stop_are_tried_in_motion(peer: SerialBasePeer) -> None:
    bench = Bench(ROBOT, "serial_base", peer.uri)
    moving = {"command": (0.05, 0.0), "seconds": 1.0, "ask": "Did it stop?"}
    try:
        run(bench, Step(name="stop", check="stop", **moving))
        assert soon(lambda: not peer.powered)
        with pytest.raises(CheckFailed, match="was not lost"):
            run(bench, Step(name="link", check="link_loss", **moving))
        pull = threading.Timer(0.5, peer.lose_link)
        pull.start()
        assert run(bench, Step(name="link", check="link_loss", **{**moving, "seconds": 5.0}))["age_s"] > 0.4
    finally:
        bench.close()


@pytest.mark.parametrize("name", checklist_names())
def test_the_checklists_that_come_with_rlstack_are_for_drivers_that_there_are(name: str) -> None:
    checklist = load_checklist(name)
    robot = load_robot(checklist.robot)
    check_commands(checklist, robot)
    driver = BACKENDS.load(checklist.backend)
    assert driver is not None
    checks = [step.check for step in checklist.steps]
    for needed in ("device", "connect", "sensors", "envelope", "motion", "stop", "link_loss"):
        assert needed in checks, f"{name} lacks {needed}"
    assert checks.index("envelope") < checks.index("motion")  # nothing is powered before


def test_every_folder_of_a_robot_has_a_readme_and_a_checklist() -> None:
    from rlstack.resources import find_resource

    found = find_resource("hardware")
    assert found is not None
    folders = [folder for folder in found.iterdir() if folder.is_dir()]
    assert folders
    for folder in folders:
        assert (folder / "README.md").is_file() and (folder / "bringup.yaml").is_file(), folder.name
        text = (folder / "README.md").read_text()
        assert "yet run on the real" in " ".join(text.split()) and "rlstack bringup" in text, folder.name


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({"name": "a", "check": "motion", "command": [0.5, 0.0], "ask": "?"}, "0.1 is the most in a bring-up"),
        ({"name": "a", "check": "motion", "command": [0.05], "ask": "?"}, "a command of 1 numbers"),
        ({"name": "a", "check": "motion", "ask": "?"}, "command must be given with the check 'motion'"),
        ({"name": "a"}, "ask must be given with the check 'question'"),
        ({"name": "a", "check": "jump"}, "jump"),
    ],
)
def test_a_checklist_that_is_not_safe_or_not_whole_is_refused(step: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        check_commands(load_checklist(str(write_checklist(tmp_path, step))), ROBOT)


def test_what_is_no_real_robot_or_no_checklist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bringup", "so10", "--uri", "serial:///dev/null"]) == 2
    assert "Nearest: so100" in capsys.readouterr().err
    assert cli.main(["bringup", "so100"]) == 2
    assert "Give --uri" in capsys.readouterr().err
    assert cli.main(["bringup", "turtlebot3_burger", "--backend", "mujoco", "--uri", "x"]) == 2
    assert "the backend 'mujoco' is none" in capsys.readouterr().err
