"""What only a critic sees: which parameters a task varies, centred on the robot file, of spread one."""

from __future__ import annotations

import numpy as np
import pytest

from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.sim.batch_quadrotor.layout import PARAMETERS, pack_parameters
from rlstack.sim.perturbation import Perturbation
from rlstack.tasks.catalog.quadrotor_foundation import FoundationTask
from rlstack.tasks.quadrotor.privileged import privileged_terms
from rlstack.tasks.quadrotor.sampling import Randomisation
from tests.support.learning import small_task

ROBOT = load_quadrotor("crazyflie")


def test_what_varies_is_shown_in_the_order_of_the_parameters_named() -> None:
    found = privileged_terms(small_task(), ROBOT)
    assert found.names == ("force", "torque", "mass", "thrust_scale", "delay")
    assert found.sizes == (3, 3, 1, 4, 1) and len(found.terms(ROBOT, path=False)) == 6
    expected = [c for name in found.names for c in range(PARAMETERS[name].start, PARAMETERS[name].stop)]
    assert list(found.columns) == expected
    assert sum(found.sizes) == len(found.columns) == len(found.offset) == len(found.scale)


@pytest.mark.parametrize("task", [small_task(), FoundationTask()], ids=["one robot", "a family"])
def test_departures_are_zero_for_the_file_and_of_spread_one_for_the_task(task: object) -> None:
    robot = task.reference(ROBOT)  # type: ignore[attr-defined]
    found = privileged_terms(task, robot)
    columns = list(found.columns)
    own = pack_parameters(robot, Perturbation.none(1))[0, columns]
    np.testing.assert_allclose((own - found.offset) * found.scale, 0.0, atol=1e-6)
    drawn = pack_parameters(robot, task.sample(np.random.default_rng(5), 4000, robot).perturbation)  # type: ignore[attr-defined]
    spread = ((drawn[:, columns] - found.offset) * found.scale).std(axis=0)
    np.testing.assert_allclose(spread, 1.0, atol=0.15)


def test_a_parameter_that_only_rounding_varies_is_left_out() -> None:
    fixed = small_task(randomisation=Randomisation(force_sigma=0.0, torque_sigma_m=0.0))
    assert privileged_terms(fixed, ROBOT).names == ()
    mass = small_task(randomisation=Randomisation(force_sigma=0.0, torque_sigma_m=0.0, mass=(0.99, 1.01)))
    assert privileged_terms(mass, ROBOT).names == ("mass",)
