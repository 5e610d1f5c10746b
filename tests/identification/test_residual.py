"""A residual model is found where the motion has more than the physics, and only there."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.identification.residual import Term, _fitted, _judged, _only
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.sim.batch_quadrotor.dynamics import RESIDUAL_INPUTS, RESIDUAL_OUTPUTS
from rlstack.sim.batch_quadrotor.simulator import QuadrotorSimulator
from rlstack.sim.physics.residual import ResidualModel, read_residual, write_residual


class Names:
    """What the fit asks of a motion model."""

    residual_inputs, residual_outputs = ("velocity_x_m_s", "rate_x_rad_s", "rate_y_rad_s"), ("force_n", "torque_n_m")


def windows(count: int, seed: int, drag: float) -> tuple[Array, Array, Array]:
    """Return inputs, what is left and times of windows, with quadratic drag and noise on everything."""
    random = np.random.default_rng(seed)
    inputs, left = random.normal(0.0, 1.0, (count, 3)), random.normal(0.0, 1e-3, (count, 2))
    left[:, 0] -= drag * np.abs(inputs[:, 0]) * inputs[:, 0]
    return inputs, left, 0.1 * np.arange(count)


def judged(drag: float) -> tuple[ResidualModel, tuple[Term, ...]]:
    network = _fitted(Names(), *windows(200, 0, drag))  # type: ignore[arg-type]
    inputs, left, at = windows(120, 1, drag)
    return network, _judged(network, inputs, left, np.floor(at))


def test_what_is_left_is_learned_by_term_and_noise_is_not(tmp_path: Path) -> None:
    network, terms = judged(0.002)
    assert [term.used for term in terms] == [True, False]
    assert terms[0].after < 0.6 * terms[0].before
    used = _only(network, [term.used for term in terms])
    rows = [np.array([-1.5, 1.5, 1e3]), np.zeros(3), np.zeros(3)]
    force = used.apply(rows)
    np.testing.assert_allclose(force[0, :2], [0.0045, -0.0045], atol=0.0015)
    assert -used.bound[0] <= force[0, 2] < -0.005 and np.all(force[1] == 0.0)

    file = tmp_path / "drone.residual.onnx"
    write_residual(file, used, "a test")
    again = read_residual(file, Names.residual_inputs, Names.residual_outputs)
    np.testing.assert_allclose(again.apply(rows), force, atol=1e-6)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"inputs": np.stack(rows, axis=1).astype(np.float32)})
    np.testing.assert_allclose(found.T, force, atol=1e-6)


def test_where_nothing_is_left_nothing_is_used() -> None:
    assert not any(term.used for term in judged(0.0)[1])


def constant(force: Array) -> ResidualModel:
    """Return a model whose outputs are always nearly these."""
    arrays = {"low": -np.ones(10), "high": np.ones(10), "hidden": np.zeros((1, 10)), "hidden_bias": np.zeros(1)}
    arrays |= {"out": np.zeros((6, 1)), "out_bias": np.full(6, 9.0) * np.sign(force), "bound": np.abs(force)}
    return ResidualModel.of(RESIDUAL_INPUTS, RESIDUAL_OUTPUTS, arrays)


def test_the_batch_simulator_adds_it_in_the_body() -> None:
    robot, turned = load_quadrotor("crazyflie"), [0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5)]
    simulators = [
        QuadrotorSimulator(robot, 1, residual=one) for one in (None, constant(np.array([1e-3, 0, 0, 0, 0, 1e-7])))
    ]
    states = []
    for simulator in simulators:
        start = {name: array.copy() for name, array in simulator.state().items()}
        start["orientation"][:], start["rotor_speed"][:] = turned, robot.hover_speed_rad_s
        simulator.set_state(start)
        for _ in range(10):
            simulator.step(np.full((1, 4), robot.hover_speed_rad_s))
        states.append(simulator.state())
    moved = states[1]["linear_velocity"][0] - states[0]["linear_velocity"][0]
    np.testing.assert_allclose(moved, [0.0, 0.1e-3 / robot.body.mass_kg, 0.0], atol=2e-4)
    spun = states[1]["angular_velocity"][0, 2] - states[0]["angular_velocity"][0, 2]
    assert spun == pytest.approx(0.1e-7 / robot.body.inertia_kg_m2[2], rel=0.01)


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no residual model"):
        read_residual(tmp_path / "no.onnx", RESIDUAL_INPUTS, RESIDUAL_OUTPUTS)
    (tmp_path / "bad.onnx").write_bytes(b"bad")
    with pytest.raises(UserError, match="is no residual model"):
        read_residual(tmp_path / "bad.onnx", RESIDUAL_INPUTS, RESIDUAL_OUTPUTS)
    model = constant(np.full(6, 1e-3))
    write_residual(tmp_path / "other.onnx", dataclasses.replace(model, outputs=tuple("abcdef")), "")
    with pytest.raises(UserError, match="another kind"):
        read_residual(tmp_path / "other.onnx", RESIDUAL_INPUTS, RESIDUAL_OUTPUTS)
    with pytest.raises(UserError, match="must be finite"):
        constant(np.full(6, np.nan))
