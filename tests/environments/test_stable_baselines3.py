from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium")
pytest.importorskip("stable_baselines3")

import gymnasium
from stable_baselines3.common.env_checker import check_env

import rlstack.environments  # noqa: F401
from rlstack.environments.stable_baselines3 import TaskVecEnv
from rlstack.errors import UserError
from tests.environments.cases import TASK_IDS

HOVER = TASK_IDS[0]
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "03_train_with_stable_baselines3.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("example", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_its_own_checker_has_nothing_to_say() -> None:
    check_env(gymnasium.make(HOVER).unwrapped)


def test_ends_are_told_as_it_wants_them() -> None:
    environment = TaskVecEnv(gymnasium.make_vec(HOVER, num_envs=4, episode_s=0.1))
    environment.seed(3)
    first = environment.reset()
    for _ in range(10):
        seen, _, done, infos = environment.step(np.full((4, 4), 0.2, dtype=np.float32))
    assert done.all()
    for k, info in enumerate(infos):
        assert info["TimeLimit.truncated"] and info["episode"]["l"] == 10
        assert not np.array_equal(info["terminal_observation"], seen[k])
    environment.seed(3)
    np.testing.assert_array_equal(environment.reset(), first)


def test_another_way_to_reset_is_refused() -> None:
    with pytest.raises(UserError, match="make it with SameStep"):
        TaskVecEnv(gymnasium.make_vec(HOVER, num_envs=2, autoreset_mode="NextStep"))


def policy(model: Any, environment: Any) -> Any:
    return lambda seen: model.predict(environment.normalize_obs(seen), deterministic=True)[0]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("task", "steps", "settings"),
    [
        ("base_navigation", 20_000, {"maps": {"count": 8}, "episode_s": 20.0}),
        pytest.param("arm_reach", 30_000, {}, marks=pytest.mark.learning),
    ],
)
def test_the_example_learns_other_kinds(example: ModuleType, task: str, steps: int, settings: dict[str, Any]) -> None:
    model, environment = example.learn(task, 1000.0, robots=32, steps=steps, **settings)
    learned = example.evaluate(task, policy(model, environment), 64, **settings)
    random = np.random.default_rng(0)
    actions = environment.action_space.shape
    other = example.evaluate(task, lambda seen: random.uniform(-1.0, 1.0, (len(seen), *actions)), 64, **settings)
    environment.close()
    assert learned["return"] > other["return"]


def test_the_example_learns(example: ModuleType) -> None:
    lasted = []
    for steps in (6_000, 40_000):
        model, environment = example.learn("quadrotor_hover", 1000.0, robots=32, steps=steps)
        lasted.append(np.mean([episode["l"] for episode in model.ep_info_buffer]))
        found = example.evaluate("quadrotor_hover", policy(model, environment), 20)
        environment.close()
        assert 0.0 <= found["success"] <= found["timed_out"]
    assert lasted[1] > 1.5 * lasted[0], "the robots must stay in the air for longer"
