"""Late signals, late commands, and arms and objects other than their files say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from rlstack.robots import load_robot
from rlstack.tasks import TASKS
from rlstack.tasks.catalog.table_push import TablePushTask
from rlstack.tasks.core.image_streams import CameraRange
from rlstack.tasks.manipulator.departures import SAME, ArmRandomisation, departures
from rlstack.tasks.manipulator.scene import ArmScene, make_scene
from tests.support.arms import small_panda

PANDA: Any = load_robot("panda")
PERIOD, STEP = 0.05, 0.005


def scene(name: str, **changed: float) -> ArmScene:
    """Return two worlds, of which the second departs."""
    task = TASKS.load(name)()
    made = ArmScene(task, PANDA, 2, 0, threads=1, varied=True)
    trials = task.draw(PANDA, np.random.default_rng(0), 1).take(np.zeros(2, np.intp))
    depart = departures(2)
    depart.put(np.array([1]), departures(1, **changed))
    made.start(np.arange(2), replace(trials, departures=depart))
    return made


def driven(some: ArmScene, periods: int) -> tuple[np.ndarray, np.ndarray]:
    """Return what the policy sees of the joints (periods, 2, joints), and what is, with targets that move on."""
    start, seen, real = some.worlds.joint_position.copy(), [], []
    for k in range(periods):
        command = start.copy()
        command[:, 0] += 0.02 * (k + 1)
        some.step(command)
        seen.append(some.true()["joint_position"])
        real.append(some.worlds.joint_position.copy())
    some.close()
    return np.array(seen), np.array(real)


@pytest.mark.parametrize("delay_s", [0.05, 0.1])
def test_late_observations_are_those_of_earlier_periods(delay_s: float) -> None:
    seen, real = driven(scene("arm_reach", observation_delay_s=delay_s), 6)
    late = round(delay_s / PERIOD)
    np.testing.assert_array_equal(real[:, 0], real[:, 1])
    np.testing.assert_array_equal(seen[:, 0], real[:, 0])
    np.testing.assert_array_equal(seen[late:, 1], real[:-late, 1])


def test_observations_are_late_by_physics_steps() -> None:
    some = scene("arm_reach", observation_delay_s=0.02)
    some.step(some.worlds.joint_position + 0.05)
    passed = some.worlds.passed[1]
    some.worlds.state[1] = passed[-1 - round(0.02 / STEP)]
    expected = some.worlds.joint_position[1]
    np.testing.assert_array_equal(some.true()["joint_position"][1], expected)
    some.close()


@pytest.mark.parametrize("delay_s", [0.05, 0.1])
def test_late_commands_act_whole_periods_later(delay_s: float) -> None:
    _, real = driven(scene("arm_reach", command_delay_s=delay_s), 6)
    late = round(delay_s / PERIOD)
    assert np.abs(real[late - 1, 1] - real[late - 1, 0]).max() > 0.001
    np.testing.assert_allclose(real[late:, 1], real[:-late, 0], atol=1e-3)  # it held its joints before


def test_a_command_late_by_part_of_a_period_acts_within_it() -> None:
    here, later, much = (driven(scene("arm_reach", command_delay_s=d), 3)[1][2, 1, 0] for d in (0.0, 0.02, 0.05))
    assert here > later > much


def test_a_late_world_begins_again_without_its_past() -> None:
    some = scene("arm_pick_place", observation_delay_s=0.1, command_delay_s=0.1)
    task = some.task
    for _ in range(4):
        some.step(some.worlds.joint_position + 0.05)
    again = task.draw(PANDA, np.random.default_rng(5), 1)
    some.start(np.array([1]), replace(again, departures=departures(1, observation_delay_s=0.1)))
    np.testing.assert_array_equal(some.true()["joint_position"][1], again.joints[0])
    np.testing.assert_allclose(some.true()["object_position"][1], again.position[0])
    some.close()


def test_late_images_are_of_the_time_that_joint_states_are_of() -> None:
    task = replace(TablePushTask(pictures=CameraRange(rate_hz=(20.0, 20.0), latency_s=(0.0, 0.0))), episode_s=2.0)
    some = make_scene(task, small_panda(16), 2, 0, threads=1)
    trials = task.draw(PANDA, np.random.default_rng(0), 1).take(np.zeros(2, np.intp))
    depart = departures(2)
    depart.put(np.array([1]), departures(1, observation_delay_s=0.1))
    some.start(np.arange(2), replace(trials, departures=depart))
    cameras, start = some.cameras, some.worlds.joint_position.copy()
    assert cameras is not None
    states, ages = [], []
    for k in range(6):
        command = start.copy()
        command[:, 0] += 0.02 * (k + 1)
        some.step(command)
        ages.append(some.true(images=False)["scene_image_age"][:, 0])
        newest = [stream[0].newest for stream in cameras._streams]
        states.append([None if one is None or one.state is None else one.state.copy() for one in newest])
    ages_s = np.array(ages)
    assert (ages_s < 0.051).all(), "an image is as old as it is to the joint states that come with it"
    times = np.array([[one[0] for one in row] for row in states[3:]])
    np.testing.assert_allclose(0.05 * np.arange(4, 7) - times[:, 0], ages_s[3:, 0], atol=STEP)
    np.testing.assert_allclose(0.05 * np.arange(4, 7) - 0.1 - times[:, 1], ages_s[3:, 1], atol=STEP)
    some.close()


def test_a_softer_arm_gives_way_more_under_a_payload() -> None:
    sags = []
    for stiffness in (1.0, 0.5):
        some = scene("arm_reach", payload_kg=1.0, stiffness=stiffness)
        held = some.worlds.joint_position.copy()
        for _ in range(30):
            some.step(held)
        sags.append(np.abs(some.worlds.joint_position - held)[:, 1].tolist())
        some.close()
    (built, loaded), (_, softer) = sags
    assert built < 0.001 < loaded and softer == pytest.approx(2.0 * loaded, rel=0.1)


def test_without_gravity_compensation_an_arm_sags() -> None:
    some = scene("arm_reach", gravity_compensation=0.0)
    held = some.worlds.joint_position.copy()
    for _ in range(20):
        some.step(held)
    built, sagged = np.abs(some.worlds.joint_position - held).max(axis=1)
    assert built < 0.001 and sagged > 0.02
    some.close()


def test_objects_are_heavier_smoother_and_seen_elsewhere() -> None:
    some = scene("arm_pick_place", object_mass=2.0, object_friction=0.5, object_bias_m=0.01, object_noise_m=0.02)
    assert some.drawn["mass"][1] == 2.0 * some.drawn["mass"][0]
    assert some.drawn["friction"][1] == 0.5 * some.drawn["friction"][0]
    off = some.true()["object_position"] - some.present()["object_position"]
    np.testing.assert_allclose(off, [[0.0, 0.0, 0.0], [0.01, 0.01, 0.0]])
    noise = np.array([some.noisy(some.present())["object_position"] for _ in range(300)]).std(axis=0).mean(axis=1)
    assert noise[0] == pytest.approx(0.001, rel=0.2) and noise[1] == pytest.approx(0.02, rel=0.2)
    some.close()


def test_draws_stay_in_their_ranges_and_delays_share_theirs() -> None:
    wide = ArmRandomisation(
        observation_delay_s=(0.0, 0.12), command_delay_s=(0.0, 0.1), undelayed=0.25, gains=(0.5, 2.0), object_mass=SAME
    )
    drawn = wide.draw(np.random.default_rng(1), 4000)
    assert drawn is not None
    both = drawn.observation_delay_s + drawn.command_delay_s
    assert both.max() <= 0.12 + 1e-9 and (both == 0.0).mean() == pytest.approx(0.25, abs=0.03)
    assert 0.5 <= drawn.stiffness.min() < 0.55 and 1.9 < drawn.stiffness.max() <= 2.0
    between = np.minimum(1.0, drawn.stiffness), np.maximum(1.0, drawn.stiffness)
    assert ((drawn.damping >= between[0]) & (drawn.damping <= between[1])).all()
    assert (drawn.object_mass == 1.0).all()
    assert set(wide.ranges()) == {"observation_delay_s", "command_delay_s", "stiffness_scale"}
    assert ArmRandomisation().draw(np.random.default_rng(1), 3) is None


def test_an_environment_with_departures_resumes_exactly() -> None:
    spread = ArmRandomisation(observation_delay_s=(0.0, 0.12), command_delay_s=(0.0, 0.12), gains=(0.5, 2.0))
    task = replace(TASKS.load("arm_reach")(), randomisation=spread, past_actions=2)
    pipeline = task.pipeline(PANDA)
    one, other = (task.environment(PANDA, pipeline, 4, "cpu", 1) for _ in range(2))
    actions = torch.rand(12, 4, pipeline.action_size, generator=torch.Generator().manual_seed(0)) * 2.0 - 1.0
    one.observe()
    for action in actions[:6]:
        one.step(action)
    other.load_state_dict(one.state_dict())
    for action in actions[6:]:
        assert torch.equal(one.step(action).actor, other.step(action).actor)
    one.close()
    other.close()


@pytest.mark.parametrize("name", ("arm_reach", "arm_push", "arm_pick_place", "arm_stack"))
def test_relabelled_observations_stay_as_late_and_noisy_as_they_were(name: str) -> None:
    late = ArmRandomisation(observation_delay_s=(0.05, 0.12), object_noise_m=(0.005, 0.005))
    task = replace(TASKS.load(name)(), past_actions=1, rewards="sparse", randomisation=late)
    environment = task.environment(PANDA, task.pipeline(PANDA), 3, "cpu", 0)
    seen, _ = environment.observe()
    for _ in range(10):
        again = environment.relabelled(seen, environment.achieved_goal(), environment.desired_goal())
        torch.testing.assert_close(again, seen, atol=1e-5, rtol=0.0)
        seen = environment.step(environment.expert_action()).actor
    environment.close()


def test_a_relabelled_goal_moves_the_targets_offset_too() -> None:
    task = replace(TASKS.load("arm_reach")(), past_actions=1, rewards="sparse")
    environment = task.environment(PANDA, task.pipeline(PANDA), 3, "cpu", 0)
    seen = environment.observe()[0].clone()
    environment.step(torch.full((3, 3), 0.4))
    seen = environment.observe()[0].clone()
    asked = environment.desired_goal() + torch.tensor([0.05, -0.1, 0.02])
    relabelled = environment.relabelled(seen, environment.achieved_goal(), asked)
    environment.scene.goal[:] = asked.numpy()
    environment._prepared = None
    expected = environment.observe()[0]
    assert not torch.allclose(seen, expected, atol=0.1)
    assert torch.allclose(relabelled, expected, atol=0.02)  # but for the noise
    environment.close()
