from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rlstack.errors import UserError
from rlstack.tasks.core.learning_environment import GoalEnvironment, ScriptedEnvironment
from rlstack.tasks.gymnasium_learning_environment import (
    Array,
    GymnasiumLearningEnvironment,
    ScriptedGymnasiumLearningEnvironment,
)
from rlstack.training.algorithms.hil_serl import HILSERL, HILSERLSettings
from rlstack.training.algorithms.rlpd import RLPD, RLPDSettings
from rlstack.training.algorithms.sac import SAC, SACSettings
from rlstack.training.intervention_strategies import IntervenerSettings

SMALL: dict[str, Any] = {"hidden": (16,), "batch": 16, "warm_up": 0, "updates": 0.25, "critics": 2}


class Point(gymnasium.Env[Any, Any]):
    """Go from a place on a line to 0 in steps of at most 0.2; beyond 1.5 one is lost."""

    observation_space: Any = spaces.Dict(
        {"place": spaces.Box(-2.0, 2.0, (1,), np.float64), "age": spaces.Box(0.0, 100.0, (1,), np.float64)}
    )
    action_space: Any = spaces.Box(np.float32(-0.2), np.float32(0.2), (1,))

    def __init__(self) -> None:
        self.place, self.age, self.seeds = 0.0, 0, []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.place, self.age = float(self.np_random.uniform(-1.0, 1.0)), 0
        return self.seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        self.place += float(action[0])
        self.age += 1
        won = abs(self.place) < 0.1
        return self.seen(), float(won), won or abs(self.place) > 1.5, False, {"is_success": won}

    def seen(self) -> Any:
        return {"place": np.array([self.place]), "age": np.array([float(self.age)])}


class GoalPoint(Point):
    """The same with a goal that is drawn; it goes on to the end."""

    observation_space: Any = spaces.Dict(
        {
            "observation": spaces.Box(-9.0, 9.0, (1,), np.float64),
            "achieved_goal": spaces.Box(-9.0, 9.0, (1,), np.float64),
            "desired_goal": spaces.Box(-9.0, 9.0, (1,), np.float64),
        }
    )

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        gymnasium.Env.reset(self, seed=seed)
        self.place, self.goal = (float(x) for x in self.np_random.uniform(-1.0, 1.0, 2))
        return self.seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place += float(action[0])
        seen = self.seen()
        reward = float(self.compute_reward(seen["achieved_goal"], seen["desired_goal"], {}))
        return seen, reward, False, False, {"is_success": reward == 0.0}

    def seen(self) -> Any:
        place = np.array([self.place])
        return {"observation": place + 7.0, "achieved_goal": place, "desired_goal": np.array([self.goal])}

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return -(np.abs(achieved - desired).max(axis=-1) >= 0.1).astype(np.float64)


def knows(environment: Any, seen: Array) -> Array:
    return np.array([np.clip(-5.0 * seen[1], -1.0, 1.0)])  # flat, by name: age, then place


def points(count: int = 2, seed: int = 0, **more: Any) -> ScriptedGymnasiumLearningEnvironment:
    return ScriptedGymnasiumLearningEnvironment(
        [Point() for _ in range(count)], knows, rate_hz=10.0, steps=20, seed=seed, **more
    )


def test_what_is_seen_is_flat_and_actions_are_scaled_to_their_box() -> None:
    environment = points()
    assert isinstance(environment, ScriptedEnvironment)
    assert environment.pipeline.size == environment.critic_size == 2 and environment.pipeline.action_size == 1
    before = environment.observe()[0].clone()
    result = environment.step(torch.tensor([[0.5], [-7.0]]))  # what is too much is clipped
    moved = result.next_actor[:, 1] - before[:, 1]
    assert torch.allclose(moved, torch.tensor([0.1, -0.2]), atol=1e-6)
    assert torch.equal(result.next_actor[:, 0], torch.ones(2))


def test_episodes_end_by_success_loss_and_time_and_begin_anew() -> None:
    environment = points(3)
    for one, place in zip(environment.environments, (0.15, 1.4, 0.5)):
        one.place = place
    result = environment.step(torch.tensor([[-0.5], [1.0], [0.0]]))
    assert result.done.tolist() == [True, True, False] and result.success.tolist() == [True, False, False]
    assert result.reward.tolist() == [1.0, 0.0, 0.0] and not result.timed_out.any()
    assert result.next_actor[1, 1].item() == pytest.approx(1.6)
    assert result.actor[:, 0].tolist() == [0.0, 0.0, 1.0]  # those that ended have begun anew
    for _ in range(19):
        result = environment.step(torch.tensor([[0.0], [0.0], [0.0]]))
    assert result.timed_out[2] and result.done[2]


