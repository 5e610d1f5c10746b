"""Worlds that MuJoCo Warp steps are MuJoCo's: shown on Warp's CPU device, where it is installed (extra ``warp``).

Warp compiles for minutes the first time, so `make test` does without the package.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import torch

from rlstack.errors import UserError
from rlstack.fused.devices import TEST_DEVICE
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import load_robot
from rlstack.sim.arms.scene import build_scene
from rlstack.sim.batch_mujoco import make_mujoco_simulator
from rlstack.sim.batch_mujoco.simulator import MujocoSimulator
from rlstack.tasks import TASKS
from rlstack.tasks.manipulator.environment import ArmEnvironment

pytest.importorskip("warp")

pytestmark = pytest.mark.timeout(600)  # Warp compiles for the first of them

PANDA = load_robot("panda")
assert isinstance(PANDA, Manipulator)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco_warp", None)
    with pytest.raises(UserError, match=r"mujoco_warp.*: pip install 'rlstack\[warp\]', or use the device cpu"):
        make_mujoco_simulator(build_scene(PANDA, None), PANDA.drives, 1, period_s=0.05, device=TEST_DEVICE)


class Shadow:
    """Worlds on another device that go along with an environment's: the same models, and each period the same start."""

    def __init__(self, environment: ArmEnvironment) -> None:
        scene = environment.scene
        task: Any = scene.task
        self._leading, self._step = scene.worlds, scene.worlds.step
        self.worlds = make_mujoco_simulator(
            build_scene(scene.robot, task.build),
            scene.robot.drives,
            scene.count,
            period_s=1.0 / task.rate_hz,
            varied=True,
            device=TEST_DEVICE,
        )
        self.apart: list[tuple[np.ndarray, np.ndarray]] = []
        """Of each period: how far positions and velocities are apart at its end, (N,), m, rad and a second."""
        for name in ("vary", "move", "brake"):
            setattr(scene.worlds, name, self._both(name))
        scene.worlds.step = self.step  # type: ignore[method-assign]

    def _both(self, name: str) -> Any:
        plain = getattr(self._leading, name)

        def both(*arguments: Any) -> None:
            plain(*arguments)
            getattr(self.worlds, name)(*arguments)

        return both

    def step(self, target: np.ndarray) -> None:
        self.worlds.state = self._leading.state
        self._step(target)
        self.worlds.step(target)
        off = np.abs(self.worlds.state - self._leading.state)
        first = 1 + self._leading.model.nq
        self.apart.append((off[:, 1:first].max(axis=1), off[:, first:].max(axis=1)))
        np.testing.assert_allclose(off[:, 0], 0.0, atol=1e-12)


@pytest.mark.parametrize("name", ["arm_push", "arm_pick_place", "arm_stack", "arm_insert", "arm_drawer"])
def test_a_period_ends_as_in_mujoco_whatever_is_touched(name: str) -> None:
    pytest.importorskip("mujoco_warp")
    torch.set_num_threads(1)
    task = TASKS.load(name)()
    environment = ArmEnvironment(task, PANDA, task.pipeline(PANDA), 4, seed=0, threads=1)
    shadow = Shadow(environment)
    environment.reset_all()
    for _ in range(60):
        noise = torch.randn(4, environment.pipeline.action_size, generator=environment.generator)
        environment.step(environment.expert_action() + 0.3 * noise)
    positions, velocities = (np.array(apart) for apart in zip(*shadow.apart))
    # float32; more where something is touched in one of them a physics step before it is in the other
    assert np.quantile(positions, 0.9) < 2e-4 and np.quantile(velocities, 0.9) < 1e-2
    assert positions.max() < 5e-3
    environment.close()


def test_room_for_contacts_grows() -> None:
    pytest.importorskip("mujoco_warp")
    task = TASKS.load("arm_pick_place")()
    some, other = (
        make_mujoco_simulator(build_scene(PANDA, task.build), PANDA.drives, 2, period_s=0.05, device=device, threads=1)
        for device in (TEST_DEVICE, "cpu")
    )
    small: Any = some
    small._make_room(1)
    rest = np.tile([drive.rest for drive in PANDA.drives], (2, 1))
    worlds: MujocoSimulator
    for worlds in (some, other):
        worlds.place(np.arange(2), "object", np.array([[0.5, 0.0, 0.02]] * 2), np.array([[0.0, 0.0, 0.0, 1.0]] * 2))
        for _ in range(3):
            worlds.step(rest)
    assert small._room >= 4
    np.testing.assert_allclose(some.state, other.state, atol=1e-4)
    other.close()
