from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.nodes.policy_swap import Proven, require_record, require_same
from rlstack.policies import contract_for
from rlstack.policies.record import Record

ROBOT = load_quadrotor("crazyflie")
INPUTS = ("position", "orientation", "goal_position")
FLOWN = contract_for(ROBOT, INPUTS, ["rotor_speed"], name="flown", task="test")


def test_a_policy_with_narrower_outputs_and_another_training_may_take_over() -> None:
    (port,) = FLOWN.outputs
    narrower = replace(port, maximum=tuple(0.9 * speed for speed in port.maximum))
    require_same(FLOWN, replace(FLOWN, name="next", outputs=(narrower,), training={"seed": 1}), "next.onnx")


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (
            contract_for(ROBOT, (*INPUTS[:2], "angular_velocity"), ["rotor_speed"], name="next", task="test"),
            "next.onnx has other inputs than flown, which steps: it lacks goal_position and has angular_velocity as",
        ),
        (replace(FLOWN, rate_hz=50.0), "next.onnx steps at 50 Hz, not at 100 Hz as flown"),
        (
            replace(FLOWN, inputs=(replace(FLOWN.inputs[0], frame="map"), *FLOWN.inputs[1:])),
            "next.onnx: the input 'position' has the frame map, not odom as now",
        ),
        (
            contract_for(ROBOT, INPUTS, ["rotor_speed"], name="next", task="test", state={"count": (1,)}),
            "next.onnx keeps recurrent state, unlike flown",
        ),
        (replace(FLOWN, chunk=(8, 4)), "next.onnx plans chunks"),
    ],
)
def test_what_differs_is_refused_by_name(other: Any, says: str) -> None:
    with pytest.raises(UserError) as refused:
        require_same(FLOWN, other, "next.onnx")
    assert says in str(refused.value)


NEXT: Any = SimpleNamespace(path=Path("next.onnx"), sha256="1" * 64)
PROVEN = {
    "sha256": NEXT.sha256,
    "robot": ROBOT.name,
    "robot_sha256": ROBOT.sha256,
    "passed": True,
    "backends": {"mujoco": {"flown_in": "mujoco (topics)"}},
}
IN_PROCESS = {"batch": {"flown_in": "batch simulator (in process)"}}


def record(doubt: str = "", **changed: Any) -> Record:
    return Record(Path("verify.json"), {**PROVEN, **changed}, doubt=doubt)


def origin(doubt: str = "", **changed: Any) -> Proven:
    return Proven("0" * 64, record(doubt, sha256="0" * 64, **changed))


def test_a_policy_with_a_proof_over_topics_may_take_over() -> None:
    require_record(record(), NEXT, ROBOT)
    require_record(record(robot="x500", robot_sha256="2" * 64), NEXT, None)


@pytest.mark.parametrize(
    ("changed", "doubt", "says"),
    [
        ({}, "is unsigned", "next.onnx is not proven: its record verify.json is unsigned"),
        ({"sha256": "2" * 64}, "", "verify.json is for another policy file"),
        ({"passed": False}, "", "next.onnx did not pass its verification"),
        ({"robot": "x500"}, "", "is not proven for this robot file"),
        ({"robot_sha256": "2" * 64}, "", "is not proven for this robot file"),
        ({"backends": IN_PROCESS}, "", "verify.json is of trials in process only, not over topics"),
    ],
)
def test_a_policy_without_a_proof_is_refused(changed: dict[str, Any], doubt: str, says: str) -> None:
    with pytest.raises(UserError) as refused:
        require_record(record(doubt, **changed), NEXT, ROBOT, origin())
    assert says in str(refused.value)


ADAPTED = {"robot_sha256": "2" * 64, "adapted_from": "0" * 64, "backends": IN_PROCESS}


def test_one_that_was_adapted_from_a_proven_one_is_proven_for_what_its_flight_told() -> None:
    require_record(record(**ADAPTED), NEXT, ROBOT, origin())


@pytest.mark.parametrize(
    ("changed", "doubt", "proven", "says"),
    [
        ({}, "", None, "is not proven for this robot file"),
        ({"adapted_from": "3" * 64}, "", origin(), "is not proven for this robot file"),
        ({"passed": False}, "", origin(), "next.onnx did not pass its verification"),
        ({}, "is unsigned", origin(), "is unsigned"),
        ({}, "", origin(backends=IN_PROCESS), "adapted from a policy whose own proof is not complete"),
        ({}, "", origin("is unsigned"), "adapted from a policy whose own proof is not complete"),
    ],
)
def test_an_adapted_one_needs_its_own_proof_and_the_whole_one_of_its_origin(
    changed: dict[str, Any], doubt: str, proven: Proven | None, says: str
) -> None:
    with pytest.raises(UserError) as refused:
        require_record(record(doubt, **{**ADAPTED, **changed}), NEXT, ROBOT, proven)
    assert says in str(refused.value)
