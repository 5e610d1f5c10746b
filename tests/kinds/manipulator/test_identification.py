"""An arm that differs from its file is found from joint targets and joint states, and the new file moves as it does."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mujoco")

import mujoco

from rlstack.errors import UserError
from rlstack.identification.identify import Identification, _in_proportion, _partner, _scaled, identify
from rlstack.identification.recorded import Recorded, Track
from rlstack.identification.robot_file import write_robot
from rlstack.kinds.manipulator.identification import IDENTIFICATION, ArmMotion, _extended, _integral, carry
from rlstack.kinds.manipulator.spec import Manipulator, load_manipulator
from rlstack.robots import load_robot
from rlstack.robots.joints import rest_positions
from rlstack.robots.mjcf import mujoco_spec

PAYLOAD_KG, DELAY_S, STIFFNESS, DAMPING = 0.06, 0.012, 1.3, 0.8
PAN = "shoulder_pan"


def true_arm(robot: Manipulator) -> Manipulator:
    pan = robot.joints[0]
    own = dataclasses.replace(
        pan,
        stiffness_n_m_per_rad=STIFFNESS * pan.stiffness_n_m_per_rad,
        damping_n_m_s_per_rad=DAMPING * pan.damping_n_m_s_per_rad,
    )
    return dataclasses.replace(robot, joints=(own, *robot.joints[1:]))


def moved(seconds: float) -> Recorded:
    """Return what the true arm records while its targets step."""
    arm, rng = true_arm(load_manipulator("so100")), np.random.default_rng(0)
    model = mujoco_spec(arm, timestep_s=0.001, floor=False).compile()
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    data, names = mujoco.MjData(model), [joint.name for joint in arm.drives]
    q, v = ([int(getattr(model.joint(name), key)[0]) for name in names] for key in ("qposadr", "dofadr"))
    motors = [int(model.actuator(name).id) for name in names]
    carry(mujoco, model, data, int(model.body(arm.tool_link).id), PAYLOAD_KG)
    rest = rest_positions(arm.drives)
    data.qpos[q] = rest
    sent: list[Any] = []
    seen: list[Any] = []
    for k in range(round(100 * seconds)):
        step = k % 70 == 30
        sent.append(rest + rng.uniform(-0.3, 0.3, len(rest)) if step else sent[-1] if sent else rest)
        seen.append(np.concatenate([data.qpos[q], data.qvel[v]]))
        for ms in range(10):
            data.ctrl[motors] = sent[max((10 * k + ms - round(1e3 * DELAY_S)) // 10, 0)]
            mujoco.mj_step(model, data)
    at_s: Any = 0.01 * np.arange(len(sent))
    both = np.array(seen) + rng.normal(size=(len(seen), 2 * len(names))) * 3e-4
    states = {"joint_position": both[:, : len(names)], "joint_velocity": both[:, len(names) :]}
    targets = Track("cmd/joints", at_s, {"joint_target": np.array(sent)})
    return Recorded(Path("arm"), {"joint_states": Track("joint_states", at_s, states), "cmd/joints": targets})


@pytest.fixture(scope="module")
def found() -> Identification:
    """The identification of what the test leaves free."""
    robot, recorded = load_manipulator("so100"), moved(9.0)
    free = {f"stiffness_{PAN}", f"damping_{PAN}", "payload", "delay"}
    rest = {one.name: one.value for one in ArmMotion(robot, [recorded]).parameters if one.name not in free}
    return identify(robot, [recorded], rest)


def test_gains_payload_and_delay_are_told(found: Identification) -> None:
    pan = load_manipulator("so100").joints[0]
    value = {name: one.value for name, one in found.estimates.items()}
    assert value[f"stiffness_{PAN}"] == pytest.approx(STIFFNESS * pan.stiffness_n_m_per_rad, rel=0.05)
    assert value[f"damping_{PAN}"] == pytest.approx(DAMPING * pan.damping_n_m_s_per_rad, rel=0.05)
    assert value["payload"] == pytest.approx(PAYLOAD_KG, rel=0.1) and value["delay"] == pytest.approx(DELAY_S, abs=2e-3)
    for name in found.after.errors:
        assert found.after.errors[name][-1] < 0.5 * found.before.errors[name][-1], "what is left is the noise"


def test_the_noise_of_the_joint_states_is_told_and_their_delay_refused(found: Identification) -> None:
    for name in ("joint_position_noise", "joint_velocity_noise"):
        low, high = found.sensors[name].interval or (0.0, 0.0)
        assert low < 3e-4 < high < 1.6 * low and not found.sensors[name].parameter.place
    assert "part of `delay`" in found.sensors["joint_states_delay"].why


def test_the_new_file_has_the_gains_and_ranges_for_training(found: Identification, tmp_path: Path) -> None:
    file = tmp_path / "my_arm.yaml"
    write_robot(file, "so100", found)
    new, pan = load_robot(file), load_manipulator("so100").joints[0]
    assert isinstance(new, Manipulator) and new.joints[1:] == load_manipulator("so100").joints[1:]
    assert new.joints[0].driven.stiffness == pytest.approx(STIFFNESS * pan.stiffness_n_m_per_rad, rel=0.05)
    low, high = new.randomisation["command_delay_s"]
    assert low < DELAY_S < high
    assert "90% interval" in file.read_text()


def test_friction_is_not_told_without_the_stiffness_of_its_joint(found: Identification) -> None:
    needs = {one.parameter.name: one.parameter.needs for one in found.estimates.values()}
    assert needs[f"friction_{PAN}"] == needs[f"armature_{PAN}"] == f"stiffness_{PAN}" and not needs["payload"]


def test_a_delay_moves_held_targets_continuously() -> None:
    time_s, target = np.array([0.0, 0.1, 0.2]), np.array([[1.0], [3.0], [2.0]])
    total = _integral(time_s, target)[:, 0]
    edges = np.array([-0.1, 0.05, 0.15, 0.2])
    np.testing.assert_allclose(np.diff(_extended(edges, time_s, total)) / np.diff(edges), [1.0, 2.0, 3.0])


def test_a_pair_of_arms_is_refused() -> None:
    with pytest.raises(UserError, match="files of several arms"):
        IDENTIFICATION.check(load_robot("panda_pair"))


def test_initial_positions_of_the_arm_are_estimated_and_nothing_else() -> None:
    model = ArmMotion(load_manipulator("so100"), [])
    joints, arm = len(model._q), len(model._arm)
    assert model.state_steps.shape == (arm,) and arm < joints  # there is a gripper
    states = np.random.default_rng(0).normal(size=(3, 2 * joints))
    changed = model.moved(states, np.full((2, 3, arm), 0.1)) - states
    assert changed.shape == (2, 3, 2 * joints)
    assert np.allclose(changed[..., model._arm], 0.1)
    assert np.count_nonzero(np.abs(changed) > 1e-12) == 2 * 3 * arm


def test_all_of_a_drive_is_in_proportion_to_its_armature_where_the_motor_is_most_of_what_it_moves() -> None:
    model = ArmMotion(load_manipulator("so100"), [])
    partner = {one.name: _partner(model, one) for one in model.parameters}
    assert {partner[f"{what}_{PAN}"] for what in ("stiffness", "damping", "friction")} == {f"armature_{PAN}"}
    assert not partner["payload"] and not partner["delay"]


def test_where_an_armature_stays_the_file_s_what_is_in_proportion_to_it_starts_scaled_along() -> None:
    model = ArmMotion(load_manipulator("so100"), [])
    names = [parameter.name for parameter in model.parameters]
    values = np.array([max(parameter.value, 0.01) for parameter in model.parameters])
    roll = [k for k, name in enumerate(names) if name.endswith("_wrist_roll")]
    estimated = values.copy()
    estimated[roll] *= 2.0
    estimated[names.index("payload")] = 0.05
    found = _scaled(model, [names.index("armature_wrist_roll")], estimated, values)
    beside = [k for k in range(len(names)) if k not in roll]
    drive = [k for k in roll if not names[k].startswith("armature")]
    assert len(drive) == 3 and np.allclose(found[drive], values[drive])
    assert np.array_equal(found[beside], estimated[beside])


def test_a_drive_told_as_a_factor_only_is_in_proportion_to_the_file_s_armature() -> None:
    """Half an armature under half a drive moves alike: the armature's own interval is too narrow to say so."""
    model = ArmMotion(load_manipulator("so100"), [])
    names = [parameter.name for parameter in model.parameters]
    roll = {what: names.index(f"{what}_wrist_roll") for what in ("stiffness", "damping", "armature")}
    estimated = np.array([parameter.value for parameter in model.parameters])
    estimated[list(roll.values())] *= 0.45
    halves = {k: 0.5 * parameter.needed for k, parameter in enumerate(model.parameters)}
    assert _in_proportion(model, halves, estimated) == []
    halves |= {roll["stiffness"]: 1.2, roll["damping"]: 1.2, roll["armature"]: 0.4 * estimated[roll["armature"]]}
    assert _in_proportion(model, halves, estimated) == [roll["armature"]]
    halves[roll["stiffness"]] = 0.3  # the file's would need 0.8
    assert _in_proportion(model, halves, estimated) == []
