"""Arms that are described by their own links, or made of several: the same in both engines, and what is refused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.control.inverse_kinematics import limits_of, reach
from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import load_robot
from rlstack.robots.kinematics import chain_of, tool_motion
from rlstack.robots.mjcf import mujoco_spec
from rlstack.robots.spec import robot_files
from rlstack.robots.urdf import to_urdf

TOOLS = {
    "so100": ("tool",),
    "ur5e": ("tool",),
    "panda_pair": ("left_panda_grasptarget", "right_panda_grasptarget"),
}


def arm(name: str) -> Manipulator:
    robot = load_robot(name)
    assert isinstance(robot, Manipulator)
    return robot


def anywhere(robot: Manipulator, count: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    low, high = (np.array([getattr(drive, end) for drive in robot.drives]) for end in ("lower", "upper"))
    return rng.uniform(low, high, (count, len(low)))


@pytest.mark.parametrize("name", TOOLS)
def test_the_tool_is_where_mujoco_and_pybullet_have_it(name: str, tmp_path: Path) -> None:
    robot = arm(name)
    joints = anywhere(robot, 4)
    model = mujoco_spec(robot, floor=False).compile()
    data = mujoco.MjData(model)
    chains = {tool: chain_of(robot, tool) for tool in TOOLS[name]}
    for tool, chain in chains.items():
        found = tool_motion(chain.screws, joints[:, list(chain.index)])
        body = model.body(tool).id
        for k, angles in enumerate(joints):
            data.qpos[:] = angles
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            jacobian = np.zeros((6, model.nv))
            mujoco.mj_jacBody(model, data, jacobian[:3], jacobian[3:], body)
            np.testing.assert_allclose(found.position[k], data.xpos[body], atol=1e-9)
            np.testing.assert_allclose(found.rotation[k], data.xmat[body].reshape(3, 3), atol=1e-9)
            np.testing.assert_allclose(found.jacobian[k], jacobian[:, list(chain.index)], atol=1e-9)
    pybullet = pytest.importorskip("pybullet")
    path = tmp_path / "arm.urdf"
    path.write_text(to_urdf(robot, meshes="none"))
    client = pybullet.connect(pybullet.DIRECT)
    try:
        there = pybullet.loadURDF(str(path), useFixedBase=True, physicsClientId=client)
        infos = [pybullet.getJointInfo(there, k, client) for k in range(pybullet.getNumJoints(there, client))]
        at = {info[1].decode(): k for k, info in enumerate(infos)}
        links = {info[12].decode(): k for k, info in enumerate(infos)}
        for angles in joints:
            for drive, angle in zip(robot.drives, angles):
                pybullet.resetJointState(there, at[drive.name], angle, physicsClientId=client)
            for tool, chain in chains.items():
                found = tool_motion(chain.screws, angles[None, list(chain.index)])
                state = pybullet.getLinkState(there, links[tool], computeForwardKinematics=True, physicsClientId=client)
                np.testing.assert_allclose(found.position[0], state[4], atol=1e-6)
                turn = np.array(pybullet.getMatrixFromQuaternion(state[5])).reshape(3, 3)
                np.testing.assert_allclose(found.rotation[0], turn, atol=1e-6)
    finally:
        pybullet.disconnect(client)


@pytest.mark.parametrize("name", ["so100", "ur5e"])
def test_at_rest_the_tool_points_down_in_front_and_the_arm_holds_there(name: str) -> None:
    robot = arm(name)
    rest = np.array([drive.rest for drive in robot.drives])
    chain = chain_of(robot)
    tool = tool_motion(chain.screws, rest[None, list(chain.index)])
    np.testing.assert_allclose(tool.rotation[0], np.diag([1.0, -1.0, -1.0]), atol=1e-3)
    assert tool.position[0, 0] > 0.15 and abs(tool.position[0, 1]) < 0.01
    model = mujoco_spec(robot).compile()
    data = mujoco.MjData(model)
    data.qpos[:] = data.ctrl[:] = rest
    mujoco.mj_step(model, data, 1000)
    # the servos of the SO-100 give way a little under its weight
    np.testing.assert_allclose(data.qpos, rest, atol=0.02 if name == "so100" else 1e-6)
    assert data.ncon == 0


def test_what_a_camera_sees_of_a_link_is_all_of_it() -> None:
    """The Panda's hand for show is a file of five objects, of which MuJoCo takes one."""
    model = mujoco_spec(arm("panda")).compile()
    for link in ("panda_hand", "panda_link5", "panda_link6"):
        geoms = [g for g in range(model.ngeom) if model.geom_bodyid[g] == model.body(link).id]
        shown, felt = ([g for g in geoms if bool(model.geom_contype[g]) == solid] for solid in (False, True))
        assert len(shown) == len(felt) == 1 and model.geom_group[shown[0]] != model.geom_group[felt[0]]
        np.testing.assert_allclose(model.geom_aabb[shown[0], 3:], model.geom_aabb[felt[0], 3:], rtol=0.1)


