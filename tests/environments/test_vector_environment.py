from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium")

import gymnasium
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics

import rlstack.environments.vector_environment
from rlstack.errors import UserError
from tests.environments.cases import BACKENDS, TASK_IDS

HOVER = TASK_IDS[0]


def make(name: str, count: int, **settings: Any) -> Any:
    return gymnasium.make_vec(name, num_envs=count, **settings)


def random_actions(steps: int, count: int) -> np.ndarray:
    return np.random.default_rng(1).uniform(-0.5, 0.9, (steps, count, 4)).astype(np.float32)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", TASK_IDS)
def test_each_robot_flies_as_if_alone(name: str, backend: str) -> None:
    settings = {"backend": backend, "episode_s": 0.3}
    together = make(name, 3, autoreset_mode="NextStep", **settings)
    alone = [gymnasium.make(name, **settings).unwrapped for _ in range(3)]
    seen, _ = together.reset(seed=20)
    singles = [environment.reset(seed=20 + k)[0] for k, environment in enumerate(alone)]
    over = [False] * 3
    tolerance = {"batch": 1e-5, "mujoco": 1e-4, "pybullet": 1e-3}[backend]
    for actions in random_actions(70, 3):
        np.testing.assert_allclose(seen, singles, atol=tolerance)
        seen, rewards, lost, timed_out, _ = together.step(actions)
        for k, environment in enumerate(alone):
            if over[k]:
                singles[k], over[k] = environment.reset()[0], False
                assert rewards[k] == 0.0 and not lost[k] and not timed_out[k]
                continue
            singles[k], reward, mine_lost, mine_over, _ = environment.step(actions[k])
            over[k] = mine_lost or mine_over
            assert rewards[k] == pytest.approx(reward, abs=tolerance)
            assert (lost[k], timed_out[k]) == (mine_lost, mine_over)
    for environment in (together, *alone):
        environment.close()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("observation", ["policy", "signals"])
def test_in_the_same_step_what_was_seen_last_is_told(backend: str, observation: str) -> None:
    environment = make(HOVER, 5, backend=backend, episode_s=0.2, observation=observation)
    assert environment.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    seen, info = environment.reset(seed=3)
    assert seen in environment.observation_space and info == {}
    ended_at = []
    for k, actions in enumerate(random_actions(45, 5)):
        seen, reward, lost, timed_out, info = environment.step(actions)
        assert seen in environment.observation_space
        assert reward.dtype == np.float64
        ended = lost | timed_out
        np.testing.assert_array_equal(info["_reward_terms"], ~ended)
        if not ended.any():
            assert "final_obs" not in info
            continue
        ended_at.append(k)
        np.testing.assert_array_equal(info["_final_obs"], ended)
        for number in range(5):
            assert (info["final_obs"][number] is not None) == ended[number]
            if ended[number]:
                assert info["final_obs"][number] in environment.single_observation_space
        terms = info["final_info"]["reward_terms"]
        total = sum(value for name, value in terms.items() if not name.startswith("_"))
        np.testing.assert_allclose(total[ended], reward[ended], atol=1e-5)
    assert ended_at[0] <= 19 and len(ended_at) >= 2
    environment.close()


def test_without_resets_of_its_own_some_are_reset_by_mask() -> None:
    environment = make(HOVER, 3, autoreset_mode=AutoresetMode.DISABLED, episode_s=0.1)
    first, _ = environment.reset(seed=0)
    for actions in random_actions(10, 3):
        last, *_, timed_out, _ = environment.step(actions)
    assert timed_out.all()
    mask = np.array([False, True, False])
    seen, _ = environment.reset(options={"reset_mask": mask})
    np.testing.assert_array_equal(seen[~mask], last[~mask])
    assert not np.array_equal(seen[1], last[1])
    _, _, _, timed_out, _ = environment.step(random_actions(1, 3)[0])
    np.testing.assert_array_equal(timed_out, ~mask)
    again, _ = environment.reset(seed=0)
    np.testing.assert_array_equal(again, first)
    for bad in ([True, False], np.zeros(3, dtype=bool)):
        with pytest.raises(UserError, match="reset_mask"):
            environment.reset(options={"reset_mask": bad})


def test_gymnasiums_wrappers_understand_what_it_says() -> None:
    wrapped = DictInfoToList(RecordEpisodeStatistics(make(HOVER, 4, episode_s=0.2)))
    wrapped.reset(seed=0)
    lengths = []
    for actions in random_actions(50, 4):
        *_, infos = wrapped.step(actions)
        lengths += [info["episode"]["l"] for info in infos if "episode" in info]
    assert lengths and max(lengths) == 20
    wrapped.close()
    wrapped.close()


def test_seeds_of_each_robot() -> None:
    environment = make(HOVER, 3)
    one, _ = environment.reset(seed=4)
    each, _ = environment.reset(seed=[6, 5, 4])
    np.testing.assert_array_equal(one, each[::-1])
    with pytest.raises(UserError, match="2 seeds for 3 robots"):
        environment.reset(seed=[1, 2])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"autoreset_mode": "Never"}, "Unknown autoreset_mode 'Never'"),
        ({"render_mode": "rgb_array"}, "a vector environment does not render"),
        ({"num_envs": 0}, "num_envs: 0 is not allowed"),
    ],
)
def test_bad_settings_are_said(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        rlstack.environments.vector_environment.TaskVectorEnvironment("quadrotor_hover", **settings)
