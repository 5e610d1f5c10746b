"""The training environment: resets, endings, noise, rewards, curriculum, seeds, and going on from a saved state."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.robots import frames
from rlstack.sim.batch_quadrotor.dynamics import RESIDUAL_INPUTS, RESIDUAL_OUTPUTS
from rlstack.sim.batch_quadrotor.layout import PARAMETERS, STATE
from rlstack.sim.batch_quadrotor.simulator import QuadrotorSimulator
from rlstack.sim.physics.residual import ResidualModel, write_residual
from rlstack.tasks.catalog.quadrotor_hover import HoverTask
from rlstack.tasks.catalog.quadrotor_tracking import TrackingTask
from rlstack.tasks.quadrotor import environment
from rlstack.tasks.quadrotor.environment import QuadrotorEnvironment
from rlstack.tasks.quadrotor.sampling import Randomisation
from rlstack.tasks.quadrotor.task import Noise
from tests.support.learning import sensed, small_task

QUIET = Noise(position_m=0.0, orientation_rad=0.0, linear_velocity_m_s=0.0, angular_velocity_rad_s=0.0)


@pytest.fixture(scope="module")
def robot() -> Quadrotor:
    return load_quadrotor("crazyflie")


@pytest.fixture(autouse=True)
def _small_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "POOL_SIZE", 512)
    monkeypatch.setattr(environment, "PATH_POOL_SIZE", 32)


def made(robot: Quadrotor, count: int = 16, seed: int = 0, task: Any = None) -> QuadrotorEnvironment:
    task = task or small_task()
    built = QuadrotorEnvironment(task, robot, task.pipeline(robot), count, seed=seed)
    built.observe()
    return built


def actions(env: QuadrotorEnvironment, seed: int = 0) -> Tensor:
    return torch.rand(env.count, 4, generator=torch.Generator().manual_seed(seed)) * 2.0 - 1.0


def put(env: QuadrotorEnvironment, index: int, **columns: list[float]) -> None:
    for name, values in columns.items():
        env.state[STATE[name], index] = torch.tensor(values)


def test_a_residual_model_pushes_the_robots_in_training(robot: Quadrotor, tmp_path: Path) -> None:
    file = tmp_path / "drone.residual.onnx"
    arrays = {"low": -np.ones(10), "high": np.ones(10), "hidden": np.zeros((1, 10)), "hidden_bias": np.zeros(1)}
    arrays |= {"out": np.zeros((6, 1)), "out_bias": np.full(6, 9.0), "bound": np.array([0.0, 0.0, 0.01, 0.0, 0.0, 0.0])}
    write_residual(file, ResidualModel.of(RESIDUAL_INPUTS, RESIDUAL_OUTPUTS, arrays), "a test")
    velocities = []
    for task in (small_task(), replace(small_task(), residual=str(file))):
        env = made(robot, task=task)
        put(env, 0, orientation=[0.0, 0.0, 0.0, 1.0], linear_velocity=[0.0] * 3, angular_velocity=[0.0] * 3)
        env.step(actions(env))
        velocities.append(env.state[STATE["linear_velocity"], 0].numpy().copy())
    gained = velocities[1] - velocities[0]
    mass = float(env.parameters[PARAMETERS["mass"], 0])
    np.testing.assert_allclose(gained, [0.0, 0.0, 0.01 * 0.01 / mass], rtol=0.01, atol=2e-5)
    with pytest.raises(UserError, match="There is no residual model"):
        made(robot, task=replace(small_task(), residual="elsewhere.onnx"))


def test_observations_have_the_columns_of_their_tables(robot: Quadrotor) -> None:
    env = made(robot)
    actor, critic = env.observe()
    assert actor.shape == (16, env.pipeline.size)
    assert critic.shape == (16, env.critic_size)
    table = env.critic_table()
    assert [t.start for t in table] == list(np.cumsum([0, *(t.size for t in table)])[:-1])
    assert table[: len(env.pipeline.table())] == env.pipeline.table()
    torch.testing.assert_close(critic[:, : env.pipeline.size], actor)


def test_the_critic_sees_true_rotor_speeds_and_departures_of_spread_one(robot: Quadrotor) -> None:
    env = made(robot, count=4000)
    critic = env.observe()[1]
    columns = {t.name: critic[:, t.start : t.start + t.size] for t in env.critic_table()[len(env.pipeline.table()) :]}
    assert set(columns) == {"rotor_speed", "force", "torque", "mass", "thrust_scale", "delay"}  # what the task varies
    top = robot.rotor_model.speed_max_rad_s
    torch.testing.assert_close(columns.pop("rotor_speed"), env.state[STATE["rotor_speed"]].T / top * 2.0 - 1.0)
    for name, values in columns.items():
        np.testing.assert_allclose(values.std(dim=0).numpy(), 1.0, atol=0.15, err_msg=name)
    assert columns["mass"].mean().abs() < 0.2  # centred on the file
    heavy = torch.tensor(robot.body.mass_kg * 1.05)
    env.parameters[PARAMETERS["mass"], 0] = heavy
    term = next(t for t in env.critic_table() if t.name == "mass")
    assert env.observe()[1][0, term.start] == pytest.approx(0.05 / (0.2 / 12**0.5), rel=0.1)


def test_a_task_that_varies_nothing_shows_the_critic_rotor_speeds_alone(robot: Quadrotor) -> None:
    env = made(robot, task=small_task(randomisation=Randomisation(force_sigma=0.0, torque_sigma_m=0.0)))
    assert env.critic_size == env.pipeline.size + 4
    assert torch.isfinite(env.observe()[1]).all()


def test_a_reset_takes_a_whole_episode_from_the_pool(robot: Quadrotor) -> None:
    env = made(robot)
    for _ in range(3):
        env.step(actions(env, 1))  # so that there is something to forget
    before = env.state.clone()
    env.age[:] = 0
    env.age[[2, 5]] = env.max_steps
    result = env.step(actions(env))
    assert result.done.nonzero().squeeze(-1).tolist() == [2, 5]
    for index in (2, 5):
        episode = torch.cat([env.state[:, index], env.parameters[:, index]])
        assert (env._pool == episode).all(dim=1).any()
        speeds = env.state[STATE["rotor_speed"], index]
        assert all((command[:, index] == speeds).all() for command in env.past)  # nothing commanded before acts after
        assert env.age[index] == 0
        assert (env.memory[:, index] == 0.0).all()  # the pipeline's and the last action
    others = [i for i in range(16) if i not in (2, 5)]
    assert (env.age[others] == 1).all()
    last = env.task_step.memory["last_action"]
    torch.testing.assert_close(env.memory[last][:, others].T, actions(env)[others], rtol=0, atol=0)
    position = STATE["position"]
    moved = (env.state[position][:, others] - before[position][:, others]).norm(dim=0)
    assert moved.max() < 0.02


def test_robots_start_spread_over_the_episode(robot: Quadrotor) -> None:
    env = made(robot, count=2000)
    assert env.age.min() < 3 and env.age.max() > env.max_steps - 4
    assert env.age.float().mean() == pytest.approx(env.max_steps / 2, rel=0.1)


def test_lost_and_timed_out_are_told_apart(robot: Quadrotor) -> None:
    task = small_task(lost_rad_s=15.0)
    env = made(robot, task=task)
    env.age[:] = 0
    env.age[[1, 2]] = env.max_steps
    put(env, 0, angular_velocity=[0.0, 0.0, -15.5])
    for index in (2, 3):
        put(env, index, position=[0.0, 0.0, task.lost_m + 0.1], linear_velocity=[0.0, 0.0, 0.0])
    put(env, 4, position=[0.0, 0.0, task.lost_m - 0.1], linear_velocity=[0.0, 0.0, 0.0])
    result = env.step(actions(env))
    assert result.done[:5].tolist() == [True, True, True, True, False]
    assert result.timed_out[:5].tolist() == [False, True, False, False, False]
    penalty = task.reward.lost
    assert result.terms["lost"][:5].tolist() == [penalty, 0.0, penalty, penalty, 0.0]


@pytest.mark.parametrize("where", ["position", "orientation", "linear_velocity", "angular_velocity", "rotor_speed"])
@pytest.mark.parametrize("what", [float("nan"), float("inf")])
def test_a_state_that_is_not_finite_is_lost_and_does_not_spread(robot: Quadrotor, where: str, what: float) -> None:
    env, twin = made(robot), made(robot)
    for one in (env, twin):
        one.age[:] = 0
    env.state[STATE[where].start, 3] = what
    result, same = env.step(actions(env)), twin.step(actions(twin))
    assert result.done[3] and not result.timed_out[3]
    assert torch.isfinite(result.reward).all()
    assert result.reward[3] == env.task.reward.lost
    for name in ("actor", "critic"):
        assert torch.isfinite(getattr(result, name)).all()
    others = torch.arange(16) != 3
    torch.testing.assert_close(env.state[:, others], twin.state[:, others], rtol=0, atol=0)
    torch.testing.assert_close(result.reward[others], same.reward[others], rtol=0, atol=0)
    for _ in range(5):
        result = env.step(actions(env))
        assert torch.isfinite(result.critic).all() and torch.isfinite(result.reward).all()


def test_an_action_that_is_not_finite_does_not_outlive_its_robot(robot: Quadrotor) -> None:
    env = made(robot)
    bad = actions(env)
    bad[5, 2] = float("nan")
    assert env.step(bad).done[5]
    for _ in range(5):
        result = env.step(actions(env))
        assert torch.isfinite(result.actor).all() and torch.isfinite(env.state).all()


def test_the_reward_is_the_sum_of_its_terms(robot: Quadrotor) -> None:
    task = small_task()
    env = made(robot, task=task)
    env.set_progress(1.0)
    for seed in range(5):
        result = env.step(actions(env, seed))
        assert list(result.terms) == [*task.reward_terms(), "lost"]
        torch.testing.assert_close(result.reward, torch.stack(list(result.terms.values())).sum(dim=0))
        assert all(torch.isfinite(term).all() and term.shape == (16,) for term in result.terms.values())


@dataclass(frozen=True, kw_only=True)
class OneTerm(HoverTask):
    """Rewarded by its weight alone."""

    weight: float = 3.0

    def reward_terms(self) -> Mapping[str, tuple[float, Callable[[Any], Tensor]]]:
        return {"one": (self.weight, lambda s: torch.ones_like(s.distance))}


@pytest.mark.parametrize("weight", [3.0, -3.0])
@pytest.mark.parametrize("done", [0.0, 1.0])
def test_weights_are_rates_whatever_the_curriculum(robot: Quadrotor, weight: float, done: float) -> None:
    env = made(robot, task=OneTerm(**vars(small_task()), weight=weight))
    env.set_progress(done)
    torch.testing.assert_close(env.step(actions(env)).terms["one"], torch.full((16,), weight / 100.0))


def test_the_curriculum_widens_the_starts(robot: Quadrotor) -> None:
    env = made(robot)  # half scale at the start, whole after half of the steps
    reach = {}
    for done in (0.0, 0.25, 0.5, 1.0):
        env.set_progress(done)
        reach[done] = float(env._pool[:, STATE["position"]].abs().max())
        assert env.start_scale == pytest.approx(min(0.5 + done, 1.0))
    assert reach[0.0] == pytest.approx(0.1, rel=0.02)
    assert reach[0.25] == pytest.approx(0.15, rel=0.02)
    assert reach[0.5] == reach[1.0] == pytest.approx(0.2, rel=0.02)


def test_a_pool_is_drawn_anew_only_when_the_curriculum_moves(robot: Quadrotor) -> None:
    env = made(robot)
    env.set_progress(0.25)
    pool = env._pool
    env.set_progress(0.251)
    assert env._pool is pool
    env.set_progress(0.5)
    assert env._pool is not pool


def test_noise_is_on_the_inputs_and_not_on_the_state(robot: Quadrotor) -> None:
    noise = Noise(position_m=0.03, orientation_rad=0.02, linear_velocity_m_s=0.05, angular_velocity_rad_s=0.07)
    env = made(robot, count=4000, task=small_task(noise=noise))
    env.state[:] = env.state[:, :1].clone()
    before = env.state.clone()
    env.observe()
    assert torch.equal(env.state, before)
    found, true = sensed(env), truth(env)
    for name, sigma in (("position", 0.03), ("linear_velocity", 0.05), ("angular_velocity", 0.07)):
        error = found[name] - true[name]
        np.testing.assert_allclose(error.std(axis=0), sigma, rtol=0.06)
        np.testing.assert_allclose(error.mean(axis=0), 0.0, atol=4.0 * sigma / 63.0)
    cosine = np.abs((found["orientation"] * true["orientation"]).sum(axis=1)).astype(float).clip(max=1.0)
    angle = 2.0 * np.arccos(cosine)
    assert np.sqrt((angle**2).mean()) == pytest.approx(0.02 * 3**0.5, rel=0.06)  # of three axes
    np.testing.assert_allclose(np.linalg.norm(found["orientation"], axis=1), 1.0, atol=1e-6)


def test_noise_is_new_at_every_step_and_for_every_robot(robot: Quadrotor) -> None:
    env = made(robot, count=500)
    drawn = []
    for seed in range(4):
        env.step(actions(env, seed))
        drawn.append(env.noise[:, 0].clone())
    together = torch.stack([noise.flatten() for noise in drawn])
    assert torch.corrcoef(together).fill_diagonal_(0.0).abs().max() < 0.05  # 6,500 samples: five standard errors
    assert torch.corrcoef(drawn[0]).fill_diagonal_(0.0).abs().max() < 5.0 / 500**0.5  # of the 13 rows
    assert len(drawn[0].unique()) > 0.99 * drawn[0].numel()


def truth(env: QuadrotorEnvironment) -> dict[str, np.ndarray]:
    """Return the robots' true signals as odometry would give them."""
    state = {name: env.state[rows].T.double().numpy() for name, rows in STATE.items()}
    velocity = frames.rotate_inverse(state["orientation"], state["linear_velocity"])
    goal = {
        "goal_position": np.zeros((env.count, 3)),
        "goal_orientation": np.tile([0.0, 0.0, 0.0, 1.0], (env.count, 1)),
    }
    return {
        **{name: state[name] for name in ("position", "orientation", "angular_velocity")},
        **goal,
        "linear_velocity": velocity,
    }


