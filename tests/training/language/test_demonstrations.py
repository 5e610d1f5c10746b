"""Which chunks of an expert are disturbed, and which of their actions teach."""

from __future__ import annotations

import pytest
import torch

from rlstack.robots import load_robot
from rlstack.tasks.catalog.base_landmark import BaseLandmarkTask
from rlstack.training.language.demonstrations import _Expert
from rlstack.training.language.strays import Disturbance

pytest.importorskip("mujoco")


def test_of_a_kicked_chunk_only_the_first_action_teaches_and_it_is_the_experts() -> None:
    task = BaseLandmarkTask()
    robot = task.reference(load_robot("turtlebot3_burger"))
    environment = task.environment(robot, task.pipeline(robot), 16, "cpu", 0)
    environment.restart(torch.arange(16))
    environment.observe()
    expert = _Expert(environment, Disturbance(stray=0.0, kicks=0.5), torch.Generator().manual_seed(0))
    done = []

    def act() -> torch.Tensor:
        done.append(expert.act())
        return done[-1]

    environment.roll(act, 4)
    shown, taught = expert.shown()
    kicked = taught[:, 1] == 0.0
    assert 3 <= kicked.sum() <= 13 and (taught[:, 0] == 1.0).all() and (taught[~kicked] == 1.0).all()
    executed = torch.stack(done, dim=1)
    assert torch.equal(executed[~kicked].clamp(-1.0, 1.0), shown[~kicked])
    assert (executed[kicked, 0] == executed[kicked, 3]).all()
    assert ((executed - shown).abs().amax(dim=2)[kicked] > 0.1).any(dim=1).all()
    environment.close()
