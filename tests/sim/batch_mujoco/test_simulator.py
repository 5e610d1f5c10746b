"""The arms' worlds: the robot file's arm in each, blocks that differ, and a state that decides the future.

On whatever steps them: MuJoCo, and MuJoCo Warp where that is installed (it compiles for minutes the first time).
"""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from rlstack.control.inverse_kinematics import limits_of, reach
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import load_robot
from rlstack.robots.kinematics import chain_of, tool_motion
from rlstack.robots.mjcf import mujoco_spec
from rlstack.sim.arms.scene import Block, build_scene
from rlstack.sim.batch_mujoco import make_mujoco_simulator
from rlstack.sim.batch_mujoco.simulator import MujocoSimulator


def panda() -> Manipulator:
    robot = load_robot("panda")
    assert isinstance(robot, Manipulator)
    return robot


PANDA = panda()
CHAIN = chain_of(PANDA)
REST = np.array([drive.rest for drive in PANDA.drives])
LEVEL = np.array([[0.0, 0.0, 0.0, 1.0]])


@pytest.fixture(params=["cpu", "warp:cpu"])
def device(request: pytest.FixtureRequest) -> str:
    if request.param != "cpu":
        pytest.importorskip("mujoco_warp")
    return str(request.param)


def worlds(count: int, device: str, varied: bool = False, threads: int = 1) -> MujocoSimulator:
    return make_mujoco_simulator(
        build_scene(PANDA, Block().add),
        PANDA.drives,
        count,
        period_s=0.05,
        varied=varied,
        device=device,
        threads=threads,
    )


def over(places: list[tuple[float, float, float]], opening: float = 0.0) -> np.ndarray:
    place = np.array(places)
    joints, found = reach(CHAIN, limits_of(PANDA, CHAIN), place, np.zeros(len(place)), REST[:7])
    assert found.all()
    return np.concatenate([joints, np.full((len(place), 2), opening)], axis=1)


def test_the_arm_is_that_of_the_robot_file_without_its_meshes() -> None:
    mine, theirs = build_scene(PANDA, Block().add), mujoco_spec(PANDA).compile()
    assert mine.nmesh == 0
    assert [mine.actuator(k).name for k in range(mine.nu)] == [drive.name for drive in PANDA.drives]
    np.testing.assert_array_equal(mine.actuator_gainprm, theirs.actuator_gainprm)
    np.testing.assert_array_equal(mine.actuator_biasprm, theirs.actuator_biasprm)
    np.testing.assert_array_equal(mine.actuator_forcerange, theirs.actuator_forcerange)
    np.testing.assert_allclose(mine.jnt_range[:9], theirs.jnt_range)
    np.testing.assert_allclose(mine.body_mass[: theirs.nbody], theirs.body_mass)
    fingers = [mine.geom(k) for k in range(mine.ngeom) if "finger" in mine.body(mine.geom_bodyid[k]).name]
    assert len(fingers) == 2 and all(finger.type == mujoco.mjtGeom.mjGEOM_BOX for finger in fingers)


@pytest.mark.parametrize("half", [0.015, 0.025])
def test_fingers_close_on_their_pads_where_the_block_is(half: float) -> None:
    some = worlds(1, "cpu", varied=True)
    start = over([(0.5, 0.0, half)], opening=0.04)
    some.restart(np.arange(1), start)
    some.vary(np.arange(1), "object", np.full((1, 3), half), np.array([0.1]), np.array([0.8]))
    some.place(np.arange(1), "object", np.array([[0.5, 0.0, half]]), LEVEL)
    target = start.copy()
    target[:, 7:] = 0.0
    for _ in range(20):
        some.step(target)
    np.testing.assert_allclose(
        some.joint_position[0, 7:], half, atol=2e-3
    )  # contact gives 1 mm; leaning boxes met it 4 mm earlier
    turn = some.pose("object")[1][0]
    assert abs(turn[3]) > 0.999
    some.close()


def test_the_arm_comes_to_its_targets(device: str) -> None:
    some = worlds(2, device)
    start = np.repeat(REST[None], 2, axis=0)
    some.restart(np.arange(2), start)
    np.testing.assert_array_equal(some.joint_position, start)
    target = start.copy()
    target[1, :7] += 0.1
    for _ in range(30):
        some.step(target)
    np.testing.assert_allclose(some.joint_position, target, atol=2e-3)
    np.testing.assert_allclose(some.time_s, 1.5)
    np.testing.assert_array_equal(some.passed[:, -1], some.state)
    np.testing.assert_allclose(some.passed[:, :, 0], np.tile(1.45 + 0.005 * np.arange(1, 11), (2, 1)))
    some.close()


def test_what_is_handled_rests_on_the_table_and_is_pushed_by_the_fingers(device: str) -> None:
    some = worlds(2, device)
    below, beyond = over([(0.5, 0.0, 0.03)] * 2), over([(0.5, 0.0, 0.03), (0.5, 0.12, 0.03)])
    some.restart(np.arange(2), below)
    some.place(np.arange(2), "object", np.array([[0.5, 0.07, 0.02]] * 2), np.repeat(LEVEL, 2, axis=0))
    for k in range(40):
        some.step(below + (beyond - below) * min(1.0, k / 30))
    position, orientation = some.pose("object")
    np.testing.assert_allclose(position[0], (0.5, 0.07, 0.02), atol=1e-3)
    np.testing.assert_allclose(np.abs(orientation[0, 3]), 1.0, atol=1e-3)
    assert 0.13 < position[1, 1] < 0.2 and abs(position[1, 2] - 0.02) < 6e-3
    some.close()


def test_worlds_have_blocks_of_their_own(device: str) -> None:
    some = worlds(2, device, varied=True)
    everyone = np.arange(2)
    half = np.array([[0.02, 0.02, 0.03], [0.02, 0.02, 0.02]])
    some.vary(everyone, "object", half, np.array([0.05, 2.0]), np.array([0.8, 0.8]))
    some.restart(everyone, over([(0.5, 0.0, 0.03)] * 2))
    some.place(everyone, "object", np.array([[0.5, 0.07, 0.03], [0.5, 0.07, 0.02]]), np.repeat(LEVEL, 2, axis=0))
    before, after = over([(0.5, 0.0, 0.03)] * 2), over([(0.5, 0.1, 0.03)] * 2)
    for _ in range(3):
        some.step(before)
    np.testing.assert_allclose(some.pose("object")[0][:, 2], half[:, 2], atol=1e-3)
    slowed = []
    for k in range(20):
        some.step(before + (after - before) * min(1.0, k / 15))
        slowed.append(tool_motion(CHAIN.screws, some.joint_position[:, :7]).position[:, 1])
    late = np.array(slowed)[5:15].mean(axis=0)
    assert late[1] < late[0] - 1e-3, "forty times the mass holds the arm back"
    with pytest.raises(ValueError, match="varied=True"):
        worlds(1, device).vary(np.arange(1), "object", half[:1], np.ones(1), np.ones(1))
    some.close()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_state_decides_what_comes_after_it_on_any_number_of_threads(device: str, threads: int) -> None:
    one, other = worlds(4, device, threads=1), worlds(4, device, threads=threads)
    rng = np.random.default_rng(0)
    targets = REST + rng.uniform(-0.2, 0.2, (6, 4, 9))
    one.restart(np.arange(4), over([(0.5, 0.0, 0.05)] * 4))
    for target in targets[:3]:
        one.step(target)
    other.state[:] = one.state
    for target in targets[3:]:
        one.step(target)
        other.step(target)
    np.testing.assert_array_equal(one.state, other.state)
    one.close()
    other.close()
