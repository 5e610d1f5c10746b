from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rlstack.agent.abilities import Abilities, abilities_of
from rlstack.agent.checks import Situation, check_plan, target_of
from rlstack.agent.grammar import plan_by_grammar
from rlstack.agent.skills import Disarm, Instruct, Return, Turn
from rlstack.errors import UserError
from rlstack.interfaces.instruction import TextInput
from rlstack.policies import find_policy, load_policy
from rlstack.robots import load_robot


def abilities(policy: str, **changes: Any) -> Abilities:
    contract = load_policy(find_policy(policy)).contract
    return replace(abilities_of(load_robot(contract.robot), contract), **changes)


DRONE = abilities("quadrotor_hover", places={"corner": (2.0, 2.0, 1.0), "far away": (20.0, 0.0, 1.0)})
BASE, REACHING, CARRYING = abilities("base_navigation"), abilities("arm_reach"), abilities("arm_pick_place")
TOLD = Abilities(
    robot="panda", policy="posture", text=TextInput(words=("push", "the", "block"), examples=("push the block",))
)
ON_THE_GROUND = Situation(mode="disarmed", position=np.zeros(3), goal=np.array([0.0, 0.0, 1.0]))
FLYING = replace(ON_THE_GROUND, mode="policy", off=False, position=np.array([0.0, 0.0, 1.0]))


def refusal(sentence: str, now: Situation, able: Abilities) -> str:
    with pytest.raises(UserError) as refused:
        check_plan(plan_by_grammar(sentence, able), now, able)
    return str(refused.value)


def test_what_contracts_and_robot_files_say_becomes_skills() -> None:
    assert {"take_off", "land", "go_to", "turn"} <= set(DRONE.skills) and "disarm" not in DRONE.skills
    assert (DRONE.goes, BASE.goes) == ("fly to", "drive to")
    assert (REACHING.goes, CARRYING.goes) == ("move the tool to", "put the object at")
    assert {"arm", "rest"} <= set(BASE.skills) and not {"turn", "take_off", "instruct"} & set(BASE.skills)
    assert "go_to" not in abilities_of(load_robot("panda"), None).skills, "neither a policy nor a planner"


@pytest.mark.parametrize(
    ("sentence", "now", "able", "said"),
    [
        ("fly to 1 0 1", ON_THE_GROUND, DRONE, "it is disarmed: begin with 'take off'"),
        ("take off, land, go up 1 m", ON_THE_GROUND, DRONE, "Step 3, go 1.00 m up: it is disarmed"),
        ("take off, fly to 9 0 1", ON_THE_GROUND, DRONE, "Step 2.*outside the geofence.*nearest goal inside is"),
        ("go 2 m forward twice", FLYING, DRONE, "Step 2, go 2.00 m forward: it is outside the geofence"),
        ("fly to 1 0 -0.1", FLYING, DRONE, "below the floor"),
        ("go to far away", FLYING, DRONE, "outside the geofence"),
        ("take off", replace(ON_THE_GROUND, stopped=True), DRONE, "rlstack estop --clear"),
        ("take off", replace(ON_THE_GROUND, battery=0.15), DRONE, "the battery has 15%"),
        ("fly to 1 0 1", replace(FLYING, hears_goals=False), DRONE, "nothing takes goals"),
        ("take off", ON_THE_GROUND, BASE, "does not fly: say 'arm'"),
        ("go up 1 m", FLYING, BASE, "it does not leave the ground"),
        ("turn left 90 degrees", FLYING, BASE, "cannot do that"),
        ("go to 1 2 facing 90 degrees", FLYING, BASE, "takes no heading"),
        ("move the tool to 0.1 0 0.3", FLYING, REACHING, "x from 0.3 to 0.65 m, and this one has 0.1"),
        ("fly to 0.2 0 0.1", FLYING, TOLD, "posture takes instructions, such as 'push the block', and no goals"),
        ("stop", FLYING, TOLD, "posture holds no position: say 'rest'"),
        ("put the object at 0.5 0 0.1", replace(FLYING, object_seen=False), CARRYING, "the object is not seen"),
    ],
)
def test_a_plan_is_refused_at_the_first_step_that_cannot_be_done(
    sentence: str, now: Situation, able: Abilities, said: str
) -> None:
    assert re.search(said, refusal(sentence, now, able)), refusal(sentence, now, able)


def test_plans_that_can_be_done_pass() -> None:
    for sentence, now, able in (
        ("take off, fly to corner, turn left 90 degrees, go 1 m forward, come back, land", ON_THE_GROUND, DRONE),
        ("go 1 m forward, 1 m left, come back", FLYING, BASE),
        ("move the tool to 0.5 0 0.3, then up 5 cm", FLYING, REACHING),
        ("put the object at 0.5 0.1 0.1", FLYING, CARRYING),
    ):
        check_plan(plan_by_grammar(sentence, able), now, able)


def test_what_would_fall_is_not_disarmed() -> None:
    with pytest.raises(UserError, match="in the air it would fall"):
        check_plan((Disarm(),), FLYING, DRONE)


def test_instructions_need_a_policy_that_takes_them() -> None:
    with pytest.raises(UserError, match="takes no instructions"):
        check_plan((Instruct("push the block"),), FLYING, BASE)


def test_moves_are_along_the_heading_and_returns_are_above_the_start() -> None:
    turned = replace(FLYING, heading_rad=0.5 * math.pi)
    (step,) = plan_by_grammar("go 2 m forward", DRONE)
    ahead = target_of(step, turned, turned, DRONE)
    assert ahead is not None and ahead.position == pytest.approx([0.0, 2.0, 1.0])
    back = target_of(Return(), turned, ON_THE_GROUND, DRONE)
    assert back is not None and back.position == pytest.approx([0.0, 0.0, 1.0]), "not at the floor"
    around = target_of(Turn(math.pi), turned, turned, DRONE)
    assert around is not None and around.heading_rad == pytest.approx(-0.5 * math.pi)
