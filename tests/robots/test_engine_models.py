"""Inside each engine, every robot that ships has the mass, inertia, joint order and limits of its file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots import RobotSpec, load_robot
from rlstack.robots.inertia import Inertial, inertial, moved, together
from rlstack.robots.kind_models import checked_model, mass_properties, rest_height
from rlstack.robots.mjcf import BODY, add_robot, mujoco_spec, new_world
from rlstack.robots.urdf import to_urdf
from tests.support.robots import car, large, modelled

RTOL = 1e-6


# two Pandas are held against one in test_arms
@pytest.fixture(params=[*(name for name in modelled() if name != "panda_pair"), "large", "car"])
def robot(request: pytest.FixtureRequest) -> RobotSpec:
    if request.param == "panda":
        pytest.importorskip("pybullet_data")
    made = {"large": large, "car": car}
    return made[request.param]() if request.param in made else load_robot(request.param)


def expected(robot: RobotSpec) -> Inertial:
    """Of a manipulator the inertia is its model's."""
    model = checked_model(robot)
    return mass_properties(robot) if model is None else model.inertial


def assert_same(found: Inertial, robot: RobotSpec) -> None:
    said = expected(robot)
    np.testing.assert_allclose(found.mass_kg, said.mass_kg, rtol=RTOL)
    np.testing.assert_allclose(found.centre_m, said.centre_m, atol=RTOL)
    largest = np.abs(said.inertia_kg_m2).max()
    np.testing.assert_allclose(found.inertia_kg_m2, said.inertia_kg_m2, atol=RTOL * largest)


# MuJoCo


def in_mujoco(model: mujoco.MjModel, prefix: str = "") -> Inertial:
    data = mujoco.MjData(model)
    data.qpos[:] = 0.0
    for i in range(model.njnt):
        if model.jnt_type[i] == mujoco.mjtJoint.mjJNT_FREE:
            data.qpos[model.jnt_qposadr[i] + 3] = 1.0
    mujoco.mj_forward(model, data)
    pieces = []
    for body in range(1, model.nbody):
        if not model.body(body).name.startswith(prefix):
            continue
        piece = inertial(model.body_mass[body], (0.0, 0.0, 0.0), model.body_inertia[body])
        pieces.append(moved(piece, data.ximat[body].reshape(3, 3), data.xipos[body]))
    base = data.body(prefix + BODY)
    return moved(together(pieces), np.eye(3), -base.xpos)


def test_in_mujoco(robot: RobotSpec) -> None:
    model = mujoco_spec(robot, floor=False).compile()
    assert_same(in_mujoco(model), robot)
    hinges = [i for i in range(model.njnt) if model.jnt_type[i] != mujoco.mjtJoint.mjJNT_FREE]
    assert [model.joint(i).name for i in hinges] == [joint.name for joint in robot.drives]
    for i, own in zip(hinges, robot.drives):
        assert bool(model.jnt_limited[i]) == (own.type != "continuous")
        if model.jnt_limited[i]:
            np.testing.assert_allclose(model.jnt_range[i], [own.lower, own.upper], rtol=RTOL)
        assert model.dof_armature[model.jnt_dofadr[i]] == own.armature
    driven = [own for own in robot.drives if own.mode != "free"]
    assert [model.actuator(i).name for i in range(model.nu)] == [own.name for own in driven]
    for i, own in enumerate(driven):
        np.testing.assert_allclose(model.actuator_forcerange[i], [-own.effort_max, own.effort_max], rtol=RTOL)
        ends = [-own.velocity_max, own.velocity_max] if own.mode == "velocity" else [own.lower, own.upper]
        np.testing.assert_allclose(model.actuator_ctrlrange[i], ends, rtol=RTOL)
        gain = own.damping if own.mode == "velocity" else own.stiffness
        np.testing.assert_allclose(model.actuator_gainprm[i, 0], gain, rtol=RTOL)
        spring = 0.0 if own.mode == "velocity" else -own.stiffness
        np.testing.assert_allclose(model.actuator_biasprm[i, :3], [0.0, spring, -own.damping], rtol=RTOL)


def test_several_in_one_world_keep_their_names_apart(robot: RobotSpec) -> None:
    spec = new_world()
    for i in range(2):
        add_robot(spec, robot, f"{i}/")
    model = spec.compile()
    for i in range(2):
        assert_same(in_mujoco(model, f"{i}/"), robot)
        for own in robot.drives:
            assert model.joint(f"{i}/{own.name}").id >= 0
    alone = mujoco_spec(robot).compile()
    assert model.nv == 2 * alone.nv and model.nu == 2 * alone.nu


def test_a_base_stands_level_on_its_wheels_and_goes_where_they_roll() -> None:
    for name in modelled("wheeled_base"):
        robot = load_robot(name)
        model = mujoco_spec(robot).compile()
        data = mujoco.MjData(model)
        data.ctrl[:] = [4.0 if drive.mode == "velocity" else 0.0 for drive in robot.drives]
        mujoco.mj_step(model, data, 1500)
        rolled = 4.0 * robot.wheels[0].radius_m  # type: ignore[attr-defined]
        np.testing.assert_allclose(data.qvel[:6], [rolled, 0, 0, 0, 0, 0], atol=0.01 * rolled)
        assert abs(data.qpos[2] - rest_height(robot)) < 5e-4
        assert data.qpos[3] > 0.99999


