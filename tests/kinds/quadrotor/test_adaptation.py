"""What a few seconds of hovering tell of a quadrotor's load, and the robot file with it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import yaml

from rlstack.errors import UserError
from rlstack.identification.identify import identify
from rlstack.identification.kind_adaptation import Told
from rlstack.identification.motion_model import Estimate
from rlstack.identification.robot_file import edited, source_text
from rlstack.kinds.quadrotor.adaptation import ADAPTATION
from rlstack.kinds.quadrotor.identification import QuadrotorMotion
from rlstack.kinds.quadrotor.identification_parameters import quadrotor_parameters
from rlstack.kinds.quadrotor.spec import load_quadrotor
from tests.kinds.quadrotor.test_identification import hovering

ROBOT = load_quadrotor("crazyflie")


def test_a_hover_tells_the_payload_and_the_new_file_has_it() -> None:
    file = replace(ROBOT, body=replace(ROBOT.body, mass_kg=ROBOT.body.mass_kg / 1.3))
    recorded = hovering(3.0)  # at the speeds that carry the whole mass
    model = QuadrotorMotion(file, [recorded])
    known = {one.name: one.value for one in model.parameters if one.name not in ADAPTATION.free}
    found = ADAPTATION.told(
        file, identify(file, [recorded], known, least_s=1.4, segments_s=(0.2,), whole=True).estimates
    )
    assert found.steps[0] == pytest.approx(math.log(1.3) / math.log(1.03), abs=0.1)
    assert found.sentence == "a payload of about 30% of the mass"
    _, text = source_text("crazyflie")
    assert [edit.place for edit in found.edits] == [("body", "mass_kg")]
    assert float(str(found.edits[0].value)) == pytest.approx(ROBOT.body.mass_kg, rel=0.003)
    assert "name: crazyflie" in edited(text, found.edits)


@pytest.mark.parametrize(("motor", "factor", "load"), [(0, 0.8, 1.0), (3, 0.85, 1.2)])
def test_a_hover_tells_which_motor_is_weak_and_the_load_beside_it(motor: int, factor: float, load: float) -> None:
    rotors = tuple(replace(one, thrust_factor=factor if k == motor else 1.0) for k, one in enumerate(ROBOT.rotors))
    real = replace(ROBOT, rotors=rotors, body=replace(ROBOT.body, mass_kg=load * ROBOT.body.mass_kg))
    recorded = hovering(3.0)
    recorded.tracks["cmd/rotors"].values["rotor_speed"][:] = real.hover_command
    model = QuadrotorMotion(ROBOT, [recorded])
    known = {one.name: one.value for one in model.parameters if one.name not in ADAPTATION.free}
    found = ADAPTATION.told(
        ROBOT, identify(ROBOT, [recorded], known, least_s=1.4, segments_s=(0.2,), whole=True).estimates
    )
    said = f"motor {ROBOT.rotor_names[motor]} gives {100 * factor:.0f}% of the others' thrust"
    assert found.sentence == said + (", and a payload of about 20% of the mass" if load > 1.0 else "")
    data = yaml.safe_load(edited(source_text("crazyflie")[1], found.edits))
    assert data["rotors"][motor].pop("thrust_factor") == pytest.approx(factor, rel=0.005)
    assert data["rotors"] == yaml.safe_load(source_text("crazyflie")[1])["rotors"]
    assert data["body"]["mass_kg"] == pytest.approx(real.body.mass_kg, rel=0.005)
    assert found.apart(ADAPTATION.unchanged()) > 3.0


def told(factor: float, centre_m: float = 0.0, balance: float = 0.0) -> Told:
    """Return what estimates say: thrust over mass by a factor, the centre of mass forward, and the balance."""
    named = {one.name: one for one in quadrotor_parameters(ROBOT)}
    estimates = {name: Estimate(one, one.value, None, "known") for name, one in named.items()}
    thrust = named["thrust"].value / factor
    estimates["thrust"] = Estimate(named["thrust"], thrust, (0.999 * thrust, 1.001 * thrust), "told")
    estimates["centre_x"] = Estimate(named["centre_x"], centre_m, (centre_m, centre_m), "told")
    estimates["balance"] = Estimate(named["balance"], balance, (balance, balance), "told")
    return ADAPTATION.told(ROBOT, estimates)


def test_what_is_told_is_said_and_small_differences_are_left_to_the_policy() -> None:
    assert told(1.02) == Told((pytest.approx(math.log(1.02) / math.log(1.03)), 0.0, 0.0, 0.0), "it is as its file says")
    assert told(0.8).sentence == "it is about 20% lighter than its file says"
    off = told(1.1, 0.003)
    assert off.sentence == "a payload of about 10% of the mass, with the centre of mass 3.0 mm off"
    assert len(off.edits) == 1 + len(ROBOT.rotors)
    assert told(1.0, 0.003).sentence == "the mass of its file, with the centre of mass 3.0 mm off"
    turned = told(1.1, 0.003, -0.05)
    assert turned.sentence == off.sentence + ", and the motors that turn it to the right 10% stronger than the others"
    assert [float(str(edit.value)) for edit in turned.edits[-4:]] == pytest.approx([1.05, 0.95, 1.05, 0.95])
    assert told(1.3).apart(told(1.31)) < 1.0 < told(1.3).apart(told(1.35))


def test_a_robot_that_takes_rates_is_refused() -> None:
    with pytest.raises(UserError, match="takes rates and thrust"):
        ADAPTATION.check(load_quadrotor("racer_rates"))
