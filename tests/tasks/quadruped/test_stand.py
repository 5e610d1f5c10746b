"""quadruped_stand: its trials, its worlds, its judgement, and that it is learned."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlstack.errors import UserError
from rlstack.kinds.quadruped.spec import Quadruped
from rlstack.kinds.quadruped.verification_trials import HoldPosture, StandLog, StandSimulator, stand
from rlstack.robots import load_robot
from rlstack.robots.kind_models import mass_properties
from rlstack.tasks import TASKS
from rlstack.tasks.core.task_card import describe_task
from rlstack.tasks.quadruped.environment import StandEnvironment
from rlstack.tasks.quadruped.scene import carrying, draw_trials


@pytest.fixture
def go1() -> Quadruped:
    robot = load_robot("go1")
    assert isinstance(robot, Quadruped)
    return robot


@pytest.fixture
def task() -> Any:
    return TASKS.load("quadruped_stand")()


@pytest.fixture
def environment(task: Any, go1: Quadruped) -> Iterator[StandEnvironment]:
    made = task.environment(go1, task.pipeline(go1), 4, "cpu", 0)
    yield made
    made.scene.close()


def test_trials_are_within_the_settings(task: Any, go1: Quadruped) -> None:
    trials = draw_trials(task, go1, np.random.default_rng(0), 200)
    assert np.abs(trials.joints - go1.standing).max() <= task.start_rad
    assert 0.1 <= trials.payload_kg.min() < trials.payload_kg.max() <= 4.0
    assert 0.5 <= np.linalg.norm(trials.push_m_s, axis=1).min() < np.linalg.norm(trials.push_m_s, axis=1).max() <= 1.3
    assert trials.push_step.min() >= 50 and trials.push_step.max() <= 100
    assert len(trials.take(np.arange(3))) == 3


def test_a_payload_is_carried(go1: Quadruped) -> None:
    loaded = mass_properties(carrying(go1, 2.0))
    assert loaded.mass_kg == pytest.approx(mass_properties(go1).mass_kg + 2.0)
    assert loaded.centre_m[2] > mass_properties(go1).centre_m[2]


def test_payloads_lower_and_pushes_move_the_trunk(environment: StandEnvironment, go1: Quadruped) -> None:
    scene, index = environment.scene, np.arange(4)
    trials = draw_trials(environment.task, go1, np.random.default_rng(0), 4)
    trials.joints[:], trials.push_m_s[:] = go1.standing, [0.5, 0.0, 0.0]
    trials.payload_kg[:], trials.height_m[:] = [0.1, 1.0, 2.0, 4.0], 0.28
    trials.push_step[:] = 100
    scene.start(index, trials)
    scene.vary(index, np.ones(4), np.ones((4, 12)))
    for _ in range(50):
        scene.worlds.step(np.tile(go1.standing, (4, 1)))
    height, tilt, _ = scene.posture()
    assert (np.diff(height) < 0.0).all() and tilt.max() < 0.02
    scene.push(np.array([100, 100, 99, 100]))
    moved = scene.worlds.twist("base_link")[0][:, 0]
    assert (moved[[0, 1, 3]] > 0.4).all() and moved[2] < 0.1


def test_training_varies_gains_and_friction_and_pushes_again(environment: StandEnvironment, task: Any) -> None:
    scene, drawn = environment.scene, task.randomisation
    for array, range_ in ((scene.gains, drawn.gains), (scene.foot_friction, drawn.foot_friction)):
        assert range_[0] <= array.min() < array.max() <= range_[1]
    environment._age[:] = first = scene.push_step.copy()
    before = scene.push_m_s.copy()
    environment.observe()
    environment.step(torch.zeros(4, 12))
    assert (scene.push_m_s != before).any(axis=1).all()
    assert (scene.push_step - first >= 25).all() and (scene.push_step - first <= 75).all()


def test_actions_are_about_the_standing_posture(environment: StandEnvironment, go1: Quadruped) -> None:
    pipeline = environment.pipeline
    middle = 0.5 * (pipeline.minimum + pipeline.maximum)
    np.testing.assert_allclose(middle.numpy(), go1.standing, atol=1e-6)
    environment.observe()
    result = environment.step(torch.zeros(4, 12))
    assert set(result.terms) == set(environment.term_names()) and torch.isfinite(result.reward).all()


def test_it_goes_on_exactly_from_its_state(environment: StandEnvironment, task: Any, go1: Quadruped) -> None:
    environment.observe()
    environment.step(torch.zeros(4, 12))
    other = task.environment(go1, task.pipeline(go1), 4, "cpu", 7)
    other.load_state_dict(environment.state_dict())
    for _ in range(60):
        mine, theirs = (one.step(torch.full((4, 12), 0.1)) for one in (environment, other))
        assert torch.equal(mine.actor, theirs.actor) and torch.equal(mine.reward, theirs.reward)
    other.scene.close()


def test_a_trial_succeeds_where_it_stands_at_its_end_and_never_fell(task: Any, go1: Quadruped) -> None:
    log = StandLog(task, go1, 3)
    for k in range(task.steps + 1):
        high = go1.standing_height_m + (0.02 if k > task.steps - 10 else 0.0)
        height = np.array([go1.standing_height_m, high, 0.1 if k == 20 else go1.standing_height_m])
        place = np.array([[0.03 if k == task.steps else 0.0, 0.04], [0.0, 0.0], [0.0, 0.0]])
        log.observe(slice(None), k, np.zeros(3, dtype=bool), height, np.zeros(3), place)
    record = log.record("batch")
    assert record.success.tolist() == [True, False, False] and record.lost.tolist() == [False, False, True]
    assert np.isnan(record.height_m[30, 2])
    np.testing.assert_allclose(record.drift_m, [0.03, 0.0, np.nan])


def test_holding_the_posture_falls_under_strong_pushes_alone(task: Any, go1: Quadruped) -> None:
    trials = draw_trials(task, go1, np.random.default_rng(1), 8)
    trials.push_m_s[:] = 0.0
    trials.push_m_s[4:] = [0.0, 2.5, 0.0]
    record = stand(HoldPosture(go1), task, go1, trials)
    assert record.success[:4].all() and record.lost[4:].any()


def test_engines_have_the_payload_and_the_push(task: Any, go1: Quadruped) -> None:
    trials = draw_trials(task, go1, np.random.default_rng(0), 2)
    trials.push_step[:], trials.push_m_s[:] = 3, [0.8, 0.0, 0.0]
    place = StandSimulator("mujoco", task, go1, trials, seed=0)
    place.connect()
    place.enter(1)
    assert place.backend.simulation.engine.mass_properties(0).mass_kg == pytest.approx(
        12.7434 + trials.payload_kg[1], abs=1e-3
    )
    speeds = []
    for _ in range(5):
        place.write({"joint_target": go1.standing})
        place.step(0.02)
        speeds.append(float(place.state["linear_velocity"][0]))
    assert max(speeds[3:]) > max(speeds[:3]) + 0.2
    place.close()


def test_it_says_what_it_is_and_refuses_other_robots(task: Any, go1: Quadruped) -> None:
    text = describe_task(task, go1)
    assert "FR_hip_joint" in text and "payload_kg" in text
    with pytest.raises(UserError, match="quadruped_stand is a task for quadrupeds"):
        task.reference(load_robot("panda"))
    with pytest.raises(UserError, match="go1 is controlled at 50 Hz"):
        type(task)(rate_hz=30.0).reference(go1)
    with pytest.raises(ValueError, match="pushes must end 1 s"):
        type(task)(push_at_s=(1.0, 3.5))


@pytest.mark.learning
@pytest.mark.timeout(1800)
def test_it_is_learned(tmp_path: Path) -> None:
    from rlstack.training.recipe import load_recipe
    from rlstack.training.run import start

    result = start(load_recipe("quadruped_stand"), tmp_path / "run")
    assert result.evaluation["success"] >= 0.9
