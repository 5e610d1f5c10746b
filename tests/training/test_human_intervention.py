"""A human's hand intervenes in learning: when it leads, what is kept of it, how it ends a run, and what is refused."""

from __future__ import annotations

import shutil
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from rlstack import cli
from rlstack.bringup.teleop import teleop_device
from rlstack.data.replay import ReplayReader
from rlstack.demonstrations import teleoperation as by_hand
from rlstack.errors import UserError
from rlstack.hardware.devices import STOP, TeleopInput
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import load_robot
from rlstack.tasks.manipulator.trials import Motion
from rlstack.training import ALGORITHMS, run
from rlstack.training.hindsight_replay import INTERVENTIONS, REPLAY
from rlstack.training.human_intervention import HumanIntervener, human_intervener
from rlstack.training.intervention_strategies import IntervenerSettings, intervener_of
from rlstack.training.recipe import recipe_from_data
from tests.support.reaching import Reaching

PANDA = load_robot("panda")
assert isinstance(PANDA, Manipulator)

SMALL: dict[str, Any] = {"hidden": [16], "batch": 16, "demonstrations": 1, "updates": 0.25}
RECIPE: dict[str, Any] = {
    "name": "led",
    "task": "arm_reach",
    "robot": "panda",
    "algorithm": "hil_serl",
    "steps": 48,
    "envs": 1,
    "selection": {"episodes": 1, "after": 1.0},
    "task_settings": {"rewards": "sparse", "episode_s": 20.0},
    "algorithm_settings": {**SMALL, "warm_up": 0, "critics": 2},
}

MOVES = """\
moves:
  - {steps: 4, intervene: false}
  - {steps: 6, linear: [0, 1, 0]}
  - {steps: 5}
  - {steps: 3, intervene: false}
  - {steps: 7, linear: [0, 0, 0.5]}
  - {steps: 99, intervene: false}
"""
LED = [False] * 4 + [True] * 11 + [False] * 3 + [True] * 7 + [False] * 23
"""Of the 48 steps of a run."""


def led(where: str, algorithm: str = "hil_serl", **changes: Any) -> Any:
    settings = {**SMALL, "pretraining": 2} if algorithm == "dagger" else RECIPE["algorithm_settings"]
    settings = {**settings, "intervener": {"kind": "hand", "teleop": where}}
    return recipe_from_data({**RECIPE, "algorithm": algorithm, "algorithm_settings": settings, **changes}, "it")


def kept(folder: Path) -> dict[str, np.ndarray]:
    reader = ReplayReader(folder)
    return reader.gather(reader.indices())


def made(algorithm: str, where: str) -> Any:
    """Return an algorithm at one arm."""
    recipe = led(where, algorithm)
    task = recipe.task_settings
    environment = task.environment(PANDA, task.pipeline(PANDA), 1, device="cpu", seed=0)
    return ALGORITHMS.load(algorithm)(recipe.algorithm_settings, environment)


