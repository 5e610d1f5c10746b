"""The models in flight: in MuJoCo behind the simulation that all engines share, and in the batch simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.sim.backends.mujoco import MujocoBackend
from rlstack.sim.batch_quadrotor.simulator import QuadrotorSimulator
from rlstack.sim.physics.models import NO_MODELS, PhysicsModels, models_of
from rlstack.sim.simulation import Simulation
from rlstack.sim.world import Wind, World
from tests.support.robots import crazyflie, large
from tests.support.worlds import VOID

LEVEL = (0.0, 0.0, 0.0, 1.0)


def world(wind: Wind | None = None, floor: bool = False, **switches: bool) -> World:
    places = tuple((float(k), 0.0, 0.0) for k in range(3))
    return replace(VOID, wind=wind, floor=floor, physics=switches, starts_m=places)


def at(robot: Quadrotor, places: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Return states of robots that hover at places."""
    count = len(places)
    return {
        "position": np.array(places, dtype=float),
        "orientation": np.tile(LEVEL, (count, 1)),
        "linear_velocity": np.zeros((count, 3)),
        "angular_velocity": np.zeros((count, 3)),
        "rotor_speed": np.full((count, 4), robot.hover_speed_rad_s),
    }


def in_mujoco(
    robots: Sequence[Quadrotor], places: Sequence[Sequence[float]], seconds: float, **options: Any
) -> Simulation:
    simulation = Simulation(MujocoBackend.engine, robots, **options)
    simulation.open()
    simulation.set_state(at(robots[0], places), np.arange(len(robots)))
    simulation.command(np.stack([np.full(4, r.hover_speed_rad_s) for r in robots]))
    simulation.step(seconds)
    return simulation


def in_batch(robot: Quadrotor, place: Sequence[float], seconds: float, **options: Any) -> QuadrotorSimulator:
    simulator = QuadrotorSimulator(robot, 1, **options)
    simulator.set_state(at(robot, [place]))
    for _ in range(round(seconds * simulator.rate_hz)):
        simulator.step(np.full((1, 4), robot.hover_speed_rad_s))
    return simulator


def test_the_floor_lifts_in_both_and_where_there_is_none_it_does_not() -> None:
    robot, place = crazyflie(), (0.0, 0.0, 0.05)
    near = in_mujoco([robot], [place], 0.2, world=world(floor=True)).state()["position"][0, 2]
    batch = in_batch(robot, place, 0.2, models=models_of(robot, {"downwash": False})).state()["position"][0, 2]
    assert near - 0.05 > 1e-3
    assert near == pytest.approx(batch, abs=2e-5)
    for off in (world(), world(floor=True, ground_effect=False)):
        assert in_mujoco([robot], [place], 0.2, world=off).state()["position"][0, 2] == pytest.approx(0.05, abs=1e-6)


def test_wind_carries_both_alike() -> None:
    robot, wind = crazyflie(), Wind(velocity_m_s=(3.0, 0.0, 0.0))
    drifted = in_mujoco([robot], [(0.0, 0.0, 5.0)], 1.0, world=world(wind)).state()
    batch = in_batch(robot, (0.0, 0.0, 5.0), 1.0, models=PhysicsModels(wind=True), wind=wind).state()
    # m v' = d (3 - v)
    rate = robot.body.linear_drag_n_s_per_m[0] / robot.body.mass_kg
    assert drifted["linear_velocity"][0, 0] == pytest.approx(3.0 * (1.0 - np.exp(-rate)), rel=1e-4)
    for name in ("position", "linear_velocity"):
        np.testing.assert_allclose(drifted[name], batch[name], atol=1e-4)


def test_rotor_drag_flies_alike_in_both() -> None:
    robot, wind = crazyflie(), Wind(velocity_m_s=(3.0, 1.0, 0.5))
    models = replace(models_of(robot, {"rotor_drag": True, "ground_effect": False}, wind=True), downwash=False)
    engine = in_mujoco([robot], [(0.0, 0.0, 5.0)], 1.0, world=world(wind, rotor_drag=True)).state()
    batch = in_batch(robot, (0.0, 0.0, 5.0), 1.0, models=models, wind=wind).state()
    linear = in_batch(robot, (0.0, 0.0, 5.0), 1.0, models=replace(models, rotor_drag=False), wind=wind).state()
    np.testing.assert_allclose(engine["position"], batch["position"], atol=1e-4)
    assert np.abs(batch["position"] - linear["position"]).max() > 1e-4


def test_who_hovers_below_another_is_pushed_down() -> None:
    robot = crazyflie()
    places = [(0.0, 0.0, 3.0), (0.0, 0.0, 2.0), (2.0, 0.0, 2.0)]
    heights = in_mujoco([robot] * 3, places, 0.5, world=world()).state()["position"][:, 2]
    assert heights[0] == pytest.approx(3.0, abs=1e-4) and heights[2] == pytest.approx(2.0, abs=1e-3)
    # 5.8 sqrt(4 T / (pi rho)) / 1 m is 3.0 m/s, times 6.25e-3 N s/m over 27 g
    assert heights[1] - 2.0 == pytest.approx(-0.5 * 0.7 * 0.5**2, rel=0.1)
    for options in ({"world": world(downwash=False)}, {"world": world(), "isolated": True}):
        alone = in_mujoco([robot] * 3, places, 0.5, **options).state()["position"][:, 2]
        assert alone[1] == pytest.approx(2.0, abs=1e-4)


def test_a_battery_limits_the_rotors_in_both() -> None:
    robot = crazyflie()
    assert robot.battery is not None
    weak = replace(robot, battery=replace(robot.battery, enabled=True, capacity_ah=0.002))
    highest = robot.rotor_model.speed_max_rad_s
    simulation = Simulation(MujocoBackend.engine, [weak], world=world())
    simulation.open()
    batch = QuadrotorSimulator(weak, 1, models=models_of(weak, {"downwash": False}, floor=False))
    start = at(weak, [(0.0, 0.0, 5.0)])
    simulation.set_state(start, np.arange(1))
    batch.set_state(start)
    for _ in range(100):
        simulation.command(np.full((1, 4), highest))
        simulation.step(0.01)
        batch.step(np.full((1, 4), highest))
    batteries = simulation.rotorcraft.batteries
    assert batteries is not None and batteries.charge[0] < 0.6 and batteries.current[0] > 5.0
    speeds = [simulation.state()["rotor_speed"][0], batch.state()["rotor_speed"][0]]
    assert all((0.8 * highest < s).all() and (s < 0.95 * highest).all() for s in speeds)
    np.testing.assert_allclose(speeds[0], speeds[1], rtol=2e-3)
    simulation.reset(0)
    assert batteries.charge[0] == 1.0 and batteries.top_speed[0] == highest


def test_what_the_batch_simulator_refuses() -> None:
    with pytest.raises(UserError, match="both or neither: the model 'wind' on, and a wind"):
        QuadrotorSimulator(crazyflie(), 1, models=PhysicsModels(wind=True))
    with pytest.raises(UserError, match="both or neither"):
        QuadrotorSimulator(crazyflie(), 1, wind=Wind(velocity_m_s=(1.0, 0.0, 0.0)))
    with pytest.raises(UserError, match="wind and batteries on the cpu only, not on warp:cpu"):
        QuadrotorSimulator(crazyflie(), 1, models=PhysicsModels(battery=True), device="warp:cpu")
    assert QuadrotorSimulator(large(), 1).models == NO_MODELS, "what policies train with"
