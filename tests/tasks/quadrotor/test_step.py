"""The fused step against the same thing evaluated eagerly: torch's pipeline and rewards, the dynamics in float64."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from rlstack.fused.devices import TEST_DEVICE
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.sim.batch_quadrotor.layout import PARAMETERS, STATE
from rlstack.tasks.catalog.quadrotor_foundation import FoundationTask
from rlstack.tasks.catalog.quadrotor_hover import Observation, Reward
from rlstack.tasks.catalog.quadrotor_tracking import TrackingTask
from rlstack.tasks.quadrotor import environment
from rlstack.tasks.quadrotor.environment import QuadrotorEnvironment
from rlstack.tasks.quadrotor.step import NOISE_WIDTH, QuadrotorStep
from tests.support.eager import EagerStep
from tests.support.learning import small_task

Arrays = dict[str, np.ndarray]
ROBOTS = 50
TASKS: dict[str, Any] = {
    "hover": small_task(),
    "hover, all terms": small_task(
        observation=Observation(
            action_history=6,
            disturbance_estimate=True,
            torque_estimate=True,
            integral_per_s=1.0,
            heading_integral_per_s=0.5,
            position_error_change_m_s=4.0,
        ),
        reward=Reward(yaw=-0.5, over_speed=-6.0, over_tilt=-4.0, jitter=-0.5),
    ),
    "tracking": TrackingTask(),
    "foundation": FoundationTask(),
}


@cache
def env_of(kind: str) -> QuadrotorEnvironment:
    task = TASKS[kind]
    robot = task.reference(load_quadrotor("crazyflie"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "POOL_SIZE", 512)
        patch.setattr(environment, "PATH_POOL_SIZE", 20)
        return QuadrotorEnvironment(task, robot, task.pipeline(robot), ROBOTS)


def inputs_of(env: QuadrotorEnvironment, seed: int = 0) -> Arrays:
    """Return random rows of everything that a step reads; memories as after a few steps."""
    rng, step = np.random.default_rng(seed), env.task_step
    env.reset_all()
    env.path_step.random_(0, 100)
    env.observe()
    for _ in range(3):
        env.step(torch.from_numpy(rng.uniform(-1.0, 1.0, (ROBOTS, env.pipeline.action_size)).astype(np.float32)))
    rows = {
        "state": env.state.numpy().copy(),
        "parameters": env.parameters.numpy().copy(),
        "memory": env.memory.numpy().copy(),
        "noise": rng.normal(size=(NOISE_WIDTH, ROBOTS)),
        "next_noise": rng.normal(size=(NOISE_WIDTH, ROBOTS)),
        "action": rng.uniform(-1.4, 1.4, (env.pipeline.action_size, ROBOTS)),
        **{name: past.numpy().copy() for name, past in zip(step.past, env.past)},
    }
    if step.window:
        rows["goal"] = rng.normal(0.0, 0.3, (step.goal_width, ROBOTS))
        rows["next_goal"] = rows["goal"] + rng.normal(0.0, 0.02, (step.goal_width, ROBOTS))
    # one that will be lost
    rows["state"][STATE["position"].start, 7] = 20.0
    return {name: array.astype(np.float32) for name, array in rows.items()}


def run(kernel: Any, rows: Arrays) -> Arrays:
    made = {name: np.zeros((count, ROBOTS), np.float32) for name, count in kernel.outputs.items()}
    kernel({**rows, **made})
    return made


def eager(env: QuadrotorEnvironment, rows: Arrays) -> dict[str, Any]:
    """Return what the step gives, in double precision, and the observation before it."""
    step = EagerStep(env)
    wide = {name: array.astype(np.float64) for name, array in rows.items()}
    memory, goal = step.memory(wide["memory"]), wide.get("goal")
    past = [wide[name] for name in env.task_step.past]
    action = torch.from_numpy(wide["action"].T.copy())
    made = step.act(wide["state"], wide["parameters"], memory, past, wide["noise"], goal, action)
    made["memory"] = step.memory_rows(made["memory"])
    made["actor"] = step.observe(wide["state"], memory, wide["noise"], goal).numpy().T
    made["reference"] = [] if goal is None else [step.goal(goal, ROBOTS)[:, -2].T]
    return made


def assert_state(found: np.ndarray, expected: np.ndarray) -> None:
    for name, rows in STATE.items():
        size = np.abs(expected[rows]).max()
        np.testing.assert_allclose(found[rows], expected[rows], rtol=0, atol=3e-6 * max(size, 1.0), err_msg=name)


@pytest.mark.parametrize("kind", list(TASKS))
def test_what_is_observed_is_the_pipelines_view_of_what_is_sensed(kind: str) -> None:
    env = env_of(kind)
    rows = inputs_of(env)
    expected = eager(env, rows)
    made = run(env.task_step.observe, rows)
    # an observer divides the velocity's rounding by the period
    np.testing.assert_allclose(made["actor"], expected["actor"], rtol=1e-5, atol=1e-4)
    privileged, model = env.task_step.privileged, env.robot.rotor_model
    middle, half = (
        (model.speed_max_rad_s + model.speed_min_rad_s) / 2,
        (model.speed_max_rad_s - model.speed_min_rad_s) / 2,
    )
    speeds = (rows["state"][STATE["rotor_speed"]].astype(float) - middle) / half  # as an action would be scaled
    columns = list(privileged.columns)
    departures = (rows["parameters"][columns].astype(float) - privileged.offset[:, None]) * privileged.scale[:, None]
    wanted = np.concatenate([speeds, departures, *expected["reference"]])
    # float32 parameters, centred: what is left of them is rounded
    np.testing.assert_allclose(made["privileged"], wanted, atol=2e-4)


@pytest.mark.parametrize("kind", list(TASKS))
def test_a_step_is_command_dynamics_reward_and_memory(kind: str) -> None:
    env = env_of(kind)
    rows = inputs_of(env)
    made, expected = run(env.task_step.act, rows), eager(env, rows)
    assert_state(made["next_state"], expected["state"])
    np.testing.assert_allclose(made["command"], expected["command"], rtol=1e-6, atol=1e-3)
    np.testing.assert_allclose(made["terms"], expected["terms"], rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(made["reward"][0], expected["reward"], rtol=2e-5, atol=5e-6)
    np.testing.assert_array_equal(made["lost"][0], expected["lost"])
    assert made["lost"][0, 7] == 1.0 and made["lost"].sum() < ROBOTS / 2
    np.testing.assert_allclose(made["next_memory"], expected["memory"], rtol=1e-5, atol=1e-4)
    assert list(env.task_step.terms) == list(env.task.reward_terms()) and len(expected["terms"]) > 5


@pytest.mark.parametrize("kind", list(TASKS))
def test_a_cycle_is_a_step_and_the_observation_after_it(kind: str) -> None:
    env = env_of(kind)
    rows = inputs_of(env)
    made, step = run(env.task_step.cycle, rows), run(env.task_step.act, rows)
    lost = made["lost"][0] == 1.0
    for name in step:
        found, expected = made[name], step[name]
        if name == "next_state":
            found, expected = found[:, ~lost], expected[:, ~lost]
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6, err_msg=name)
    following = {name.removeprefix("next_"): array for name, array in rows.items() if name.startswith("next_")}
    after = {**rows, **following, "state": made["next_state"], "memory": made["next_memory"]}
    np.testing.assert_allclose(made["actor"], run(env.task_step.observe, after)["actor"], rtol=1e-5, atol=1e-4)
    # who is lost waits at rest
    rest = made["next_state"][:, lost]
    assert (rest[STATE["linear_velocity"]] == 0.0).all() and (rest[STATE["position"]] == 0.0).all()
    np.testing.assert_allclose(rest[STATE["rotor_speed"]], env.robot.hover_speed_rad_s, rtol=1e-6)


@pytest.mark.parametrize("kind", ["hover", "foundation"])
def test_the_text_for_cuda_does_the_same(kind: str) -> None:
    pytest.importorskip("warp")
    env = env_of(kind)
    rows, mine = inputs_of(env), env.task_step
    other = QuadrotorStep(env.task, env.robot, env.pipeline, env.task_step.privileged, mine.model, TEST_DEVICE)
    for name in ("observe", "act"):
        expected, found = run(getattr(mine, name), rows), run(getattr(other, name), rows)
        for output, array in expected.items():
            size = np.abs(array).max(axis=1, keepdims=True).clip(1.0)
            np.testing.assert_allclose(found[output] / size, array / size, atol=1e-5, err_msg=f"{name}: {output}")


@pytest.mark.parametrize("where", ["action", "state", "memory", "parameters"])
def test_what_is_not_a_number_loses_its_robot_and_no_other(where: str) -> None:
    env = env_of("hover")
    rows = inputs_of(env)
    expected = run(env.task_step.act, rows)
    broken = {name: array.copy() for name, array in rows.items()}
    broken[where][0, 3] = np.nan
    made = run(env.task_step.act, broken)
    others = np.arange(ROBOTS) != 3
    for name, array in made.items():
        np.testing.assert_array_equal(array[:, others], expected[name][:, others])
    if where == "memory":  # what the pipeline remembers is its own: seen in the observation, not in the flight
        return
    assert made["lost"][0, 3] == 1.0 and made["reward"][0, 3] == env.task.reward.lost
    assert np.isfinite(made["terms"]).all()


def test_late_robots_fly_on_what_was_commanded_before() -> None:
    env = env_of("hover")
    task = env.task
    assert task.max_delay_s == 0.02 and len(env.task_step.past) == 3
    rows = inputs_of(env)
    for delay, acts in ((0.0, "command"), (0.01, "past_1"), (0.02, "past_2")):
        rows["parameters"][PARAMETERS["delay"]] = delay
        made = run(env.task_step.act, rows)
        wanted = made["command"] if acts == "command" else rows[acts]
        before, after = rows["state"][STATE["rotor_speed"]], made["next_state"][STATE["rotor_speed"]]
        towards = np.sign(wanted - before) * (after - before)
        far = np.abs(wanted - before) > 1.0
        assert (towards[far] > 0.0).all(), acts


def test_without_delays_no_command_is_kept() -> None:
    task = replace(TASKS["hover"], randomisation=replace(TASKS["hover"].randomisation, delay_s=(0.0, 0.0)))
    robot = load_quadrotor("crazyflie")
    env = env_of("hover")
    model = replace(env.task_step.model, max_delay_s=task.max_delay_s)
    step = QuadrotorStep(task, robot, env.pipeline, env.task_step.privileged, model)
    assert step.past == [] and "past_1" not in step.act.inputs


def test_at_half_the_rate_command_and_memory_hold_in_every_second_period() -> None:
    full = env_of("hover")
    half = replace(TASKS["hover"], randomisation=replace(TASKS["hover"].randomisation, half_rate_share=0.5))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "POOL_SIZE", 512)
        env = QuadrotorEnvironment(half, full.robot, half.pipeline(full.robot), ROBOTS)
    assert set(np.unique(env.hold.numpy())) == {1.0, 2.0}
    rows = inputs_of(full)
    slow, odd = np.arange(ROBOTS) % 2 == 0, np.arange(ROBOTS) % 4 < 2
    rows["state"][STATE["elapsed"]] = 0.01 * np.where(odd, 17, 18)
    every = run(full.task_step.act, rows)
    made = run(env.task_step.act, {**rows, "hold": (1.0 + slow).astype(np.float32)[None]})
    held = slow & odd
    for name in ("command", "next_memory", "next_state"):
        np.testing.assert_array_equal(made[name][:, ~held], every[name][:, ~held], err_msg=name)
    np.testing.assert_array_equal(made["next_memory"][:, held], rows["memory"][:, held])
    last, pipeline = rows["memory"][-4:, held], full.pipeline
    expected = pipeline.command(torch.from_numpy(last.T), {}).numpy().T
    np.testing.assert_allclose(made["command"][:, held], expected, rtol=1e-6)
