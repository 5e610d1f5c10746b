from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium")

import gymnasium
import torch
from gymnasium.utils.env_checker import check_env

import rlstack.environments.single_environment
from rlstack.environments import environment_id, register_tasks
from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.tasks import TASKS
from tests.environments.cases import BACKENDS, QUIET, STILL, TASK_IDS

HOVER, TRACKING, FOUNDATION = TASK_IDS


def make(name: str, **settings: Any) -> Any:
    return gymnasium.make(name, **settings).unwrapped


def hover_action(count: int = 1) -> np.ndarray:
    robot = load_quadrotor("crazyflie")
    low, high = robot.rotor_model.speed_min_rad_s, robot.rotor_model.speed_max_rad_s
    return np.full((count, 4), 2.0 * (robot.hover_speed_rad_s - low) / (high - low) - 1.0, dtype=np.float32)


def test_every_task_is_registered_once() -> None:
    register_tasks()
    mine = {name for name in gymnasium.registry if name.startswith("rlstack/")}
    assert mine == {environment_id(task) for task in TASKS.names()} >= set(TASK_IDS)


def test_gymnasium_finds_it_by_module() -> None:
    code = "import gymnasium; print(gymnasium.make('rlstack.environments:rlstack/QuadrotorHover-v0').spec.id)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == HOVER, done.stderr


