"""An arm at its task in an engine: what stands there, what is sensed, and that trials begin where they say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.tasks.catalog.arm_drawer import DrawerTask
from rlstack.tasks.catalog.arm_insert import InsertTask
from rlstack.tasks.catalog.arm_push import PushTask
from rlstack.tasks.catalog.arm_reach import ReachTask
from rlstack.tasks.catalog.arm_stack import StackTask
from rlstack.tasks.catalog.table_drawer import TableDrawerTask
from rlstack.tasks.catalog.table_push import TablePushTask
from rlstack.tasks.manipulator.scene import ArmScene
from rlstack.verification.manipulation_simulator import ManipulationSimulator, world_of
from rlstack.verification.manipulation_trials import held_out
from tests.kinds.manipulator.guard_loop import panda

ROBOT = panda()


@contextmanager
def connected(cell: ManipulationSimulator) -> Iterator[ManipulationSimulator]:
    """Yield a cell that is connected, and close it whatever happens."""
    cell.connect()
    try:
        yield cell
    finally:
        cell.close()


@pytest.mark.parametrize("engine", ["mujoco", "pybullet"])
def test_an_object_stands_where_its_trial_says_and_is_sensed_with_noise(engine: str) -> None:
    task = PushTask()
    trials = held_out(task, ROBOT, 2, 3)
    with connected(ManipulationSimulator(engine, task, ROBOT, trials, seed=1)) as cell:
        before_s = -1.0
        for number in range(2 if engine == "mujoco" else 1):
            cell.enter(number)
            cell.write({"joint_target": trials.joints[number]})
            for _ in range(10):
                cell.step(0.01)
            reading = cell.read()
            assert reading.time_s > before_s  # time goes on from trial to trial
            before_s = reading.time_s
            np.testing.assert_allclose(cell.achieved, trials.position[number], atol=2e-3)
            sensed, again = reading.signals, cell.read().signals
            assert all(np.array_equal(sensed[name], again[name]) for name in sensed)  # drawn once a period
            off = sensed["object_position"] - cell.achieved
            assert 0.0 < np.abs(off).max() < 6.0 * task.noise.object_m
            np.testing.assert_allclose(sensed["joint_position"], trials.joints[number], atol=0.01)
            np.testing.assert_allclose(
                np.abs(sensed["object_orientation"] @ trials.orientation[number]), 1.0, atol=1e-3
            )
            assert not cell.lost and np.array_equal(cell.goal, trials.goal[number])


@pytest.mark.parametrize("what", ["joints", "object"])
@pytest.mark.parametrize("engine", ["mujoco", "pybullet"])
def test_a_trial_whose_numbers_broke_is_lost_and_the_next_one_is_not(engine: str, what: str) -> None:
    task = PushTask()
    trials = held_out(task, ROBOT, 2, 3)
    with connected(ManipulationSimulator(engine, task, ROBOT, trials, seed=1)) as cell:
        cell.write({"joint_target": trials.joints[0]})
        cell.step(0.01)
        simulation = cell.backend.simulation
        if what == "joints":
            simulation.engine.place_joints(0, np.full(9, np.nan), np.zeros(9))
        elif engine == "mujoco":
            simulation.engine.data.joint("world/object").qvel[:] = np.nan
        else:
            (body, _), *_ = simulation.engine._loose
            simulation.engine._server.move(body, [np.nan] * 3, [0.0, 0.0, 0.0, 1.0], [0.0] * 3, [0.0] * 3)
        cell.step(0.01)
        assert cell.lost
        for _ in range(3):
            cell.write({"joint_target": trials.joints[0]})
            cell.step(0.01)
            assert all(np.isfinite(values).all() for values in cell.read().signals.values())
        np.testing.assert_allclose(cell.read().signals["joint_position"], trials.joints[0], atol=0.02)
        np.testing.assert_allclose(cell.achieved, trials.position[0], atol=2e-3)
        cell.enter(1)
        cell.step(0.01)
        assert not cell.lost


def test_the_noise_of_a_trial_is_its_own_whoever_has_which_share() -> None:
    task = ReachTask()
    trials = held_out(task, ROBOT, 3, 3)
    whole, part = (
        ManipulationSimulator("mujoco", task, ROBOT, trials, 7),
        ManipulationSimulator("mujoco", task, ROBOT, trials.take(np.arange(2, 3)), 7, 2),
    )
    seen = []
    for cell, number in ((whole, 2), (part, 0)):
        cell.connect()
        cell.enter(number)
        cell.step(0.01)
        seen.append(cell.read().signals["joint_position"])
        cell.close()
    np.testing.assert_array_equal(seen[0], seen[1])


def test_the_hole_of_a_peg_stands_around_its_goal() -> None:
    task = InsertTask()
    trials = held_out(task, ROBOT, 1, 3)
    peg, *walls = world_of(task, trials, 0).obstacles
    assert peg.name == "object" and peg.mass_kg > 0.0 and peg.position_m == tuple(trials.position[0])
    goal, half_width = trials.goal[0], trials.half[0, 0]
    assert len(walls) == 4 and all(wall.mass_kg == 0.0 and wall.friction == 0.3 for wall in walls)
    for wall in walls:
        away = np.abs(np.array(wall.position_m) - goal)[:2] - 0.5 * np.array(wall.size_m)[:2]
        assert away.max() == pytest.approx(half_width + 0.5 * task.clearance_m) and wall.lowest_m == pytest.approx(0.0)


def test_the_box_that_is_stacked_on_stands_below_the_goal_and_carries_the_other() -> None:
    task = StackTask()
    trials = held_out(task, ROBOT, 1, 3)
    trials.position[0] = trials.goal[0]  # as if it were done
    _, lower = world_of(task, trials, 0).obstacles
    assert lower.mass_kg == trials.mass[0] and lower.friction == trials.friction[0]
    assert lower.lowest_m == pytest.approx(0.0, abs=1e-9) and lower.yaw_rad == -trials.yaw[0]
    assert lower.highest_m == pytest.approx(trials.goal[0, 2] - trials.half[0, 2])
    with connected(ManipulationSimulator("mujoco", task, ROBOT, trials, seed=1)) as cell:
        cell.write({"joint_target": trials.joints[0]})
        for _ in range(50):
            cell.step(0.01)
        assert task.done(cell.achieved[None], trials.goal[:1])[0] and not cell.lost


@pytest.mark.parametrize("engine", ["mujoco", "pybullet"])
def test_a_trial_with_several_blocks_fails_once_another_one_is_moved(engine: str) -> None:
    task = TablePushTask()
    trials = held_out(task, ROBOT, 1, 3)
    first, *others = world_of(task, trials, 0).obstacles
    assert first.name == "object" and [other.name for other in others] == ["block_1", "block_2"]
    for k, block in enumerate((first, *others)):
        assert block.colour == tuple(trials.colour[0, k]) and block.lowest_m == pytest.approx(0.0, abs=1e-9)
    with connected(ManipulationSimulator(engine, task, ROBOT, trials, seed=1)) as cell:
        cell.write({"joint_target": trials.joints[0]})
        for _ in range(5):
            cell.step(0.01)
        assert not cell.lost and np.array_equal(cell.signals()["instruction"], trials.instruction[0])
        trials.beside_position[0, 1, 0] += 0.03  # as if it had been there
        cell.step(0.01)
        assert cell.lost


def test_two_drawers_stand_in_an_engine_as_in_training_and_the_other_one_must_stay_closed() -> None:
    task = TableDrawerTask()
    trials = held_out(task, ROBOT, 1, 3)
    names = ["object", "object_front", "cabinet_0", "block_1", "block_1_front", "cabinet_1"]
    obstacles = world_of(task, trials, 0).obstacles
    assert [one.name for one in obstacles] == names
    assert [one.colour for one in obstacles] == [tuple(trials.colour[0, k]) for k in (0, 0, 0, 1, 1, 1)]
    with connected(ManipulationSimulator("mujoco", task, ROBOT, trials, seed=1)) as cell:
        cell.write({"joint_target": trials.joints[0]})
        cell.step(0.01)
        np.testing.assert_allclose(cell.achieved, trials.position[0], atol=1e-3)
        assert not cell.lost
        cell.backend.simulation.engine.data.joint("world/block_1").qpos[:] = 0.03
        cell.step(0.01)
        assert cell.lost


def boxes(model: Any, data: Any, robot: str) -> list[list[float]]:
    """Return place and half lengths of what is of a box's shape and not the robot's."""
    import mujoco

    mujoco.mj_kinematics(model, data)
    mine = [
        k
        for k in range(model.ngeom)
        if model.geom_type[k] == mujoco.mjtGeom.mjGEOM_BOX
        and model.body(int(model.body_rootid[model.geom_bodyid[k]])).name != robot
    ]
    return sorted([*data.geom_xpos[k], *data.geom_xmat[k], *model.geom_size[k]] for k in mine)


def test_a_drawer_is_the_one_that_policies_learn_on() -> None:
    import mujoco

    task = DrawerTask()
    trials = held_out(task, ROBOT, 1, 3)
    scene = ArmScene(task, ROBOT, 1, 0, threads=1)
    scene.start(np.arange(1), trials)
    learnt = scene.worlds._models[0]  # type: ignore[attr-defined]
    drawer, front, cabinet = world_of(task, trials, 0).obstacles
    assert drawer.slide is not None and front.part_of == drawer.name == "object" and not cabinet.can_move
    with connected(ManipulationSimulator("mujoco", task, ROBOT, trials, seed=1)) as cell, closing(scene):
        engine: Any = cell.backend.simulation.engine
        data, joint = mujoco.MjData(learnt), learnt.joint("object")
        for pulled in (0.0, 0.07):
            data.qpos[joint.qposadr[0]] = engine.data.joint("world/object").qpos[0] = pulled
            np.testing.assert_allclose(
                boxes(engine.model, engine.data, "base_link"), boxes(learnt, data, "base_link"), atol=1e-9
            )
            place, _ = engine.obstacle_pose("object")
            np.testing.assert_allclose(place, data.body("object").xpos, atol=1e-9)
        held, dof = engine.model.joint("world/object"), joint.dofadr[0]
        for told in ("dof_frictionloss", "dof_damping"):
            assert getattr(engine.model, told)[held.dofadr[0]] == pytest.approx(getattr(learnt, told)[dof])
        assert engine.model.body("world/object").mass[0] == pytest.approx(learnt.body("object").mass[0])
        assert held.range == pytest.approx(joint.range)


@pytest.mark.parametrize("engine", ["mujoco", "pybullet"])
def test_a_drawer_that_is_open_as_far_as_asked_is_sensed_so_and_closed_again_by_the_next_trial(engine: str) -> None:
    task = DrawerTask()
    trials = held_out(task, ROBOT, 1, 3)
    with connected(ManipulationSimulator(engine, task, ROBOT, trials, seed=1)) as cell:
        held: Any = cell.backend.simulation.engine
        if engine == "mujoco":
            held.data.joint("world/object").qpos[0] = task.open_m
        else:
            held._sliding["object"].move(task.open_m, 0.0)
        cell.step(0.01)
        np.testing.assert_allclose(cell.achieved, trials.goal[0], atol=1e-3)
        off = cell.read().signals["object_position"] - cell.achieved
        assert 0.0 < np.abs(off).max() < 6.0 * task.noise.object_m and not cell.lost
        turned = cell.read().signals["object_orientation"] @ trials.orientation[0]
        assert abs(turned) == pytest.approx(1.0, abs=1e-3)
        cell.reset()
        np.testing.assert_allclose(cell.achieved, trials.position[0], atol=1e-6)


class Strange(PushTask):
    """Has something in its scene that nobody else knows of."""

    def build(self, spec: Any) -> None:
        """Add it."""


def test_what_an_engine_cannot_hold_or_time_is_refused() -> None:
    strange = Strange()
    with pytest.raises(UserError, match="Only the batch simulator supports the scene of Strange"):
        world_of(strange, held_out(strange, ROBOT, 1, 3), 0)
    odd = ReachTask(rate_hz=30.0)
    with pytest.raises(UserError, match="no whole multiple of the task's 30 Hz"):
        ManipulationSimulator("mujoco", odd, ROBOT, held_out(odd, ROBOT, 1, 3), 0)