def test_without_noise_the_truth_is_sensed(robot: Quadrotor) -> None:
    env = made(robot, task=small_task(noise=QUIET))
    found = sensed(env)
    assert set(found) == set(env.task.inputs)
    for name, array in truth(env).items():
        np.testing.assert_allclose(found[name], array, atol=1e-6, rtol=1e-6, err_msg=name)


def test_a_seed_gives_the_same_run_and_another_does_not(robot: Quadrotor) -> None:
    runs = [made(robot, seed=seed) for seed in (4, 4, 5)]
    for step in range(20):
        results = [env.step(actions(env, step)) for env in runs]
        assert torch.equal(results[0].critic, results[1].critic)
        assert torch.equal(results[0].reward, results[1].reward)
    assert not torch.equal(results[0].critic, results[2].critic)


@pytest.mark.parametrize("kind", ["hover", "tracking"])
def test_it_goes_on_exactly_from_a_saved_state(robot: Quadrotor, kind: str) -> None:
    task = small_task() if kind == "hover" else replace(TrackingTask(), episode_s=0.5)
    env = made(robot, task=task)
    for step in range(7):
        env.set_progress(step / 30)
        env.step(actions(env, step))
    file = io.BytesIO()
    torch.save(env.state_dict(), file)
    file.seek(0)
    other = made(robot, seed=99, task=task)
    other.step(actions(other))  # whatever it did before
    other.load_state_dict(torch.load(file, weights_only=True))
    for step in range(7, 70):  # past the end of every episode and through the curriculum
        for one in (env, other):
            one.set_progress(step / 30)
        expected, found = env.step(actions(env, step)), other.step(actions(env, step))
        for name in ("actor", "critic", "reward", "done", "timed_out"):
            assert torch.equal(getattr(expected, name), getattr(found, name)), (step, name)