@pytest.mark.parametrize("observation", ["policy", "signals"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", TASK_IDS)
def test_gymnasiums_checker_has_nothing_to_say(name: str, backend: str, observation: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        environment = make(name, backend=backend, observation=observation)
        check_env(environment, skip_render_check=True)  # drawn once, below
    environment.close()


@pytest.mark.parametrize("name", TASK_IDS)
@pytest.mark.parametrize("observation", ["policy", "signals"])
def test_what_is_seen_stays_within_the_space(name: str, observation: str) -> None:
    environment = make(name, observation=observation)
    seen, _ = environment.reset(seed=1)
    environment.action_space.seed(1)
    ends = 0
    for _ in range(1500):
        assert seen in environment.observation_space
        seen, reward, lost, timed_out, info = environment.step(environment.action_space.sample())
        assert np.isfinite(reward)
        assert reward == pytest.approx(sum(info["reward_terms"].values()), abs=1e-4)
        assert (info["reward_terms"]["lost"] != 0.0) == lost
        if lost or timed_out:
            ends += 1
            seen, _ = environment.reset()
    assert ends > 3


def test_an_episode_ends_when_its_time_is_over() -> None:
    environment = make(HOVER, episode_s=0.2, rate_hz=50.0, backend="mujoco", **STILL)
    start = {"rotor_speed": np.full(4, environment.core.robot.hover_speed_rad_s)}
    environment.reset(seed=0, options={"state": start})
    ends = [environment.step(hover_action()[0])[2:4] for _ in range(10)]
    assert ends == [(False, False)] * 9 + [(False, True)]
    environment.close()


@pytest.mark.parametrize("name", TASK_IDS)
def test_the_observation_is_what_the_exported_pipeline_computes(name: str) -> None:
    seeing, raw = (make(name, backend="batch", observation=kind) for kind in ("policy", "signals"))
    step = seeing.core.step_kernels
    memory = step.pipeline.initial_memory(1)
    seen, _ = seeing.reset(seed=5)
    signals, _ = raw.reset(seed=5)
    random = np.random.default_rng(0)
    for _ in range(20):
        inputs = {key: torch.from_numpy(array)[None] for key, array in signals.items()}
        prepared = step.pipeline.prepare(inputs, memory)
        np.testing.assert_allclose(seen, step.pipeline.observe(prepared, memory)[0].numpy(), atol=2e-5)
        action = (hover_action()[0] + 0.1 * random.standard_normal(4)).astype(np.float32)
        memory = step.pipeline.remember(prepared, memory, torch.from_numpy(action)[None])
        seen, signals = seeing.step(action)[0], raw.step(action)[0]


@pytest.mark.parametrize("name", TASK_IDS)
@pytest.mark.parametrize("backend", [b for b in BACKENDS if b != "batch"])
def test_engines_agree_with_the_batch_simulator(name: str, backend: str) -> None:
    random = np.random.default_rng(3)
    actions = hover_action(100) + (0.02 * random.standard_normal((100, 4))).astype(np.float32)
    flown = []
    for simulator in ("batch", backend):
        environment = make(name, backend=simulator, **QUIET)
        # level and slow, so that small differences stay small
        hover = np.full(4, environment.core.robot.hover_speed_rad_s)
        start = {"linear_velocity": [0.2, -0.1, 0.1], "rotor_speed": hover}
        record = [environment.reset(seed=2, options={"state": start})[0]]
        record += [environment.step(action)[0] for action in actions]
        flown.append(np.array(record))
        environment.close()
    np.testing.assert_allclose(flown[0], flown[1], atol=0.02)
    assert np.ptp(flown[0], axis=0).max() > 0.05


def test_seeds_decide_everything() -> None:
    def fly(seed: int | None, environment: Any) -> np.ndarray:
        record = [environment.reset(seed=seed)[0]]
        for _ in range(30):
            seen, reward, lost, *_ = environment.step(hover_action()[0])
            record.append(np.append(seen[:3], reward))
            if lost:
                record.append(environment.reset()[0])
        return np.concatenate(record)

    first, second = make(HOVER), make(HOVER)
    assert np.array_equal(fly(7, first), fly(7, second))
    assert np.array_equal(fly(None, first), fly(None, second))
    assert not np.array_equal(fly(8, first)[:26], fly(7, second)[:26])


def test_pictures_follow_the_robot() -> None:
    environment = make(HOVER, backend="mujoco", render_mode="rgb_array", world="empty")
    environment.reset(seed=0)
    picture = environment.render()
    assert picture.shape == (360, 480, 3) and picture.dtype == np.uint8
    middle, corner = picture[150:210, 200:280].reshape(-1, 3), picture[300:, :80].reshape(-1, 3)
    assert middle.min() < 0.6 * corner.mean()  # the dark robot is in the middle
    environment.close()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"backend": "nothing"}, "Unknown backend 'nothing'"),
        ({"robot": "turtlebot3_burger"}, "turtlebot3_burger"),
        ({"observation": "pixels"}, "Unknown observation 'pixels'"),
        ({"rate": 3}, "Unknown key 'rate'"),
        ({"episode_s": -1.0}, "must be above 0"),
        ({"world": "warehouse"}, "the batch simulator has neither world nor floor"),
        ({"physics_rate_hz": 130.0}, "must be a whole multiple of rate_hz"),
        ({"backend": "mujoco", "world": "wearhouse"}, "warehouse"),
        ({"backend": "mujoco", "physics_rate_hz": 130.0}, "must be a whole multiple of rate_hz"),
    ],
)
def test_bad_settings_are_said(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        rlstack.environments.single_environment.TaskEnvironment("quadrotor_hover", **settings)


def test_the_batch_simulator_draws_nothing() -> None:
    with pytest.raises(UserError, match=r"render_mode: 'rgb_array' is not allowed with the backend 'batch'"):
        rlstack.environments.single_environment.TaskEnvironment("quadrotor_hover", render_mode="rgb_array")


def test_bad_states_and_actions_are_said() -> None:
    environment = make(HOVER)
    for state in ({"place": [0, 0, 0]}, {"position": [0, 0]}, {"position": [0, 0, np.nan]}, {"position": "here"}):
        with pytest.raises(UserError, match="options: state"):
            environment.reset(options={"state": state})
    environment.reset(seed=0)
    with pytest.raises(ValueError, match="not finite"):
        environment.step(np.array([0.0, np.nan, 0.0, 0.0], dtype=np.float32))