def test_arms_that_stand_together_are_those_of_their_files() -> None:
    pair, one = arm("panda_pair"), arm("panda")
    names = [drive.name for drive in one.drives]
    assert [drive.name for drive in pair.drives] == [f"{side}_{name}" for side in ("left", "right") for name in names]
    assert one.gripping == (*[False] * 7, True, True) and pair.gripping == 2 * one.gripping
    left, right = (chain_of(pair, f"{side}_panda_grasptarget") for side in ("left", "right"))
    assert left.index == tuple(range(7)) and right.index == tuple(range(9, 16))
    alone = chain_of(one)
    joints = np.array([[drive.rest for drive in one.drives[:7]]])
    place = tool_motion(alone.screws, joints).position
    np.testing.assert_allclose(tool_motion(left.screws, joints).position, place + np.array([0.0, 0.3, 0.0]), atol=1e-12)
    np.testing.assert_allclose(
        tool_motion(right.screws, joints).position, place - np.array([0.0, 0.3, 0.0]), atol=1e-12
    )


def test_the_pandas_placeholders_are_replaced_by_what_was_identified() -> None:
    model = mujoco_spec(arm("panda")).compile()
    data = mujoco.MjData(model)
    data.qpos[:] = [drive.rest for drive in arm("panda").drives]
    mujoco.mj_forward(model, data)
    about, last = np.zeros(model.nv), np.eye(model.nv)[6]
    mujoco.mj_mulM(model, data, about, last)
    # with 0.1 kg m^2 for each link it is 0.4 about the last joint
    assert 0.004 < about[6] < 0.02
    assert model.body("panda_link4").mass[0] == pytest.approx(3.587895)


_UR5E = arm("ur5e")
_CHAIN, _REST = chain_of(_UR5E), np.array([drive.rest for drive in _UR5E.drives[:6]])


@settings(deadline=None, max_examples=20)
@given(st.tuples(st.floats(0.35, 0.65), st.floats(-0.25, 0.25), st.floats(0.05, 0.4)), st.floats(-0.7, 0.7))
def test_the_ur5e_reaches_where_the_tasks_want_it(place: tuple[float, float, float], yaw: float) -> None:
    joints, found = reach(_CHAIN, limits_of(_UR5E, _CHAIN), np.array([place]), np.array([yaw]), _REST, steps=100)
    assert found[0]
    np.testing.assert_allclose(tool_motion(_CHAIN.screws, joints).position[0], place, atol=2e-4)


def changed(tmp_path: Path, name: str, change: Callable[[dict[str, Any]], Any]) -> Path:
    data = copy.deepcopy(yaml.safe_load(robot_files()[name].read_text()))
    change(data)
    path = tmp_path / "arm.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("so100", lambda d: d.update(model="arm.urdf"), r"exactly one of model, links and arms .*'model', 'links'"),
        ("so100", lambda d: d.update(links=[]), r"exactly one of model, links and arms .*given: \[\]"),
        ("so100", lambda d: d["links"][2].update(joint="hip"), r"links\[2\]: joint: 'hip' is not one of the joints"),
        ("so100", lambda d: d["links"][2].pop("joint"), "the joint 'shoulder_lift' must move exactly one link, not 0"),
        (
            "so100",
            lambda d: d["links"][2].update(parent="jaw"),
            r"links\[2\]: parent: 'jaw' is not one of the links befo",
        ),
        ("so100", lambda d: d["links"][2].update(name="shoulder"), r"links\[2\]: the name 'shoulder' is used twice"),
        ("so100", lambda d: d["links"][0].update(joint="gripper"), r"links\[0\]: 'base_link' is the first"),
        ("so100", lambda d: d["links"][1].update(axis=[0, 0, 0]), r"links\[1\]: axis: .* must have a length"),
        (
            "so100",
            lambda d: d["links"][1]["inertial"].update(inertia_kg_m2=[1.0, 1.0, 3.0, 0.0, 0.0, 0.0]),
            r"links\[1\].inertial: inertia_kg_m2: .* no rigid body has it",
        ),
        ("panda_pair", lambda d: d["arms"][1].update(prefix="left_"), "every joint needs a name of its own.* prefix"),
        ("panda_pair", lambda d: d["arms"][1].update(robot="husky"), "husky is not one arm, but Clearpath Husky"),
        (
            "panda_pair",
            lambda d: d.update(joints=yaml.safe_load(robot_files()["panda"].read_text())["joints"]),
            "its arms define its joints",
        ),
        (
            "panda_pair",
            lambda d: d["arms"][1].update(robot="so100"),
            "gravity_compensation applies to all arms of a robot, and panda has true, so100 has false",
        ),
    ],
)
def test_what_cannot_be_is_refused(name: str, change: Callable[..., Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        load_robot(changed(tmp_path, name, change))


def test_several_arms_are_held_up_like_each_of_them(tmp_path: Path) -> None:
    pair = load_robot(changed(tmp_path, "panda_pair", lambda data: data.pop("gravity_compensation")))
    assert isinstance(pair, Manipulator) and pair.gravity_compensation


def test_inertials_of_links_that_are_not_there_are_refused(tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data["inertials"]["elbow"] = data["inertials"]["panda_hand"]

    robot = load_robot(changed(tmp_path, "panda", change))
    assert isinstance(robot, Manipulator)
    with pytest.raises(UserError, match="has no link 'elbow', for which panda has inertials"):
        chain_of(robot)