def test_robots_are_given_their_paths_from_where_they_are_on_them(robot: Quadrotor) -> None:
    task = TrackingTask()
    env = made(robot, task=task)
    paths = task.sample_paths(np.random.default_rng(0), 32, robot).position
    env._paths = torch.from_numpy(paths.astype(np.float32).transpose(2, 0, 1).reshape(3, -1).copy())
    length = paths.shape[1]
    env.path_step[:] = torch.arange(16) * 40  # the last are so near the end that they look beyond it
    env.path_step[15] = length - 1
    env.pick[:] = torch.arange(16) + 7
    slots = 3
    array = torch.full((env.task_step.goal_width, slots + 2, 20), 9.0)
    env.fill_goal(array, slots)
    assert (array[:, slots:] == 9.0).all() and (array[:, :, 16:] == 9.0).all()
    for slot in range(slots):
        goal = array[:, slot, :16].reshape(3, -1, 16)
        for n in range(16):
            now = int(env.path_step[n]) + slot
            points = [paths[7 + n, min(now + ahead, length - 1)] for ahead in (*task.path_window, 1)]
            np.testing.assert_allclose(goal[:, :-1, n].T, points, atol=1e-6)
            moved = paths[7 + n, min(now + 1, length - 1)] - paths[7 + n, min(now, length - 1)]
            np.testing.assert_allclose(goal[:, -1, n], moved * task.rate_hz, atol=1e-3)


