from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from rlstack import cli
from rlstack.bringup.verification_check import require_verification
from rlstack.bringup.verify import verify, verify_planner
from rlstack.errors import UserError
from rlstack.kinds import find_kind, kind_names
from rlstack.kinds.wheeled_base import verification
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.kinds.wheeled_base.verification import MOVERS, OTHER_MAPS, task_on_maps
from rlstack.policies import load_policy, write_policy
from rlstack.tasks import TASKS
from rlstack.verification.navigation_episodes import NavigationEpisodes
from rlstack.verification.training_evaluation import verification_of
from tests.support.bases import turtlebot, write_driving_policy
from tests.support.drives import course_of, room

pytest.importorskip("matplotlib")

ROBOT = turtlebot()


@pytest.fixture(autouse=True)
def small_rooms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ways be short: drawn maps would take a minute."""

    def course(
        robot: WheeledBase, count: int, seed: int, *, kinds: Sequence[str], **settings: object
    ) -> NavigationEpisodes:
        maps = [room(seed + k, kind=kinds[k % len(kinds)], metres=0.5 + 0.1 * k) for k in range(count)]
        return course_of(robot, maps, limit_s=6.0)

    monkeypatch.setattr(verification, "held_out_episodes", course)


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_driving_policy(tmp_path_factory.mktemp("policy") / "policy.onnx", ROBOT)
    write_policy(onnx.load(path), replace(load_policy(path).contract, task="base_navigation"), path)
    return path


def test_a_base_is_driven_beside_planners_and_reported(policy: Path) -> None:
    verified = verify(policy, backends=["batch"], episodes=2, drivers=["dwa"], margins=["none"])
    data = json.loads((policy.parent / "verify_in_process.json").read_text())
    assert list(data["backends"]) == ["batch", MOVERS, OTHER_MAPS] and not data["passed"]
    entry = data["backends"]["batch"]
    assert (entry["episodes"], entry["success"], entry["reference"], entry["paired"]) == (2, 1.0, "dwa", 2)
    assert list(data["backends"]["batch"]["baselines"]) == ["dwa"]
    assert list(data["backends"]["batch"]["by_label"]) == ["clutter"]
    assert set(data["transfer"]) == {"drive", "dwa"}
    assert any("are too few" in reason for reason in data["reasons"])
    assert verified.table().endswith(f"FAILED. Report: {verified.report}")
    assert "--drivers dwa" in data["command"]
    with pytest.raises(UserError, match="has not been verified"):
        require_verification(policy, ROBOT)


def test_a_planner_alone_gets_a_report_and_no_verdict(tmp_path: Path) -> None:
    driven = verify_planner("dwa", episodes=1, out=tmp_path)
    assert "NOT JUDGED. Report" in driven.table()
    data = json.loads((tmp_path / "verify_in_process.json").read_text())
    assert data["policy"] == "dwa" and data["sha256"] == "" and data["backends"]["batch"]["baselines"] == {}
    assert (tmp_path / "animation_batch.gif").is_file()


@pytest.mark.parametrize(
    ("told", "elsewhere", "among"),
    [
        ({}, True, False),  # it does not say what it was trained on
        ({"recipe": {"task_settings": {"maps": {"kinds": ["clutter"]}, "moving": {"count": [0, 0]}}}}, False, False),
        ({"recipe": {"task_settings": {"maps": {"kinds": ["clutter"]}, "moving": {"count": [0, 3]}}}}, False, True),
        ({"recipe": {"task_settings": {"moving": {"count": [0, 0]}}}}, True, False),
    ],
)
def test_what_a_policy_never_met_is_shown_and_not_judged(
    policy: Path, tmp_path: Path, told: dict[str, object], elsewhere: bool, among: bool
) -> None:
    path = tmp_path / "policy.onnx"
    write_policy(onnx.load(policy), replace(load_policy(policy).contract, training=told), path)
    verified = verify(path, backends=["batch"], episodes=1, drivers=["dwa"], margins=["none"])
    asked = {name: entry["asked"] for name, entry in verified.as_data()["backends"].items()}
    assert asked["batch"] and (bool(asked[OTHER_MAPS]), bool(asked[MOVERS])) == (elsewhere, among)


def test_a_column_that_is_not_judged_is_told_apart(policy: Path, tmp_path: Path) -> None:
    told = {"recipe": {"task_settings": {"maps": {"kinds": ["clutter"]}, "moving": {"count": [0, 0]}}}}
    path = tmp_path / "policy.onnx"
    write_policy(onnx.load(policy), replace(load_policy(policy).contract, training=told), path)
    table = verify(path, backends=["batch"], episodes=1, drivers=["dwa"], margins=["none"]).table()
    assert f"Judged: batch. Not judged, shown for comparison: {MOVERS}, {OTHER_MAPS}." in table
    assert f"{MOVERS}: not judged (shown for comparison)." in table
    assert "batch: judged: success at least 95.0%, collisions at most 3.0%" in table
    assert table.splitlines()[1].split() == ["judged", "not", "judged", "not", "judged"]


def test_each_kind_of_robot_has_its_verification() -> None:
    task = TASKS.load("base_navigation")
    assert verification_of(task, "quadrotor") is verification_of(None, "wheeled_base") is verification.VERIFICATION
    ways = {verification_of(TASKS.load(name)) for name in TASKS.names()}
    assert len(ways) == 9 and all(find_kind(kind).has("verification") for kind in kind_names())
    with pytest.raises(UserError, match="Unknown kind of robot 'boat'"):
        verification_of(None, "boat")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--drivers", "dwaa"], "Unknown planner 'dwaa'.*Nearest: dwa"),
        (["--drivers", ""], "drivers: an empty list is not allowed.*name at least one, such as --drivers dwa"),
        (["--driver", "dwa"], "one of the two"),
        (["--episodes", "0"], "0 episodes are not allowed"),
        (["--backends", "gazebo"], "Unknown backend"),
    ],
)
def test_what_makes_no_sense_is_refused(
    policy: Path, capsys: pytest.CaptureFixture[str], given: list[str], words: str
) -> None:
    assert cli.main(["verify", str(policy), "--no-topics", *given]) == 2
    assert re.search(words, capsys.readouterr().err)


def test_a_planner_that_leads_a_policy_takes_one(
    policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["verify", "--driver", "astar_policy"]) == 2
    assert "astar_policy needs a policy" in capsys.readouterr().err
    given = ["verify", str(policy), "--driver", "astar_policy", "--episodes", "1", "--out", str(tmp_path)]
    assert cli.main(given) == 0
    data = json.loads((tmp_path / "verify_in_process.json").read_text())
    assert data["backends"]["batch"]["success"] == 1.0 and f"{policy} --driver astar_policy" in data["command"]


def test_tasks_without_maps_and_planners_of_other_robots_are_refused() -> None:
    with pytest.raises(UserError, match="'quadrotor_hover' is not verified on maps"):
        task_on_maps("quadrotor_hover")
    with pytest.raises(UserError, match="planners drive only wheeled bases"):
        verify_planner("dwa", robot="crazyflie")
