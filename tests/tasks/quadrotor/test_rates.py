"""The task whose policies command rates and thrust."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.tasks.catalog.quadrotor_hover import HoverTask
from rlstack.tasks.catalog.quadrotor_rates import RatesTask
from rlstack.tasks.quadrotor.environment import QuadrotorEnvironment
from rlstack.tasks.quadrotor.sampling import Randomisation

RACER, HOVERING = load_quadrotor("racer_rates"), torch.zeros(1, 4)


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