def test_a_robot_that_starts_anew_begins_another_path(robot: Quadrotor) -> None:
    env = made(robot, task=TrackingTask())
    before = env.pick.clone()
    env.age[:] = 0
    env.age[4:12] = env.max_steps
    for _ in range(3):
        env.step(torch.full((16, 4), 0.33))
    assert (env.path_step[4:12] == 2).all() and (env.path_step[:4] == 3).all()
    assert (env.pick[:4] == before[:4]).all() and (env.pick[4:12] != before[4:12]).any()
    critic = env.observe()[1]
    reference = next(t for t in env.critic_table() if t.name == "reference")
    start = env.pick * env._path_length + env.path_step + 1
    torch.testing.assert_close(critic[:, reference.start : reference.start + 3].T, env._paths[:, start])


def test_delayed_robots_feel_commands_later(robot: Quadrotor) -> None:
    delayed = replace(small_task().randomisation, delay_s=(0.05, 0.05), mass=(1.0, 1.0), thrust=(1.0, 1.0))
    env = made(robot, task=small_task(randomisation=delayed))
    env.age[:] = 0
    rotors = STATE["rotor_speed"]
    before = env.state[rotors].clone()
    for _ in range(5):
        env.step(torch.ones(16, 4))
        torch.testing.assert_close(env.state[rotors], before)
    env.step(torch.ones(16, 4))
    assert (env.state[rotors] > before + 10.0).all()