def test_the_husky_skids_as_much_as_its_file_says() -> None:
    robot = load_robot("husky")
    model = mujoco_spec(robot).compile()
    data = mujoco.MjData(model)
    data.ctrl[:] = [-3.0, 3.0, -3.0, 3.0]
    mujoco.mj_step(model, data, 1500)
    turned = []
    for _ in range(1000):
        mujoco.mj_step(model, data)
        turned.append(data.qvel[5])
    rolled = 3.0 * robot.wheels[0].radius_m / robot.wheels[0].position_m[1]  # type: ignore[attr-defined]
    assert rolled / np.mean(turned) == pytest.approx(robot.track_scale, rel=0.1)  # type: ignore[attr-defined]


def test_an_arm_holds_its_rest_and_touches_nothing() -> None:
    pytest.importorskip("pybullet_data")
    robot = load_robot("panda")
    model = mujoco_spec(robot).compile()
    data = mujoco.MjData(model)
    rest = np.array([own.rest for own in robot.drives])
    data.qpos[:], data.ctrl[:] = rest, rest
    mujoco.mj_step(model, data, 500)
    np.testing.assert_allclose(data.qpos, rest, atol=1e-6)
    assert data.ncon == 0


# PyBullet


@pytest.fixture(scope="module")
def bullet() -> Iterator[Any]:
    pybullet = pytest.importorskip("pybullet")
    client = pybullet.connect(pybullet.DIRECT)
    yield pybullet, client
    pybullet.disconnect(client)


def load(bullet: Any, text: str) -> int:
    pybullet, client = bullet
    pybullet.resetSimulation(physicsClientId=client)
    flags = pybullet.URDF_USE_INERTIA_FROM_FILE
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "robot.urdf"
        path.write_text(text)
        return int(pybullet.loadURDF(str(path), flags=flags, physicsClientId=client))


def in_pybullet(bullet: Any, body: int) -> Inertial:
    pybullet, client = bullet
    pieces = []
    base = pybullet.getDynamicsInfo(body, -1, physicsClientId=client)
    # PyBullet's base frame is that of the inertia; the link's is where it was put.
    to_link = pybullet.invertTransform(base[3], base[4])
    whole = pybullet.getBasePositionAndOrientation(body, physicsClientId=client)
    link_at = pybullet.multiplyTransforms(*whole, *to_link)
    back = pybullet.invertTransform(*link_at)
    for link in range(-1, pybullet.getNumJoints(body, physicsClientId=client)):
        info = pybullet.getDynamicsInfo(body, link, physicsClientId=client)
        there = whole
        if link >= 0:
            there = pybullet.getLinkState(body, link, computeForwardKinematics=1, physicsClientId=client)[:2]
        position, turned = pybullet.multiplyTransforms(*back, *there)
        turn = np.array(pybullet.getMatrixFromQuaternion(turned)).reshape(3, 3)
        pieces.append(moved(inertial(info[0], (0.0, 0.0, 0.0), info[2]), turn, np.array(position)))
    return together(pieces)


def test_in_pybullet(robot: RobotSpec, bullet: Any) -> None:
    pybullet, client = bullet
    for rotors in ("continuous", "none") if isinstance(robot, Quadrotor) else ("continuous",):
        body = load(bullet, to_urdf(robot, rotors=rotors))
        assert_same(in_pybullet(bullet, body), robot)
    body = load(bullet, to_urdf(robot))
    joints = [
        pybullet.getJointInfo(body, i, physicsClientId=client)
        for i in range(pybullet.getNumJoints(body, physicsClientId=client))
    ]
    moving = [info for info in joints if info[2] != pybullet.JOINT_FIXED]
    if isinstance(robot, Quadrotor):
        assert [info[1].decode() for info in moving] == list(robot.rotor_names)
        return
    assert [info[1].decode() for info in moving] == [own.name for own in robot.drives]
    for info, own in zip(moving, robot.drives):
        assert info[2] == (pybullet.JOINT_PRISMATIC if own.type == "prismatic" else pybullet.JOINT_REVOLUTE)
        if own.type != "continuous":
            np.testing.assert_allclose(info[8:10], [own.lower, own.upper], rtol=RTOL)
        np.testing.assert_allclose(info[10:12], [own.effort_max, own.velocity_max], rtol=RTOL)


def test_a_manipulators_model_stays_the_same_in_mujoco_under_another_prefix() -> None:
    pytest.importorskip("pybullet_data")
    robot = load_robot("panda")
    assert isinstance(robot, Manipulator)
    spec = new_world()
    add_robot(spec, robot, "left/")
    model = spec.compile()
    assert model.body(f"left/{robot.tool_link}").id > 0
    assert model.camera("left/track").id >= 0
