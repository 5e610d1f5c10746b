"""The one function that every simulator calls: compiled as in numpy, and nothing of what is off."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlstack.fused import GRADIENT, Kernel
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.sim.batch_quadrotor.layout import PARAMETER_WIDTH, PARAMETERS, pack_parameters
from rlstack.sim.perturbation import Perturbation
from rlstack.sim.physics.body import Body, rotate, unit
from rlstack.sim.physics.loads import disturbances, loads
from rlstack.sim.physics.models import NO_MODELS, PhysicsModels
from tests.sim.batch_quadrotor.states import random_perturbation, random_state
from tests.sim.physics.kernels import BOTH
from tests.support.robots import crazyflie

ALL = PhysicsModels(ground_effect=True, rotor_drag=True, downwash=True, wind=True)
SIZES = {"position": 3, "orientation": 4, "velocity": 3, "rates": 3, "speed": 4, "change": 4, "air": 3}


def wrench(models: PhysicsModels, spin: bool = True, still: bool = False) -> Any:
    def function(parameters: Any, **rows: Any) -> dict[str, Any]:
        body = Body(*(rows[name] for name in ("position", "orientation", "velocity", "rates")))
        p = {name: parameters[where] for name, where in PARAMETERS.items()}
        change, air = rows["change"] if spin else None, None if still else rows["air"]
        force, torque = loads(body, rows["speed"], change, p, models, air, -0.1)
        push, turn = disturbances(p, 0.3, 0.1)
        return {"force": force + push, "torque": torque + turn}

    return function


def arrays(name: str, models: PhysicsModels, count: int = 50) -> dict[str, Any]:
    robot, rng = load_quadrotor(name), np.random.default_rng(0)
    state = random_state(rng, count, robot)
    position = state["position"].T.copy()
    position[2] = np.abs(position[2]) * robot.rotor_model.radius_m
    parameters = pack_parameters(robot, random_perturbation(rng, count, robot), "float64", models).T
    return {
        "position": position,
        "orientation": state["orientation"].T,
        "velocity": state["linear_velocity"].T,
        "rates": state["angular_velocity"].T,
        "speed": robot.hover_speed_rad_s * rng.uniform(0.5, 1.5, (4, count)),
        "change": rng.normal(size=(4, count)) * 1e4,
        "air": rng.normal(size=(3, count)),
        "parameters": parameters,
    }


@BOTH
@pytest.mark.parametrize("name", ["crazyflie", "x500"])
def test_the_compiled_loads_are_numpys(name: str, dtype: str) -> None:
    given = arrays(name, ALL)
    kernel = Kernel(wrench(ALL), {**SIZES, "parameters": PARAMETER_WIDTH}, dtype=dtype)
    found = {key: np.zeros((3, 50), dtype) for key in kernel.outputs}
    kernel({**{key: rows.astype(dtype, order="C") for key, rows in given.items()}, **found})
    for key, wanted in wrench(ALL)(**given).items():
        scale = np.abs(wanted).max()
        np.testing.assert_allclose(found[key], wanted, rtol=0, atol=scale * (2e-6 if dtype == "float32" else 1e-14))


def test_the_loads_can_be_differentiated() -> None:
    given = arrays("crazyflie", ALL, 5)
    kernel = Kernel(
        wrench(ALL), {**SIZES, "parameters": PARAMETER_WIDTH}, wanted=("position", "speed"), dtype="float64"
    )
    seeds = {GRADIENT + "force": np.zeros((3, 5)), GRADIENT + "torque": np.zeros((3, 5))}
    seeds[GRADIENT + "force"][2] = 1.0
    found = {GRADIENT + key: np.zeros((rows, 5)) for key, rows in (("position", 3), ("speed", 4))}
    kernel({**{key: np.ascontiguousarray(rows) for key, rows in given.items()}, **seeds, **found})
    for name, row, step in (("position", 2, 1e-7), ("speed", 1, 1e-2)):
        ahead, behind = ({**given, name: given[name].copy()} for _ in range(2))
        ahead[name][row] += step
        behind[name][row] -= step
        slope = (wrench(ALL)(**ahead)["force"][2] - wrench(ALL)(**behind)["force"][2]) / (2.0 * step)
        np.testing.assert_allclose(found[GRADIENT + name][row], slope, rtol=1e-5, atol=1e-9)
    assert np.abs(found[GRADIENT + "position"][2]).max() > 0.0, "nearer the floor there is more lift"


def test_what_is_off_costs_nothing() -> None:
    sizes = {**SIZES, "parameters": PARAMETER_WIDTH}
    bare = Kernel(wrench(NO_MODELS, still=True), sizes, dtype="float64").operations
    for name in ("ground_effect", "rotor_drag"):
        assert Kernel(wrench(PhysicsModels(**{name: True}), still=True), sizes, dtype="float64").operations > bare
    assert Kernel(wrench(PhysicsModels(battery=True), still=True), sizes, dtype="float64").operations == bare


def test_models_that_are_off_are_zero_in_the_rows_of_a_kernel_that_has_them() -> None:
    # of two robots in one kernel, only one may have a model on
    given = arrays("crazyflie", NO_MODELS)
    given["air"][:] = 0.0
    for key, wanted in wrench(NO_MODELS, still=True)(**given).items():
        np.testing.assert_allclose(wrench(ALL)(**given)[key], wanted, rtol=1e-12, atol=1e-15)


def test_motors_that_stop_do_not_pull_down() -> None:
    # the fit of this one is below 0 under its lowest speed
    robot = load_quadrotor("flightmare")
    row = pack_parameters(robot, Perturbation.none(1), "float64")[0]
    p = {name: row[where] for name, where in PARAMETERS.items()}
    body = Body(np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0]), np.zeros(3), np.zeros(3))
    force, torque = loads(body, np.zeros(4), None, p)
    assert (force == 0.0).all() and (torque == 0.0).all()
    fitted, _ = loads(body, np.zeros(4), None, p, idle=False)
    assert fitted[2] == pytest.approx(4.0 * robot.rotor_model.thrust_coefficients[0])


def test_a_gust_counts_by_the_share_of_the_step_in_which_it_blows() -> None:
    none = Perturbation.none(1)
    none.gust_force_n[:] = [1.0, 2.0, 0.0]
    none.gust_start_s[:], none.gust_duration_s[:] = 0.25, 1.0
    row = pack_parameters(crazyflie(), none, "float64")[0]
    p = {name: row[where] for name, where in PARAMETERS.items()}
    for elapsed, share in ((0.0, 0.0), (0.2, 0.5), (0.5, 1.0), (1.225, 0.25), (1.3, 0.0)):
        force, torque = disturbances(p, elapsed, 0.1)
        np.testing.assert_allclose(force, share * np.array([1.0, 2.0, 0.0]), atol=1e-12)
        assert (torque == 0.0).all()


def test_rotation_keeps_lengths_and_turns_back() -> None:
    rng = np.random.default_rng(0)
    q, v = unit(rng.normal(size=(4, 20))), rng.normal(size=(3, 20))
    turned = rotate(q, v)
    np.testing.assert_allclose((turned**2).sum(axis=0), (v**2).sum(axis=0), rtol=1e-13)
    np.testing.assert_allclose(rotate(q, turned, -1.0), v, rtol=1e-12, atol=1e-14)
