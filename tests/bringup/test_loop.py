"""`rlstack loop`: the order of its stages, what stops it, how it goes on, and what it flies."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlstack.bringup.goal_steps import judged_windows
from rlstack.bringup.kind_deployment import deployment_of
from rlstack.bringup.loop.command import Loop
from rlstack.bringup.loop.flight import Flown, _Watch, with_other_robot
from rlstack.bringup.loop.page import rows, table
from rlstack.bringup.loop.stages import Identified, Proof, Trained, first_policy
from rlstack.bringup.loop.turns import Plan, opened, run_turns
from rlstack.bringup.system import deploy_system
from rlstack.errors import UserError
from rlstack.robots import load_robot

PLAN = Plan("quadrotor_hover", "quadrotor_hover", "crazyflie", 2, {"seed": 0})


@pytest.fixture(autouse=True)
def _few_pages(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no pages, which takes a second each, where a test is not about them."""
    if "pages" not in request.fixturenames:
        monkeypatch.setattr("rlstack.bringup.loop.turns.write_page", lambda *_: None)


@pytest.fixture
def pages() -> None:
    """Let loops write their pages."""


class Steps:
    """Stages that only tell what was asked of them."""

    def __init__(self, fails: str = "", passes: bool = True) -> None:
        self.said: list[tuple[Any, ...]] = []
        self.fails, self.passes = fails, passes

    def _say(self, name: str, *what: Any) -> None:
        self.said.append((name, *what))
        if self.fails == f"{name} {sum(one[0] == name for one in self.said)}":
            raise KeyboardInterrupt

    def fly(self, policy: str, robot: str, bag: Path, turn: int) -> Flown:
        self._say("fly", policy, Path(robot).stem, turn)
        return Flown(60.0, 0.1 / turn, 0.0)

    def identify(self, robot: str, bags: Sequence[Path], out: Path) -> Identified:
        self._say("identify", Path(robot).stem, len(bags), out.stem)
        told = {"value": 2.0, "unit": "g", "verdict": "told", "why": ""}
        kept = {"value": 1.0, "unit": "", "verdict": "kept", "why": "the recording does not tell it"}
        gaps = {"gap_before": {"position": [0.1, 0.4]}, "gap_after": {"position": [0.01, 0.02]}}
        return Identified({"parameters": {"thrust": told, "drag_z": kept}, **gaps}, out)

    def train(self, origin: str, robot: Path, folder: Path) -> Trained:
        self._say("train", origin, robot.stem)
        return Trained(folder / "policy.onnx", {"error_m": 0.2}, {"error_m": 0.1}, 1000, 3.0)

    def prove(self, policy: Path, robot: Path) -> Proof:
        self._say("prove", policy.parent.parent.name, robot.stem)
        return Proof(self.passes, "abc", () if self.passes else ("0.0% success in mujoco",), policy)


def test_each_turn_flies_what_the_last_one_proved(tmp_path: Path, pages: None) -> None:
    folder, steps = tmp_path / "loop", Steps()
    assert opened(folder, PLAN) is False
    assert run_turns(folder, PLAN, steps, lambda line: None)
    first = str(folder / "turn-01" / "run")
    assert [one[0] for one in steps.said] == [*("fly", "identify", "train", "prove") * 2, "fly"]
    flights = [one for one in steps.said if one[0] == "fly"]
    assert flights[0] == ("fly", "quadrotor_hover", "crazyflie", 1)
    assert flights[1] == ("fly", f"{first}/policy.onnx", "crazyflie_1", 2)
    assert flights[2] == ("fly", str(folder / "turn-02" / "run" / "policy.onnx"), "crazyflie_2", 3)
    assert [one for one in steps.said if one[0] == "train"] == [
        ("train", "quadrotor_hover", "crazyflie_1"),
        ("train", first, "crazyflie_2"),
    ]
    assert steps.said[5] == ("identify", "crazyflie_1", 2, "crazyflie_2")  # from both flights
    data = json.loads((folder / "loop.json").read_text())
    shown = rows(data)
    assert [(row["before"], row["after"]) for row in shown] == [("100.0 mm", "50.0 mm"), ("50.0 mm", "33.3 mm")]
    assert (shown[0]["gap_before"], shown[0]["gap_after"]) == ("400.0 mm", "20.0 mm")
    assert "drag_z" in table(data) and "the recording does not tell it" in (folder / "loop.html").read_text()


def test_a_policy_that_does_not_pass_is_never_flown(tmp_path: Path) -> None:
    folder, steps, said = tmp_path / "loop", Steps(passes=False), []
    opened(folder, PLAN)
    assert not run_turns(folder, PLAN, steps, said.append)
    assert [one[0] for one in steps.said] == ["fly", "identify", "train", "prove"]
    assert "did not pass its proof, and is not flown: 0.0% success in mujoco" in said[-1]
    again = Steps(passes=False)
    assert not run_turns(folder, PLAN, again, said.append) and again.said == []


