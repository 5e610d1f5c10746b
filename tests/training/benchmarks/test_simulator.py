"""What is measured of the simulator is what users have, on every device, and its departure is a departure."""

from __future__ import annotations

import numpy as np
import pytest

from rlstack.fused.devices import TEST_DEVICE
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.robots import frames
from rlstack.sim.batch_quadrotor.layout import STATE
from rlstack.sim.batch_quadrotor.simulator import QuadrotorSimulator
from rlstack.training.benchmarks import simulator
from rlstack.training.benchmarks.__main__ import PARTS
from rlstack.training.benchmarks.accuracy import departure


def test_every_part_is_there() -> None:
    import importlib

    ours = {name: where for name, where in PARTS.items() if "peer_" not in where}
    assert set(ours) == {"simulator", "environment", "policy"}
    for where in ours.values():
        assert callable(importlib.import_module(where).measure)


@pytest.mark.parametrize("device", ["cpu", TEST_DEVICE])
def test_both_ways_of_stepping_fly_the_same(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if device == TEST_DEVICE:
        pytest.importorskip("warp")
    robot, made = load_quadrotor("crazyflie"), []
    kept = simulator.zeros
    monkeypatch.setattr(simulator, "zeros", lambda *args: made.append(kept(*args)) or made[-1])
    step, wait = simulator.on_gpu(robot, 32, device, 0.05)
    for _ in range(3):
        step()
    wait()

    user = QuadrotorSimulator(robot, 32)
    user.set_state(simulator.moving(robot, 32))
    for _ in range(3):
        user.step(np.full((32, 4), robot.hover_speed_rad_s))

    # past commands are the starts' rotor speeds for a user; without a delay they do not act
    flown = made[-1]  # an odd number of steps ends in "next", the last array made
    for name in ("position", "orientation", "rotor_speed"):
        np.testing.assert_allclose(flown[STATE[name]].T, user.state()[name], rtol=1e-4, atol=1e-5)


def test_one_step_a_period_departs_little_and_more_when_tumbling() -> None:
    found = simulator.against_fine(load_quadrotor("crazyflie"), 4, substeps=10)
    near, full = found["hover +-15%"], found["full range"]
    assert 0.0 < near["position_m"] < 5e-4 and 0.0 < near["attitude_rad"] < 5e-3
    assert full["attitude_rad"] > near["attitude_rad"]


def test_departure_is_a_length_and_an_angle() -> None:
    level = np.array([[0.0, 0.0, 0.0, 1.0]])
    turned = np.array([[0.0, 0.0, np.sin(0.15), np.cos(0.15)]])
    assert np.allclose(frames.normalise(turned), turned)
    at, moved = np.zeros((1, 3)), np.array([[0.3, 0.0, 0.4]])
    found = departure([(at, level, at, level), (at, level, moved, -turned)])
    assert found["position_m"] == pytest.approx(0.5)
    assert found["attitude_rad"] == pytest.approx(0.3)