def test_every_delay_flies_on_the_command_of_its_time(robot: Quadrotor) -> None:
    """Long enough for every array of past commands to have been used twice; one robot starts anew in between."""
    task = small_task(episode_s=5.0, lost_m=1e3, lost_rad_s=1e6)
    env = made(robot, task=replace(task, randomisation=replace(task.randomisation, delay_s=(0.0, 0.05))))
    simulator = QuadrotorSimulator(robot, 16)
    env.age[:] = 0
    state = {name: env.state[rows].T.double().numpy() for name, rows in STATE.items()}
    simulator.set_state(state)
    simulator.parameters[:] = env.parameters.numpy()
    assert len({round(float(d), 3) for d in env.parameters[PARAMETERS["delay"]][0]}) > 10
    top = robot.rotor_model.speed_max_rad_s
    for step in range(15):
        if step == 8:
            env.restart(torch.tensor([3]))
        action = actions(env, step)
        env.step(action)
        simulator.step((action.numpy() + 1.0) * 0.5 * top)
        others = np.arange(16) != 3
        found = env.state[STATE["rotor_speed"]].numpy()
        expected = simulator.state_rows[STATE["rotor_speed"]]
        np.testing.assert_allclose(found[:, others], expected[:, others], rtol=1e-5)
        if step < 8:
            np.testing.assert_allclose(found[:, 3], expected[:, 3], rtol=1e-5)


def test_what_a_step_gave_lasts_until_the_step_after_the_next(robot: Quadrotor) -> None:
    """rsl_rl keeps an observation while the next is made."""
    env = made(robot)
    first = env.step(actions(env))
    kept = {name: getattr(first, name).clone() for name in ("actor", "critic", "reward", "done", "timed_out")}
    kept_terms = {name: term.clone() for name, term in first.terms.items()}
    env.step(actions(env, 1))
    for name, array in kept.items():
        assert torch.equal(getattr(first, name), array), name
    assert all(torch.equal(first.terms[name], term) for name, term in kept_terms.items())


def test_a_device_that_is_not_there_is_refused(robot: Quadrotor) -> None:
    task = small_task()
    with pytest.raises(UserError, match=r"no device 'cuda:7' here|CUDA needs Warp"):
        QuadrotorEnvironment(task, robot, task.pipeline(robot), 2, device="cuda:7")
