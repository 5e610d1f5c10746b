"""A jointed robot of a kind that tasks know nothing of: it learns in MuJoCo worlds as arms do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np
import pytest
import torch

from rlstack.arrays import Array, Index, Mask
from rlstack.errors import UserError
from rlstack.robots.joints import DrivenJoint
from rlstack.sim.batch_mujoco import make_mujoco_simulator
from rlstack.tasks.core.learning_environment import GoalEnvironment
from rlstack.tasks.core.mujoco_environment import MujocoEnvironment, Outcome
from rlstack.tasks.core.observations import ActionHistory, Signal
from rlstack.tasks.core.pipeline import Pipeline
from rlstack.training.algorithms.ppo import PPO, PPOSettings
from rlstack.training.algorithms.sac import SAC, SACSettings

HOPPER = """
<mujoco>
  <option timestep="0.005"><flag autoreset="disable"/></option>
  <worldbody>
    <geom type="plane" size="5 5 1"/>
    <body name="base" pos="0 0 0.5">
      <freejoint name="base"/>
      <geom type="box" size="0.1 0.1 0.05" mass="1"/>
      <body name="leg" pos="0 0 -0.05">
        <joint name="knee" type="slide" axis="0 0 -1" range="0 0.3"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.05" mass="0.2"/>
      </body>
    </body>
  </worldbody>
  <actuator><position name="knee" joint="knee" kp="300" kv="10"/></actuator>
</mujoco>
"""
KNEE = DrivenJoint(
    name="knee", type="prismatic", mode="position", lower=0.0, upper=0.3, velocity_max=1.0, effort_max=50.0, rest=0.1
)


@dataclass(frozen=True, kw_only=True)
class Hopping:
    """Keep the body high."""

    rate_hz: float = 50.0
    steps: int = 20
    lost_m: float = 0.15
    inputs: tuple[str, ...] = ("height", "orientation", "joint_position")
    reward: dict[str, float] = field(default_factory=lambda: {"height": 1.0, "lost": -1.0})


class HopperScene:
    def __init__(self, task: Any, robot: Any, count: int, seed: int, threads: int | None, device: str) -> None:
        model, period_s = mujoco.MjModel.from_xml_string(HOPPER), 1.0 / task.rate_hz
        self.worlds = make_mujoco_simulator(model, [KNEE], count, period_s=period_s, threads=threads)
        self.close = self.worlds.close

    def true(self) -> dict[str, Array]:
        position, orientation = self.worlds.pose("base")
        return {
            "height": position[:, 2:],
            "orientation": orientation,
            "joint_position": self.worlds.joint_position,
        }

    def noisy(self, signals: dict[str, Array]) -> dict[str, Array]:
        return signals

    def lost(self) -> Mask:
        low = self.worlds.pose("base")[0][:, 2] < Hopping().lost_m
        return ~np.isfinite(self.worlds.state).all(axis=1) | low

    def seed(self, seed: int) -> None:
        pass


class HopperEnvironment(MujocoEnvironment):
    scene_class = HopperScene

    def __init__(self, count: int, seed: int = 0, threads: int = 1) -> None:
        robot, task = SimpleNamespace(name="hopper"), Hopping()
        terms = [Signal("height", 1, "m", "of the base"), Signal("joint_position", 1, "m", "of the knee", 5.0)]
        pipeline = Pipeline([*terms, ActionHistory(1)], "joint_target", [KNEE.lower], [KNEE.upper])
        super().__init__(task, robot, pipeline, count, seed=seed, threads=threads)

    def term_names(self) -> tuple[str, ...]:
        return ("height", "lost")

    def _start(self, index: Index) -> None:
        self.worlds.restart(index, np.full((len(index), 1), KNEE.rest))
        position = np.array([0.0, 0.0, 0.5]) + self._rng.uniform(0.0, 0.05, (len(index), 1))
        self.worlds.place(index, "base", position, np.tile([0.0, 0.0, 0.0, 1.0], (len(index), 1)))

    def _outcome(self, action: Array, lost: Mask) -> Outcome:
        height = self.worlds.pose("base")[0][:, 2]
        never = np.zeros(self.count, dtype=bool)
        return Outcome({"height": height / self.task.rate_hz, "lost": -1.0 * lost}, never, never)


@pytest.fixture
def environment() -> Iterator[HopperEnvironment]:
    made = HopperEnvironment(8)
    yield made
    made.close()


def test_episodes_end_by_time_or_loss_and_begin_anew(environment: HopperEnvironment) -> None:
    ended = torch.zeros(8, dtype=torch.bool)
    environment.observe()
    for _ in range(25):
        result = environment.step(torch.full((8, 1), 0.5))
        assert result.actor.shape == (8, environment.pipeline.size) and torch.isfinite(result.reward).all()
        ended |= result.timed_out
        # whoever starts anew has done nothing yet
        assert (result.actor[result.done][:, -1] == 0.0).all() and (result.next_actor[:, -1] == 0.5).all()
    assert ended.all()
    environment.worlds.state[3, 3] = np.nan
    result = environment.step(torch.zeros(8, 1))
    assert result.done[3] and not result.timed_out[3] and torch.isfinite(result.actor).all()


def test_it_goes_on_exactly_from_its_state_on_any_number_of_threads(environment: HopperEnvironment) -> None:
    environment.observe()
    environment.step(torch.zeros(8, 1))
    other = HopperEnvironment(8, seed=5, threads=2)
    other.load_state_dict(environment.state_dict())
    for _ in range(22):
        mine, theirs = (one.step(torch.full((8, 1), 0.3)) for one in (environment, other))
        assert torch.equal(mine.actor, theirs.actor) and torch.equal(mine.reward, theirs.reward)
    other.close()


def test_it_has_no_gradients_and_no_goals(environment: HopperEnvironment) -> None:
    assert isinstance(environment, GoalEnvironment)
    with pytest.raises(UserError, match="no gradients: learn with ppo or sac"):
        environment.rollout(2, 1.0)
    with pytest.raises(UserError, match="set hindsight to 0"):
        environment.reward_of(environment.achieved_goal(), environment.desired_goal())


def test_a_velocity_is_that_of_what_falls(environment: HopperEnvironment) -> None:
    environment.reset_all()
    environment.worlds.step(np.full((8, 1), KNEE.rest))
    linear, angular = environment.worlds.twist("base")
    np.testing.assert_allclose(linear[:, 2], -9.81 / 50.0, atol=0.05)
    np.testing.assert_allclose(angular, 0.0, atol=1e-6)


@pytest.mark.parametrize("algorithm", ["ppo", "sac"])
def test_algorithms_learn_from_it(environment: HopperEnvironment, algorithm: str) -> None:
    made: Any
    if algorithm == "ppo":
        made = PPO(PPOSettings(rollout=8, minibatches=2, epochs=1), environment)
    else:
        made = SAC(SACSettings(hindsight=0.0, warm_up=8, batch=16, hidden=(16,), updates=0.1), environment)
    before = [p.clone() for p in made.actor().parameters()]
    for k in range(3):
        assert np.isfinite(made.iterate(k / 3).reward_per_s)
    assert any(not torch.equal(a, b) for a, b in zip(before, made.actor().parameters()))
