"""The task whose policies command rates and thrust."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.policies import load_policy
from rlstack.robots import frames
from rlstack.tasks.catalog.quadrotor_hover import HoverTask
from rlstack.tasks.catalog.quadrotor_rates import RatesTask
from rlstack.tasks.quadrotor.environment import QuadrotorEnvironment
from rlstack.tasks.quadrotor.sampling import Randomisation
from rlstack.tasks.quadrotor.task import MOTION
from tests.support.checkout import ROOT
from tests.support.rates_quadrotor import RatesQuadrotor

RACER, HOVERING = load_quadrotor("racer_rates"), torch.zeros(1, 4)
LEVEL = np.array([0.0, 0.0, 0.0, 1.0])


@pytest.mark.parametrize("name", ["racer_rates", "crazyflie_rates"])
def test_an_action_of_0_hovers_and_no_action_leaves_the_robots_range(name: str) -> None:
    robot = load_quadrotor(name)
    pipeline = RatesTask().pipeline(robot)
    assert pipeline.output == "rates_thrust"
    np.testing.assert_allclose(pipeline.command(HOVERING, {})[0], robot.hover_command, atol=1e-5)
    most = pipeline.command(torch.ones(1, 4), {})[0].tolist()
    assert most[:3] == list(robot.rate_loop.rates_max_rad_s)  # type: ignore[union-attr]
    assert most[3] <= robot.thrust_max_m_s2 and pipeline.command(-torch.ones(1, 4), {})[0, 3] == 0.0


def test_robots_that_take_another_command_are_refused_either_way() -> None:
    with pytest.raises(UserError, match="commands rates and thrust, and racer takes rotor speeds"):
        RatesTask().pipeline(load_quadrotor("racer"))
    with pytest.raises(UserError, match="commands rotor speeds, and racer_rates takes rates and thrust"):
        HoverTask().pipeline(RACER)


def test_training_steps_through_the_rate_loop_with_the_critic_told_of_its_lag() -> None:
    task = RatesTask(randomisation=Randomisation(rate_lag=(0.5, 2.0), delay_s=(0.0, 0.04)))
    env = QuadrotorEnvironment(task, RACER, task.pipeline(RACER), 4)
    assert env.task_step.model.rate_loop and env.task_step.model.substeps == 2
    assert ("loop_lag", 2) in [(name, size) for name, size, _, _ in env.task_step.privileged_terms]


def test_what_is_not_varied_is_not_drawn_and_the_rest_stays_the_same() -> None:
    def drawn(**settings: object) -> dict[str, np.ndarray]:
        return vars(Randomisation(mass=(0.5, 1.5), **settings).sample(np.random.default_rng(3), 50, RACER))  # type: ignore[arg-type]

    plain, varied = drawn(), drawn(thrust_gain=(0.8, 1.2), rate_lag=(0.5, 2.0), rate_rejection=(0.0, 1.0))
    for name in ("mass_scale", "force_n", "delay_s", "gust_start_s"):
        np.testing.assert_array_equal(plain[name], varied[name])
    assert (plain["rate_lag_scale"] == 1.0).all() and (plain["rate_rejection_scale"] == 1.0).all()
    gain = varied["thrust_scale"]
    assert np.ptp(gain, axis=1).max() < 1e-12 and 0.8 <= gain.min() < 0.85 and 1.15 < gain.max() <= 1.2
    assert 0.5 <= varied["rate_lag_scale"].min() < 0.7 and 0.0 <= varied["rate_rejection_scale"].min() < 0.1


@pytest.mark.parametrize(("mass", "late"), [(1.0, 0), (1.2, 2)])
def test_the_released_policy_flies_on_a_rate_loop_that_it_was_not_trained_on(mass: float, late: int) -> None:
    """A plain proportional loop at 500 Hz: a heavier vehicle gets too little thrust and torque from it."""
    policy = load_policy(ROOT / "policies" / "quadrotor_rates" / "policy.onnx", robot=RACER)
    heavier = replace(RACER, body=replace(RACER.body, mass_kg=mass * RACER.body.mass_kg))
    quad, goal = RatesQuadrotor(heavier, believed=RACER), np.array([1.5, -1.0, 2.0])
    quad.state.update(position=np.array([0.0, 0.0, 1.0]), rotor_speed=np.full(4, RACER.hover_speed_rad_s))
    sensed, far = [], []
    for _ in range(500):
        state = quad.state
        ahead = frames.rotate_inverse(state["orientation"], state["linear_velocity"])
        sensed.append({**{name: state[name] for name in MOTION}, "linear_velocity": ahead})
        seen = {**sensed[max(len(sensed) - 1 - late, 0)], "goal_position": goal, "goal_orientation": LEVEL}
        command = policy.step({name: array[None].astype(np.float32) for name, array in seen.items()})
        quad.step(command["rates_thrust"][0], 0.01)
        far.append(float(np.linalg.norm(quad.state["position"] - goal)))
    assert max(far[-150:]) < 0.05
    assert float(frames.tilt(quad.state["orientation"])) < 0.05
