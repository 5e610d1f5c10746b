"""Every task of every kind is an environment, by the simulator that it is learned in."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium")

import gymnasium
from gymnasium.utils.env_checker import check_env

from rlstack.environments import environment_id
from rlstack.environments.single_environment import TaskEnvironment
from rlstack.errors import UserError
from rlstack.tasks import TASKS
from rlstack.tasks.quadrotor.task import QuadrotorTask
from tests.support.arms import small_panda

FEW_MAPS: dict[str, Any] = {"maps": {"count": 4}}
SMALL: dict[str, dict[str, Any]] = {"base_navigation": FEW_MAPS, "base_crowd": {"scenes": 8}}
LEARNED = [name for name in TASKS.names() if not issubclass(TASKS.load(name), QuadrotorTask)]
SPARSE = [name for name in LEARNED if name.startswith("arm_") and "camera" not in name]


@cache
def camera_arm() -> Any:
    return small_panda(20)


def make(task: str, **settings: Any) -> Any:
    given = {**SMALL.get(task, {}), **settings}
    if "camera" in task:
        pytest.importorskip("mujoco")
        given["robot"] = camera_arm()
    elif task.startswith("table_"):  # most have no recipe to take a robot from
        given["robot"] = "panda"
    return gymnasium.make(environment_id(task), **given).unwrapped


@pytest.mark.parametrize("task", LEARNED)
def test_the_checkers_have_nothing_to_say(task: str) -> None:
    environment = make(task)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(environment, skip_render_check=True)
    sb3 = pytest.importorskip("stable_baselines3.common.env_checker")
    sb3.check_env(environment)
    environment.close()


@pytest.mark.parametrize("task", LEARNED)
def test_seeds_decide_everything(task: str) -> None:
    def record(environment: Any, seed: int) -> np.ndarray:
        environment.action_space.seed(1)
        rows = [environment.reset(seed=seed)[0]]
        for _ in range(5):
            seen, reward, terminated, truncated, info = environment.step(environment.action_space.sample())
            assert reward == pytest.approx(sum(info["reward_terms"].values()), abs=1e-4)
            rows.append(np.append(seen[:-1], reward))
            if terminated or truncated:
                rows.append(environment.reset()[0])
        return np.concatenate(rows)

    environment = make(task)
    first = record(environment, 3)
    other = record(environment, 4)
    np.testing.assert_array_equal(record(environment, 3), first)
    assert first.shape != other.shape or not np.array_equal(first, other)
    environment.close()


@pytest.mark.parametrize("task", ["arm_reach", "base_navigation", "base_exploration", "base_racing"])
@pytest.mark.parametrize("mode", ["SameStep", "NextStep"])
def test_many_at_once_end_and_begin_again(task: str, mode: str) -> None:
    short = {"longest": 6, "short": 6} if task == "base_exploration" else {"episode_s": 0.6}
    if task == "arm_reach":
        short["hold_s"] = 0.1
    environment = gymnasium.make_vec(
        environment_id(task), num_envs=3, autoreset_mode=mode, **{**SMALL.get(task, {}), **short}
    )
    seen, _ = environment.reset(seed=0)
    ends = np.zeros(3, dtype=int)
    over, told = np.zeros(3, dtype=bool), 0
    for _ in range(40):
        assert seen in environment.observation_space
        seen, reward, terminated, truncated, info = environment.step(0.1 * environment.action_space.sample())
        assert not (over & (terminated | truncated | (reward != 0.0))).any()
        ended = terminated | truncated
        assert not (terminated & truncated).any()
        if mode == "SameStep":
            for k in np.flatnonzero(ended):
                assert info["final_obs"][k] in environment.single_observation_space
                told += not np.array_equal(info["final_obs"][k], seen[k])
        else:
            over = ended
        ends += ended
    assert (ends >= 2).all() and (told > 3 or mode == "NextStep")
    environment.close()


@pytest.mark.parametrize("task", SPARSE)
def test_goals_are_shown_for_hindsight(task: str) -> None:
    environment = make(task, observation="goal", rewards="sparse")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(environment, skip_render_check=True)
    seen, _ = environment.reset(seed=0)
    assert set(seen) == {"observation", "achieved_goal", "desired_goal"}
    seen, reward, _, _, info = environment.step(environment.action_space.sample())
    assert environment.compute_reward(seen["achieved_goal"], seen["desired_goal"], info) == reward == -1.0
    assert environment.compute_reward(seen["achieved_goal"], seen["achieved_goal"], info) == 0.0
    environment.close()


@pytest.mark.parametrize(
    ("task", "settings", "said"),
    [
        ("base_exploration", {"backend": "pybullet"}, "base_exploration runs only in its training simulator"),
        ("base_exploration", {"world": "warehouse"}, "only quadrotor tasks have it"),
        ("base_exploration", {"observation": "signals"}, "supports 'policy' observations"),
        ("base_exploration", {"observation": "goal"}, "has no goals"),
        ("quadrotor_hover", {"observation": "goal"}, "has no goals"),
        ("arm_reach", {"observation": "goal", "rewards": "dense"}, "hindsight needs rewards='sparse'"),
        ("base_exploration", {"render_mode": "rgb_array"}, "render_mode: 'rgb_array' is not allowed"),
        ("base_exploration", {"robot": "crazyflie"}, "crazyflie"),
    ],
)
def test_what_a_task_cannot_do_is_said(task: str, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        TaskEnvironment(task, **settings)


def test_bad_options_and_actions_are_said() -> None:
    environment = make("base_exploration")
    with pytest.raises(UserError, match="options: state"):
        environment.reset(options={"state": {"position": [0, 0, 0]}})
    environment.reset(seed=0)
    with pytest.raises(ValueError, match="not finite"):
        environment.step(np.full(4, np.nan, dtype=np.float32))