@pytest.mark.parametrize("algorithm", ["rlif", "dagger"])
def test_what_a_hand_does_is_done_and_learned_from_as_a_correction(
    algorithm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moves = tmp_path / "moves.yaml"
    moves.write_text(MOVES)
    learner = made(algorithm, f"script:{moves}")
    learner.open(tmp_path)
    with human_intervener(learner, learner.environment, teleop_device):
        assert sum(learner.iterate(0.0).logged()["train/intervened"] for _ in range(6)) == pytest.approx(18 / 8)
    said = capsys.readouterr().err
    assert "The script leads." in said and said.count("You lead.") == 2 and said.count("The policy acts.") == 2
    done = [[0.0, 1.0, 0.0]] * 6 + [[0.0, 0.0, 0.0]] * 5 + [[0.0, 0.0, 0.5]] * 7
    corrections = kept(tmp_path / INTERVENTIONS)
    np.testing.assert_allclose(corrections["action"], done)
    learner.environment.close()
    if algorithm == "dagger":
        return
    every = kept(tmp_path / REPLAY)
    assert len(every["action"]) == 48
    np.testing.assert_allclose(every["action"][LED], done)
    for name in ("observation", "next_observation"):
        np.testing.assert_array_equal(every[name][LED], corrections[name])
    assert np.flatnonzero(every["reward"]).tolist() == [3, 17], "after these steps the hand took over"


def test_a_hand_that_says_that_this_was_all_ends_the_run_which_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run._Run, "_evaluate", lambda self: self.best.update(actor={}, rank=[], step=0, figures={}))
    monkeypatch.setattr(run._Run, "export", lambda self, path: path)
    moves, folder = tmp_path / "moves.yaml", tmp_path / "run"
    moves.write_text("moves: [{steps: 9, linear: [0, 0, 1]}, {said: stop}]")
    stopped = run.start(led(f"script:{moves}"), folder, devices=teleop_device)
    assert not stopped.finished and stopped.steps == 16
    later = tmp_path / "later"
    shutil.copytree(folder, later)  # as if the process were gone, which lets go of the buffers
    again = run.resume(later, devices=teleop_device)  # the script begins anew
    assert not again.finished and again.steps == 32
    assert len(kept(later / INTERVENTIONS)["action"]) == 18
    assert run.export(folder, tmp_path / "policy.onnx"), "nobody need lead for that"
    with pytest.raises(UserError, match="hand is only for `rlstack train`"):
        run.resume(folder)


class Device:
    """A device that does what it is told to."""

    keys, live = "", False

    def __init__(self, *hands: Any) -> None:
        self.hands, self.closed = list(hands), False

    def open(self) -> None: ...

    def read(self) -> TeleopInput:
        hand = self.hands.pop(0)
        if isinstance(hand, UserError):
            raise hand
        return hand  # type: ignore[no-any-return]

    def close(self) -> None:
        self.closed = True


STILL, UP = np.zeros(3), np.array([0.0, 0.0, 1.0])


@pytest.fixture(autouse=True)
def without_limits(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """What only decides who leads has no arm."""
    if "decided" in request.function.__code__.co_names:
        monkeypatch.setattr("rlstack.training.human_intervention.clippings", lambda *_: [])


def decided(device: Device, *begins: int) -> list[bool]:
    """Return who led each step; no limits are looked at."""
    environment: Any = SimpleNamespace(task=SimpleNamespace(axes=("x", "y", "z"), rate_hz=20.0), senses=dict)
    hand = HumanIntervener(device, environment)
    found = []
    for step in range(len(device.hands)):
        told = hand.decide(torch.zeros(1, 4), torch.full((1, 3), 0.3), torch.tensor([step in begins]))
        found.append(bool(told.now))
        assert told.now.shape == (1,) and told.action.shape == (1, 3)
        assert bool((told.action == 0.3).all()) is not found[-1]
    return found


def test_a_hand_takes_over_by_moving_or_by_saying_so_and_hands_back() -> None:
    still, up, off = TeleopInput(), TeleopInput(UP), TeleopInput(intervene=False)
    # a keyboard's hand leads from the beginning, and has not moved
    assert decided(Device(still, still, up, still, off, off, still, still, off)) == [
        *(False, False, True, True, False),
        *(False, True, True, False),
    ]
    # in an episode of its own it has to do so again
    assert decided(Device(up, still, still, still, up, still), 0, 2) == [True, True, False, False, True, True]
    # a gripper that was closed once is no motion
    closed = TeleopInput(gripper=-1.0)
    assert decided(Device(still, closed, closed, closed, off, off), 0, 2) == [False, True, False, False, False, False]


def test_a_hand_that_is_gone_hands_back_and_ends_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    device = Device(TeleopInput(UP), UserError("The gamepad is gone."), "not read")
    assert decided(device, 0) == [True, False, False] and device.hands == ["not read"]
    said: list[str] = []
    hand = HumanIntervener(
        Device(UserError("It is gone."), TeleopInput(events=(STOP,))), SimpleNamespace(), said.append
    )  # type: ignore[arg-type]
    assert not hand.stopped and hand._read().intervene is False and hand.stopped and said == ["It is gone."]


def test_steps_last_as_long_as_they_should_where_a_human_is_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, slept = [100.0], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock[0] += seconds

    monkeypatch.setattr(by_hand, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep))
    device = Device(*[TeleopInput()] * 5)
    device.live = True
    decided(device)
    np.testing.assert_allclose(slept, [0.05] * 3, atol=1e-9)  # the first two are due at once


