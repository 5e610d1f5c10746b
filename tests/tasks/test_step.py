"""The fused step against the same thing evaluated eagerly: torch's pipeline and rewards, the dynamics in float64."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rlstack.fused.devices import TEST_DEVICE
from rlstack.robots import frames, load_robot
from rlstack.sim.batch import PARAMETERS, STATE
from rlstack.sim.batch.dynamics import advance
from rlstack.tasks import environment
from rlstack.tasks.catalog.quadrotor_foundation import FoundationTask
from rlstack.tasks.catalog.quadrotor_tracking import TrackingTask
from rlstack.tasks.environment import TrainingEnvironment
from rlstack.tasks.step import NOISE_WIDTH, TaskStep
from rlstack.tasks.view import View
from tests.support.learning import small_task

Arrays = dict[str, np.ndarray]
ROBOTS = 50
TASKS: dict[str, Any] = {"hover": small_task(), "tracking": TrackingTask(), "foundation": FoundationTask()}


@cache
def env_of(kind: str) -> TrainingEnvironment:
    task = TASKS[kind]
    robot = task.reference(load_robot("crazyflie"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "POOL_SIZE", 512)
        patch.setattr(environment, "PATH_POOL_SIZE", 20)
        return TrainingEnvironment(task, robot, task.pipeline(robot), ROBOTS)


def inputs_of(env: TrainingEnvironment, seed: int = 0) -> Arrays:
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


class Eager:
    """The step as its documentation says it, robots first, in double precision."""

    def __init__(self, env: TrainingEnvironment, rows: Arrays) -> None:
        self.env, self.task, self.step = env, env.task, env.task_step
        self.rows = {name: array.astype(np.float64) for name, array in rows.items()}
        self.pipeline = copy.deepcopy(env.pipeline).double()
        shapes = {**self.pipeline.memory, "last_action": (self.pipeline.action_size,)}
        self.memory, start = {}, 0
        for name, shape in shapes.items():
            size = int(np.prod(shape))
            self.memory[name] = torch.from_numpy(self.rows["memory"][start : start + size].T.reshape(ROBOTS, *shape))
            start += size

    def goal(self, name: str) -> np.ndarray:
        """Return (N, points + 2, 3)."""
        return self.rows[name].reshape(3, -1, ROBOTS).transpose(2, 1, 0)

    def sensed(self, state: np.ndarray, noise: np.ndarray, goal: str) -> dict[str, Tensor]:
        """Return what the policy senses, by name."""
        s = {name: state[rows].T for name, rows in STATE.items()}
        sigma, robot = self.task.noise, self.env.robot
        turned = s["orientation"] + 0.5 * sigma.orientation_rad * noise[3:7].T
        points = self.goal(goal)[:, :-2] if self.step.window else np.zeros((ROBOTS, 1, 3))
        model = robot.rotor_model
        signals = {
            "position": s["position"] + sigma.position_m * noise[0:3].T,
            "orientation": frames.normalise(turned),
            "linear_velocity": frames.rotate_inverse(s["orientation"], s["linear_velocity"])
            + sigma.linear_velocity_m_s * noise[7:10].T,
            "angular_velocity": s["angular_velocity"] + sigma.angular_velocity_rad_s * noise[10:13].T,
            "goal_position": np.zeros((ROBOTS, 3)),
            "goal_orientation": np.tile([0.0, 0.0, 0.0, 1.0], (ROBOTS, 1)),
            "path_position": points,
            "path_time": np.tile(np.array(self.step.window or (0,)) / self.task.rate_hz, (ROBOTS, 1)),
            "path_orientation": np.tile([0.0, 0.0, 0.0, 1.0], (ROBOTS, points.shape[1], 1)),
            "rotor_position": np.tile(robot.rotor_positions, (ROBOTS, 1, 1)),
            "rotor_yaw_sign": np.tile(robot.yaw_torque_signs.astype(float), (ROBOTS, 1)),
            "rotor_speed_min": np.full((ROBOTS, 1), model.speed_min_rad_s),
            "rotor_speed_max": np.full((ROBOTS, 1), model.speed_max_rad_s),
        }
        return {name: torch.from_numpy(np.ascontiguousarray(signals[name])) for name in self.task.inputs}

    def observed(self, state: np.ndarray, noise: str, goal: str, memory: dict[str, Tensor]) -> np.ndarray:
        prepared = self.pipeline.prepare(self.sensed(state, self.rows[noise], goal), memory)
        return self.pipeline.observe(prepared, memory).numpy().T

    def acted(self) -> dict[str, Any]:
        action = torch.from_numpy(self.rows["action"].T.copy()).clamp(-1.0, 1.0)
        prepared = self.pipeline.prepare(self.sensed(self.rows["state"], self.rows["noise"], "goal"), self.memory)
        command = self.pipeline.command(action, prepared).numpy().T
        past = [self.rows[name] for name in self.step.past]
        moved = advance(self.rows["state"], self.rows["parameters"], [command, *past], self.step.model)
        reference = self.goal("goal")[:, -2:] if self.step.window else np.zeros((ROBOTS, 2, 3))
        view = View(
            state=torch.from_numpy(moved.T.copy()),
            action=action,
            last_action=self.memory["last_action"],
            goal_position=torch.from_numpy(reference[:, 0].copy()),
            goal_velocity=torch.from_numpy(reference[:, 1].copy()),
            parameters=torch.from_numpy(self.rows["parameters"].T.copy()),
        )
        weighted = {
            n: (w / self.task.rate_hz * term(view)).numpy() for n, (w, term) in self.task.reward_terms().items()
        }
        lost = self.task.lost(view).numpy()
        terms = np.stack([*weighted.values(), np.where(lost, self.task.reward.lost, 0.0)])
        after = {**self.pipeline.remember(prepared, self.memory, action), "last_action": action}
        return {"next_state": moved, "command": command, "terms": terms, "reward": terms.sum(axis=0, keepdims=True),
                "lost": lost[None].astype(float), "memory": after}  # fmt: skip

    def flat(self, memory: dict[str, Tensor]) -> np.ndarray:
        return np.concatenate([memory[name].reshape(ROBOTS, -1).numpy().T for name in self.memory])


def assert_state(found: np.ndarray, expected: np.ndarray) -> None:
    for name, rows in STATE.items():
        size = np.abs(expected[rows]).max()
        np.testing.assert_allclose(found[rows], expected[rows], rtol=0, atol=3e-6 * max(size, 1.0), err_msg=name)


@pytest.mark.parametrize("kind", list(TASKS))
def test_what_is_observed_is_the_pipelines_view_of_what_is_sensed(kind: str) -> None:
    env = env_of(kind)
    rows = inputs_of(env)
    eager = Eager(env, rows)
    made = run(env.task_step.observe, rows)
    expected = eager.observed(eager.rows["state"], "noise", "goal", eager.memory)
    # an observer divides the velocity's rounding by the period
    np.testing.assert_allclose(made["actor"], expected, rtol=1e-5, atol=1e-4)
    state, privileged = eager.rows["state"], env._privileged
    model = env.robot.rotor_model
    middle, half = (
        (model.speed_max_rad_s + model.speed_min_rad_s) / 2,
        (model.speed_max_rad_s - model.speed_min_rad_s) / 2,
    )
    speeds = (state[STATE["rotor_speed"]] - middle) / half  # as an action would be scaled
    columns = list(privileged.columns)
    departures = (eager.rows["parameters"][columns] - privileged.offset[:, None]) * privileged.scale[:, None]
    reference = [eager.goal("goal")[:, -2].T] if env.task_step.window else []
    # float32 parameters, centred: what is left of them is rounded
    np.testing.assert_allclose(made["privileged"], np.concatenate([speeds, departures, *reference]), atol=2e-4)


@pytest.mark.parametrize("kind", list(TASKS))
def test_a_step_is_command_dynamics_reward_and_memory(kind: str) -> None:
    env = env_of(kind)
    rows = inputs_of(env)
    made, expected = run(env.task_step.act, rows), Eager(env, rows).acted()
    assert_state(made["next_state"], expected["next_state"])
    np.testing.assert_allclose(made["command"], expected["command"], rtol=1e-6, atol=1e-3)
    np.testing.assert_allclose(made["terms"], expected["terms"], rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(made["reward"], expected["reward"], rtol=2e-5, atol=5e-6)
    np.testing.assert_array_equal(made["lost"], expected["lost"])
    assert made["lost"][0, 7] == 1.0 and made["lost"].sum() < ROBOTS / 2
    memory = Eager(env, rows).flat(expected["memory"])
    np.testing.assert_allclose(made["next_memory"], memory, rtol=1e-5, atol=1e-4)
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
    env = env_of(kind)
    rows, mine = inputs_of(env), env.task_step
    other = TaskStep(env.task, env.robot, env.pipeline, env._privileged, mine.model, TEST_DEVICE)
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
    robot = load_robot("crazyflie")
    env = env_of("hover")
    model = replace(env.task_step.model, max_delay_s=task.max_delay_s)
    step = TaskStep(task, robot, env.pipeline, env._privileged, model)
    assert step.past == [] and "past_1" not in step.act.inputs