@pytest.mark.parametrize("where", ["fly 1", "identify 1", "train 2", "prove 1", "fly 3"])
def test_a_loop_that_was_stopped_goes_on_with_the_same_stage(tmp_path: Path, where: str) -> None:
    folder, steps = tmp_path / "loop", Steps(fails=where)
    opened(folder, PLAN)
    with pytest.raises(KeyboardInterrupt):
        run_turns(folder, PLAN, steps, lambda line: None)
    rest = Steps()
    assert opened(folder, PLAN) is True
    assert run_turns(folder, PLAN, rest, lambda line: None)
    assert rest.said[0] == steps.said[-1] and len(steps.said) + len(rest.said) == 10


def test_the_rest_is_estimated_once_each_stage_was_seen(tmp_path: Path) -> None:
    said: list[str] = []
    opened(tmp_path / "loop", PLAN)
    run_turns(tmp_path / "loop", PLAN, Steps(), said.append)
    assert said[0] == "Turn 1 of 2: fly"  # nothing is known yet
    (tmp_path / "loop" / "turn-01" / "fly.json").write_text(json.dumps({"took_s": 60.0, "accuracy_m": 0.1}))
    (tmp_path / "loop" / "turn-02" / "prove.json").unlink()
    run_turns(tmp_path / "loop", PLAN, Steps(), said.append)
    assert said[-1].startswith("Turn 2 of 2: prove, about 30 s left")


def test_another_plan_or_another_folder_is_refused(tmp_path: Path) -> None:
    opened(tmp_path / "loop", PLAN)
    opened(tmp_path / "loop", replace(PLAN, turns=5))
    with pytest.raises(UserError, match="has other settings: robot was crazyflie, now racer"):
        opened(tmp_path / "loop", replace(PLAN, robot="racer"))
    with pytest.raises(UserError, match="exists already, and is no loop"):
        opened(tmp_path, PLAN)


@pytest.mark.parametrize("robot", ["crazyflie", "turtlebot3_burger"])
def test_goals_stay_within_limits_and_some_are_held(robot: str) -> None:
    spec = load_robot(robot)
    steps = deployment_of(spec).goal_steps(60.0, 3)
    assert [step.at_s for step in steps] == sorted(step.at_s for step in steps) and steps[0].at_s == 0.0
    assert all(abs(x) <= 2.0 for step in steps for x in step.position)
    limits = spec.goal_limits()
    assert limits is None or not any(limits.refusal(step.position) for step in steps)  # type: ignore[arg-type]
    windows = judged_windows(steps, 60.0)
    assert len(windows) >= 3 and all(end - begin >= 2.0 and end <= 60.0 for begin, end in windows)
    assert steps == deployment_of(spec).goal_steps(60.0, 3)


def test_other_kinds_are_refused() -> None:
    with pytest.raises(UserError, match="panda is a manipulator"):
        deployment_of(load_robot("panda")).goal_steps(60.0, 0)


def test_the_distance_counts_at_the_end_of_each_hold() -> None:
    steps = deployment_of(load_robot("crazyflie")).goal_steps(20.0, 0)
    watch, sent = _Watch(steps, 20.0), []
    assert watch.update(1.0, "takeoff", 9.0) is None and watch.flown_s == 0.0
    for k in range(2001):
        judged = any(begin <= 0.01 * k < end for begin, end in judged_windows(steps, 20.0))
        mode = "fallback" if 700 < k <= 800 else "policy"
        if (step := watch.update(5.0 + 0.01 * k, mode, 0.02 if judged else 5.0)) is not None:
            sent.append(step)
    assert sent == steps and watch.over and watch.complete
    result = watch.result()
    assert result.accuracy_m == pytest.approx(0.02) and result.took_over_s == pytest.approx(1.0)
    assert result.seconds == pytest.approx(19.0)
    early = _Watch(steps, 20.0)
    early.update(0.0, "policy", math.nan)
    early.update(3.0, "estop", math.nan)
    assert early.over and not early.complete and "estop" in early.why


def test_only_the_simulator_has_the_other_robot(tmp_path: Path) -> None:
    from tests.training.test_origin import heavier

    real = heavier(tmp_path)
    system = with_other_robot(deploy_system("quadrotor_hover", "crazyflie"), real)
    robots = {one.name: str(one.parameters["robot"]) for one in system.processes if "robot" in one.parameters}
    assert robots["robot"] == real and {robots[name] for name in robots if name != "robot"} == {"crazyflie"}
    node = next(one for one in system.processes if one.name == "robot")
    assert node.parameters["robot_sha256"] == load_robot(real).sha256
    with pytest.raises(UserError, match="turtlebot3_burger is a wheeled_base"):
        with_other_robot(system, "turtlebot3_burger")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"turns": 0}, "--turns must be at least 1"),
        ({"seconds": 5.0}, "--seconds at least 20"),
        ({"known": ("mass",)}, "--known mass is not allowed"),
        ({"set": ("steps",)}, "--set steps is not allowed"),
        ({"backend": "topics", "flown": "racer"}, "a real robot is what it is"),
    ],
)
def test_mistakes_are_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=said):
        Loop("quadrotor_hover", **options).run()
    assert list(tmp_path.iterdir()) == []


def test_without_a_proven_policy_it_says_how_to_get_one() -> None:
    with pytest.raises(UserError, match=r"Nothing is flown that is not proven.*rlstack fly quadrotor_tracking"):
        first_policy("quadrotor_tracking")
    assert first_policy("quadrotor_hover") == "quadrotor_hover"
