"""Kinematics of arms against two simulators, and the same in numpy and torch."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import load_robot
from rlstack.robots.kinematics import Screws, chain_in, chain_of, tool_motion
from rlstack.robots.mjcf import mujoco_spec
from rlstack.robots.model import read_model, read_urdf
from rlstack.robots.urdf import to_urdf


def panda() -> Manipulator:
    robot = load_robot("panda")
    assert isinstance(robot, Manipulator)
    return robot


def test_the_tool_and_its_jacobian_are_those_of_mujoco() -> None:
    robot = panda()
    chain = chain_of(robot)
    model = mujoco_spec(robot).compile()
    data, body = mujoco.MjData(model), model.body(robot.tool_link).id
    joints = np.random.default_rng(0).uniform(-2.0, 2.0, (20, 7))
    tool = tool_motion(chain.screws, joints)
    columns = [int(model.joint(name).dofadr[0]) for name in chain.joints]
    for k, angles in enumerate(joints):
        data.qpos[:7] = angles
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        jacobian = np.zeros((6, model.nv))
        mujoco.mj_jacBody(model, data, jacobian[:3], jacobian[3:], body)
        np.testing.assert_allclose(tool.position[k], data.xpos[body], atol=1e-12)
        np.testing.assert_allclose(tool.rotation[k], data.xmat[body].reshape(3, 3), atol=1e-12)
        np.testing.assert_allclose(tool.jacobian[k], jacobian[:, columns], atol=1e-12)


def test_the_tool_is_where_pybullet_has_it() -> None:
    pybullet = pytest.importorskip("pybullet")
    robot = panda()
    chain = chain_of(robot)
    from rlstack.robots.model_file import resolve

    client = pybullet.connect(pybullet.DIRECT)
    try:
        arm = pybullet.loadURDF(str(resolve(robot.model, robot.name)), useFixedBase=True, physicsClientId=client)
        names = [pybullet.getJointInfo(arm, k, client) for k in range(pybullet.getNumJoints(arm, client))]
        at = {info[1].decode(): k for k, info in enumerate(names)}
        (link,) = (k for k, info in enumerate(names) if info[12].decode() == robot.tool_link)
        joints = np.random.default_rng(1).uniform(-1.0, 1.0, (5, 7))
        tool = tool_motion(chain.screws, joints)
        for k, angles in enumerate(joints):
            for name, angle in zip(chain.joints, angles):
                pybullet.resetJointState(arm, at[name], angle, physicsClientId=client)
            state = pybullet.getLinkState(arm, link, computeForwardKinematics=True, physicsClientId=client)
            np.testing.assert_allclose(tool.position[k], state[4], atol=1e-6)
            turn = np.array(pybullet.getMatrixFromQuaternion(state[5])).reshape(3, 3)
            np.testing.assert_allclose(tool.rotation[k], turn, atol=1e-6)
    finally:
        pybullet.disconnect(client)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(-3.0, 3.0), min_size=7, max_size=7))
def test_numpy_and_torch_agree_and_the_jacobian_is_the_derivative(angles: list[float]) -> None:
    screws = _SCREWS
    joints = np.array([angles])
    tool = tool_motion(screws, joints)
    constants = Screws(*(torch.from_numpy(np.asarray(array)) for array in screws))
    other = tool_motion(constants, torch.from_numpy(joints))
    for mine, theirs in zip(tool, other):
        np.testing.assert_allclose(mine, theirs.numpy(), atol=1e-12)
    places = torch.autograd.functional.jacobian(lambda q: tool_motion(constants, q).position, torch.from_numpy(joints))
    np.testing.assert_allclose(places[0, :, 0].numpy(), tool.jacobian[0, :3], atol=1e-9)
    np.testing.assert_allclose(tool.rotation[0] @ tool.rotation[0].T, np.eye(3), atol=1e-9)


_SCREWS = chain_of(panda()).screws


def test_a_sliding_joint_moves_the_link_along_its_axis() -> None:
    robot = panda()
    chain = chain_of(robot, "panda_leftfinger")
    assert chain.index == (0, 1, 2, 3, 4, 5, 6, 7)
    joints = np.tile([drive.rest for drive in robot.drives[:8]], (2, 1))
    joints[1, 7] -= 0.01
    tool = tool_motion(chain.screws, joints)
    away = tool.position[0] - tool.position[1]
    np.testing.assert_allclose(away, 0.01 * tool.jacobian[0, :3, 7], atol=1e-12)
    assert np.linalg.norm(tool.jacobian[0, 3:, 7]) == 0.0


def test_an_mjcf_gives_the_chain_of_the_urdf(tmp_path: Path) -> None:
    robot = panda()
    spec = mujoco_spec(robot)
    spec.compile()
    path = tmp_path / "panda.xml"
    path.write_text(spec.to_xml())
    found = chain_in(read_model(path), robot, robot.tool_link)
    joints = np.random.default_rng(2).uniform(-1.0, 1.0, (4, 7))
    for mine, theirs in zip(tool_motion(found.screws, joints), tool_motion(chain_of(robot).screws, joints)):
        np.testing.assert_allclose(mine, theirs, atol=1e-5)  # MJCF text has six digits


def test_unknown_links_and_joints_are_refused_by_name() -> None:
    robot = panda()
    with pytest.raises(UserError, match="no link 'hook'; it has: panda_link0, panda_link1"):
        chain_of(robot, "hook")
    text = to_urdf(robot).replace("panda_joint3", "elbow")
    with pytest.raises(UserError, match="the joint 'elbow' on the way to 'panda_grasptarget' is not in the robot file"):
        chain_in(read_urdf(text, "mine.urdf"), robot, "panda_grasptarget")