def test_the_seed_decides_all_starts_and_is_gone_on_with() -> None:
    one, other = points(seed=3), points(seed=3)
    assert torch.equal(one.observe()[0], other.observe()[0])
    state = one.state_dict()
    one.reset_all()
    assert not torch.equal(one.observe()[0], other.observe()[0])
    other.load_state_dict(state)
    assert torch.equal(one.observe()[0], other.observe()[0])
    drawn = [seed for environment in one.environments for seed in environment.seeds]
    assert None not in drawn and len(set(drawn)) == len(drawn)


@settings(deadline=None, max_examples=20)
@given(place=st.floats(-1.0, 1.0), goal=st.floats(-1.0, 1.0), other=st.floats(-1.0, 1.0))
def test_goals_are_asked_anew_as_if_they_had_been_drawn(place: float, goal: float, other: float) -> None:
    assume(abs(abs(place - other) - 0.1) > 1e-6)  # there float32 and float64 may judge otherwise
    environment = GymnasiumLearningEnvironment([GoalPoint()], rate_hz=10.0, steps=5)
    assert isinstance(environment, GoalEnvironment) and environment.task.rewards == "sparse"
    (point,) = environment.environments

    def seen(wanted: float) -> torch.Tensor:
        point.place, point.goal = place, wanted
        environment._store(0, point.seen())
        return environment.observe()[0]

    asked, achieved, desired = seen(other), environment.achieved_goal(), environment.desired_goal()
    assert torch.equal(environment.relabelled(seen(goal), achieved, desired), asked)
    point.goal = other
    result = environment.step(torch.zeros(1, 1))
    assert torch.equal(environment.reward_of(result.achieved, result.desired), result.reward)


def test_sac_learns_with_hindsight_where_there_are_goals_alone() -> None:
    environment = GymnasiumLearningEnvironment([GoalPoint(), GoalPoint()], rate_hz=10.0, steps=5)
    assert "loss/critic" in SAC(SACSettings(**SMALL, hindsight=0.5), environment).iterate(0.0).scalars
    with pytest.raises(UserError, match=r"hindsight: 0.8 is not allowed"):
        SAC(SACSettings(**SMALL), points())
    with pytest.raises(UserError, match="has no scripted expert"):
        RLPD(RLPDSettings(**SMALL), environment)
    with pytest.raises(UserError, match="Point has no goals"):
        points().reward_of(torch.zeros(1, 1), torch.zeros(1, 1))


def test_rlpd_takes_demonstrations_and_goes_on() -> None:
    environment = points()
    algorithm = RLPD(RLPDSettings(**SMALL, hindsight=0.0, demonstrations=3), environment)
    algorithm.open(None)
    assert algorithm.replay is not None
    assert len(algorithm.replay.prior.buffer.episodes()) == 3  # type: ignore[attr-defined]
    assert algorithm.iterate(0.0).logged()["train/lost_share"] >= 0.0
    again = RLPD(RLPDSettings(**SMALL, hindsight=0.0, demonstrations=3), points())
    again.load_state_dict(algorithm.state_dict())
    again.open(None)
    again.iterate(0.5)


def test_without_demonstrations_corrections_are_what_is_shown() -> None:
    for rate, shown in ((0.0, [0.0] * 16), (0.5, [0.0] * 8 + [1.0] * 8)):
        script = IntervenerSettings(rate=rate, hold=1)
        algorithm = HILSERL(HILSERLSettings(**SMALL, demonstrations=0, intervener=script), points())
        for _ in range(2):
            algorithm.iterate(0.0)
        assert algorithm.replay is not None
        (batch,) = algorithm.replay.batches(1)
        assert batch["demonstrated"].tolist() == shown
    with pytest.raises(ValueError, match="there is nothing to clone"):
        HILSERLSettings(demonstrations=0, cloning=1.0)


class Silent(Point):
    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return *super().step(action)[:3], True, {"succeed": True}


class Choice(Point):
    action_space: Any = spaces.Discrete(3)


def test_what_cannot_be_learned_from_is_refused_by_name() -> None:
    with pytest.raises(UserError, match=r"Silent does not report 'is_success' in info, but \['succeed'\]"):
        GymnasiumLearningEnvironment([Silent()], rate_hz=10.0, steps=5).step(torch.zeros(1, 1))
    for key in ("succeed", ""):
        environment = GymnasiumLearningEnvironment([Silent()], rate_hz=10.0, steps=5, success=key)
        assert environment.step(torch.zeros(1, 1)).success.tolist() == [bool(key)]
    with pytest.raises(UserError, match=r"Choice has the action space Discrete\(3\)"):
        GymnasiumLearningEnvironment([Choice()], rate_hz=10.0, steps=5)
    with pytest.raises(UserError, match="Point has no registered episode length: give steps"):
        GymnasiumLearningEnvironment([Point()], rate_hz=10.0)
    with pytest.raises(UserError, match="give at least one"):
        GymnasiumLearningEnvironment([], rate_hz=10.0)
    with pytest.raises(UserError, match="no gradients"):
        points().rollout(4, 1.0)
