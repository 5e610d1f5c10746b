"""Tasks with goals for stable-baselines3's hindsight."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("stable_baselines3")

from stable_baselines3 import SAC, HerReplayBuffer

from rlstack.environments.environment_core import GOAL
from rlstack.environments.learning_core import LearningCore
from rlstack.environments.stable_baselines3 import PolicyObservation, TaskVecEnv
from rlstack.environments.vector_environment import TaskVectorEnvironment
from tests.support.reaching import Reaching


def reaching(count: int, seed: int = 0) -> TaskVectorEnvironment:
    return TaskVectorEnvironment(LearningCore(Reaching(count, seed), GOAL))


def test_steps_and_ends_are_told_as_it_wants_them() -> None:
    environment = TaskVecEnv(reaching(4))
    seen = environment.reset()
    assert {name: array.shape for name, array in seen.items()} == {
        "observation": (4, 4),
        "achieved_goal": (4, 2),
        "desired_goal": (4, 2),
    }
    ended = 0
    for _ in range(60):
        action = 0.5 * environment.environment.core.environment.expert_action().numpy()
        before, (seen, reward, done, infos) = seen, environment.step(action)
        for k, info in enumerate(infos):
            last = info["terminal_observation"] if done[k] else {name: array[k] for name, array in seen.items()}
            np.testing.assert_allclose(last["achieved_goal"], before["achieved_goal"][k] + 0.1 * action[k], atol=1e-6)
            np.testing.assert_array_equal(last["desired_goal"], before["desired_goal"][k])
            goals = last["achieved_goal"][None], last["desired_goal"][None]
            assert environment.env_method("compute_reward", *goals, [{}], indices=[0]) == [reward[k]]
            if done[k]:
                ended += 1
                assert info["is_success"] == (reward[k] == 0.0) != info["TimeLimit.truncated"]
                assert not np.array_equal(last["desired_goal"], seen["desired_goal"][k])
    assert ended > 4
    with pytest.raises(AttributeError, match="no method render"):
        environment.env_method("render")


def test_its_networks_see_what_ours_see_with_any_goal() -> None:
    environment = reaching(4)
    vectors = TaskVecEnv(environment)
    seen = {name: torch.from_numpy(array) for name, array in vectors.reset().items()}
    sees = PolicyObservation(vectors.observation_space, environment)
    assert torch.equal(sees(seen), environment.core.environment.observe()[0])
    moved = sees({**seen, "desired_goal": seen["desired_goal"] + 1.0})
    assert torch.allclose(moved - sees(seen), torch.tensor([0.0, 0.0, 1.0, 1.0]))


def test_its_hindsight_judges_by_the_task() -> None:
    environment = reaching(8, seed=1)
    learner = SAC(
        "MultiInputPolicy",
        TaskVecEnv(environment),
        train_freq=(1, "step"),
        learning_starts=240,
        batch_size=16,
        replay_buffer_class=HerReplayBuffer,
        policy_kwargs={
            "net_arch": [8],
            "features_extractor_class": PolicyObservation,
            "features_extractor_kwargs": {"environment": environment},
        },
        seed=0,
        device="cpu",
    )
    learner.learn(320)
    drawn = learner.replay_buffer.sample(200)
    after = drawn.next_observations
    judged = environment.core.environment.reward_of(after["achieved_goal"], after["desired_goal"])
    assert torch.equal(drawn.rewards[:, 0], judged)
    # four of five are judged by what was reached, at least at once; of those few that were not, hardly any is there
    assert (judged == 0.0).float().mean() > 0.2
    assert torch.equal(drawn.observations["desired_goal"], after["desired_goal"])
