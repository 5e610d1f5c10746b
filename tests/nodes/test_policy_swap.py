from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.nodes.policy_swap import require_record, require_same
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
PROVEN = {"sha256": NEXT.sha256, "robot": ROBOT.name, "robot_sha256": ROBOT.sha256, "passed": True}


@pytest.mark.parametrize(
    ("changed", "doubt", "says"),
    [
        ({}, "is unsigned", "next.onnx is not proven: its record verify.json is unsigned"),
        ({"sha256": "2" * 64}, "", "verify.json is for another policy file"),
        ({"passed": False}, "", "next.onnx did not pass its verification"),
        ({"robot": "x500"}, "", "is not proven for this robot file"),
        ({"robot_sha256": "2" * 64}, "", "is not proven for this robot file"),
    ],
)
def test_a_policy_without_a_proof_is_refused(changed: dict[str, Any], doubt: str, says: str) -> None:
    with pytest.raises(UserError) as refused:
        require_record(Record(Path("verify.json"), {**PROVEN, **changed}, doubt=doubt), NEXT, "0" * 64, ROBOT)
    assert says in str(refused.value)


def test_one_that_was_adapted_from_the_one_that_flies_is_proven_for_what_its_flight_told() -> None:
    data = {**PROVEN, "robot_sha256": "2" * 64, "adapted_from": "0" * 64}
    require_record(Record(Path("verify.json"), data), NEXT, "0" * 64, ROBOT)
    with pytest.raises(UserError, match="is not proven for this robot file"):
        require_record(Record(Path("verify.json"), data), NEXT, "3" * 64, ROBOT)