def test_what_a_hand_cannot_do_is_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, folder = tmp_path / "led.yaml", tmp_path / "run"
    recipe.write_text(yaml.safe_dump(RECIPE))

    words = ["train", str(recipe), "--out", str(folder)]
    hand = ["--algorithm-settings.intervener.kind", "hand", "--algorithm-settings.intervener.teleop", "keyboard"]

    def refused(*options: str) -> str:
        with pytest.raises(SystemExit) as ended:
            raise SystemExit(cli.main([*words, *options]))
        assert ended.value.code == 2 and not folder.exists()
        return " ".join(capsys.readouterr().err.replace("│", " ").split())

    with Path("/dev/null").open() as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        assert "standard input is none" in refused(*hand)
    assert "kind: hand needs a device" in refused(*hand[:2])
    assert "are a hand's, not allowed with kind: random" in refused(*hand[2:])


def test_devices_that_are_none_are_refused() -> None:
    with pytest.raises(UserError, match=r"Unknown device 'keybord'\. Nearest: keyboard"):
        teleop_device("keybord", PANDA, Motion())
    with pytest.raises(UserError, match=r"Unknown device 'joystick'.*Known: (?!.*\bjoy\b).*script.*topic"):
        teleop_device("joystick", PANDA, Motion())
    with pytest.raises(UserError, match="rlstack teleop --device joy --only-device, and give topic"):
        teleop_device("joy", PANDA, Motion())


def test_several_arms_and_what_is_none_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    settings = SimpleNamespace(intervener=IntervenerSettings(kind="hand", teleop="keyboard"))
    algorithm: Any = SimpleNamespace(settings=settings)

    def enter(environment: Any, device: Device | None = None) -> None:
        with human_intervener(algorithm, environment, lambda *given: device):
            raise AssertionError("it should have been refused")

    with pytest.raises(UserError, match="this task has none"):
        enter(Reaching(1))
    task = led("keyboard").task_settings
    environment = task.environment(PANDA, task.pipeline(PANDA), 2, device="cpu", seed=0)
    with pytest.raises(UserError, match=r"envs: 2: a person controls one robot: --envs 1"):
        enter(environment)
    environment.close()
    one = task.environment(PANDA, task.pipeline(PANDA), 1, device="cpu", seed=0)
    leader = Device(TeleopInput(joints={"panda_joint1": 0.0}))
    leader.live = True
    with pytest.raises(UserError, match="keyboard commands joints"):
        enter(one, leader)
    assert leader.closed
    shown = IntervenerSettings(kind="hand", teleop="keyboard", view=True)
    algorithm.settings = SimpleNamespace(intervener=shown)
    device = Device()
    with human_intervener(algorithm, one, lambda *given: device) as operator:
        assert operator is not None
    said = capsys.readouterr().err
    address = said.partition("Open ")[2].split()[0]
    assert device.closed
    with pytest.raises(OSError), urllib.request.urlopen(address, timeout=5):
        pass  # the page has ended, too
    one.close()


def test_nobody_intervenes_until_the_hand_is_there() -> None:
    settings = IntervenerSettings(kind="hand", teleop="keyboard")
    nobody = intervener_of(settings, Reaching(), 0)
    proposed = torch.rand(8, 2)
    told = nobody.decide(torch.zeros(8, 4), proposed, torch.ones(8, dtype=torch.bool))
    assert not told.now.any() and torch.equal(told.action, proposed)
    nobody.load_state_dict(nobody.state_dict())
