"""`rlstack excite`: the motion that tells most is chosen, stays within the limits, and tells what was expected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlstack.bringup.excite.command import Excite, told
from rlstack.bringup.excite.design import Design, design
from rlstack.bringup.excite.rehearsal import Rehearsal
from rlstack.bringup.kind_deployment import deployment_of
from rlstack.errors import UserError
from rlstack.identification.identify import identify
from rlstack.identification.information import information
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.policies.released import find_policy
from rlstack.robots import load_robot

CRAZYFLIE = load_quadrotor("crazyflie")
KNOWN = {"mass": CRAZYFLIE.body.mass_kg}
SECONDS = 12.0


@pytest.fixture(scope="module")
def policy() -> Path:
    return find_policy("quadrotor_hover")


@pytest.fixture(scope="module")
def chosen(policy: Path) -> Design:
    deployment = deployment_of(CRAZYFLIE)
    said: list[tuple[int, int]] = []

    def progress(stage: str, done: int, count: int) -> None:
        said.append((done, count))

    how: dict[str, Any] = {"seconds": SECONDS, "candidates": 3, "seed": 3, "progress": progress}
    found = design(deployment, policy, KNOWN, ("torque", "inertia_z"), **how)
    assert said == [(number, 3) for number in range(4)]
    return found


def test_the_chosen_motion_tells_more_than_the_usual_one_and_stays_in_the_fence(chosen: Design) -> None:
    assert [one.name for one in chosen.told.parameters] == ["torque", "inertia_z"]
    assert chosen.told.score > chosen.usual.score and not chosen.told.untold
    limits, times = CRAZYFLIE.limits, [step.at_s for step in chosen.steps]
    assert times == sorted(times) and times[0] == 0.0 and times[-1] < SECONDS
    for step in chosen.steps:
        assert (np.array(step.position) > limits.geofence_min_m).all()
        assert (np.array(step.position) < limits.geofence_max_m).all()
    assert "torque" in told(chosen) and f"of {chosen.candidates[0]} safe motions of 3" in told(chosen)


def test_a_recording_of_it_tells_what_was_expected(chosen: Design, policy: Path) -> None:
    rehearsal = Rehearsal(deployment_of(CRAZYFLIE), policy, seed=8)
    recorded = rehearsal.run(chosen.steps, SECONDS)
    rehearsal.close()
    assert recorded is not None
    expected = information(CRAZYFLIE, recorded, KNOWN)
    found = identify(CRAZYFLIE, [recorded], KNOWN)
    told = [found.estimates[parameter.name].half_width for parameter in expected.parameters]
    ratios = np.array(told) / expected.half_widths
    assert 0.5 < np.median(ratios) < 3.0, ratios  # few segments tell their own scatter roughly
    assert ratios.max() < 10.0, ratios


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"seconds": 5.0}, "--seconds must be at least 10"),
        ({"candidates": 0}, "--candidates at least 1"),
        ({"robot": "turtlebot3_burger"}, "turtlebot3_burger"),
        ({"record": "."}, "--record: . exists already"),
        ({"known": ("mass",)}, "--known mass is not allowed"),
        (
            {"tell": ("mass",), "seconds": 10.0, "candidates": 1},
            "--tell mass is not allowed, no motion tells it: odometry tells",
        ),
        ({"tell": ("inertia_w",), "seconds": 10.0, "candidates": 1}, "Unknown parameter for --tell 'inertia_w'"),
        ({"backend": "topics", "flown": "crazyflie"}, "--flown is for simulators"),
    ],
)
def test_mistakes_are_refused_before_anything_flies(
    options: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=said):
        Excite(policy="quadrotor_hover", **{"seed": 3, **options}).run()
    assert list(tmp_path.iterdir()) == []


def test_motions_that_leave_the_limits_are_left_out(policy: Path) -> None:
    deployment = deployment_of(CRAZYFLIE)
    rehearsal = Rehearsal(deployment, policy, seed=0)
    far = [
        step.__class__(step.at_s, (9.0, 0.0, 1.0), 0.0)
        for step in deployment.exciting_goals(10.0, np.random.default_rng(0))
    ]
    assert rehearsal.run(far, 10.0) is None
    rehearsal.close()


@pytest.mark.parametrize(
    ("robot", "policy", "rates"),
    [
        ("turtlebot3_burger", "base_navigation", {"odom": 30.0, "joint_states": 30.0, "cmd_vel": 10.0}),
        ("panda", "arm_reach", {"joint_states": 100.0, "cmd/joints": 20.0}),
    ],
)
def test_bases_and_arms_are_rehearsed_at_the_rates_of_their_sensors(
    robot: str, policy: str, rates: dict[str, float]
) -> None:
    deployment = deployment_of(load_robot(robot))
    rehearsal = Rehearsal(deployment, find_policy(policy), seed=0)
    recorded = rehearsal.run(deployment.exciting_goals(2.0, np.random.default_rng(2)), 2.0)
    rehearsal.close()
    assert recorded is not None
    for topic, rate_hz in rates.items():
        assert recorded.tracks[topic].period_s == pytest.approx(1.0 / rate_hz)


def test_goals_of_bases_and_arms_stay_where_there_is_room() -> None:
    base, arm, small = (deployment_of(load_robot(name)) for name in ("turtlebot3_burger", "panda", "so100"))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        for step in base.exciting_goals(20.0, rng):
            assert np.linalg.norm(step.position[:2]) < 1.0 + 1e-9 and 0.0 <= step.at_s < 20.0
        for one in (arm, small):
            low, high = (np.array(getattr(one.robot.limits, f"workspace_{end}_m")) for end in ("min", "max"))
            steps = one.exciting_goals(20.0, rng)
            assert len(steps) > 8 and [step.at_s for step in steps] == sorted(step.at_s for step in steps)
            for step in steps[1:-1]:
                assert (np.array(step.position) > low).all() and (np.array(step.position) < high).all()
    assert base.is_safe({"position": np.zeros(3)}) and not base.is_safe({"position": np.array([2.0, 0.0, 0.0])})
    still = np.array([drive.rest for drive in arm.robot.drives])
    fast = np.full(len(still), 9.0)
    assert arm.is_safe({"joint_position": still, "joint_velocity": 0.0 * fast})
    assert not arm.is_safe({"joint_position": still, "joint_velocity": fast})
