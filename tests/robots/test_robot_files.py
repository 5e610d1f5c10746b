"""Every shipped robot file: the numbers make a quadrotor, the generated model flies, the page's table is the files'."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rlstack.control.hover import HoverController
from rlstack.control.hover_rates import RatesHoverController
from rlstack.interfaces.kind_signals import command_of
from rlstack.kinds.quadrotor.guard_config import QuadrotorGuardConfig
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.kinds.quadrotor.spec_allocation import allocation, inverse_allocation
from rlstack.robots import frames, robot_names
from rlstack.robots.spec import robot_files
from rlstack.sim.backends.mujoco import MujocoBackend
from tests.support import docs

EACH_ROBOT = pytest.mark.parametrize("name", robot_names("quadrotor"))

PUBLISHED = {
    # name: mass kg, thrust-to-weight, hover command as a share of the top speed
    "crazyflie": (0.027, 2.25, 0.667),
    "crazyflie_brushless": (0.04338, 1.88, 15896.0 / 21661.0),
    "flightmare": (0.73, 12.125, 0.246),
    "mrs_f330": (1.4, 2.595, 0.621),
    "crazyflie_rates": (0.027, 2.25, 0.667),
    "racer": (0.782, 3.937, 0.281),
    "racer_rates": (0.782, 3.937, 0.281),
    "x500": (2.0, 3.247, 0.555),
    "x500_rates": (2.0, 3.247, 0.555),
}
"""Worked out from the sources' own numbers and units, by hand: what a slip in a conversion would change."""

FR, FL, BR, BL = "front right", "front left", "back right", "back left"
ORDERS = {
    "crazyflie": (FR, BR, BL, FL),  # Bitcraze m1 to m4
    "crazyflie_brushless": (FR, BR, BL, FL),
    "flightmare": (FL, FR, BR, BL),
    "mrs_f330": (FR, BL, FL, BR),  # PX4 quadrotor x, motors 1 to 4
    "crazyflie_rates": (FR, BR, BL, FL),
    "racer": (FR, BL, FL, BR),
    "racer_rates": (FR, BL, FL, BR),
    "x500": (FR, BL, FL, BR),
    "x500_rates": (FR, BL, FL, BR),
}
COUNTER_CLOCKWISE = {FR, BL}
"""Of all of these vehicles, seen from above; such a rotor turns the body clockwise."""


def place(position: tuple[float, float, float]) -> str:
    x, y, _ = position
    return f"{'front' if x > 0.0 else 'back'} {'left' if y > 0.0 else 'right'}"


def torque_to_inertia(robot: Quadrotor) -> float:
    """Return the roll torque over the roll inertia, 1/s^2, as RAPTOR's family is given: sqrt(2) x, top thrust."""
    top = robot.thrust_to_weight * robot.weight_n / len(robot.rotors)
    return math.sqrt(2.0) * abs(robot.rotors[0].position_m[0]) * top / robot.body.inertia_kg_m2[0]


@EACH_ROBOT
def test_the_numbers_are_those_published(name: str) -> None:
    robot = load_quadrotor(name)
    mass, thrust_to_weight, hover = PUBLISHED[name]
    assert robot.name == name
    assert robot.body.mass_kg == mass
    assert robot.thrust_to_weight == pytest.approx(thrust_to_weight, rel=2e-3)
    assert robot.hover_speed_rad_s / robot.rotor_model.speed_max_rad_s == pytest.approx(hover, rel=2e-3)


@EACH_ROBOT
def test_rotors_have_the_vehicles_own_order_and_turn_its_way(name: str) -> None:
    rotors = load_quadrotor(name).rotors
    assert tuple(place(rotor.position_m) for rotor in rotors) == ORDERS[name]
    for rotor in rotors:
        assert rotor.yaw_torque_sign == (-1 if place(rotor.position_m) in COUNTER_CLOCKWISE else 1)


@EACH_ROBOT
def test_it_can_hover_turn_about_every_axis_and_is_a_body(name: str) -> None:
    robot = load_quadrotor(name)
    model = robot.rotor_model
    assert 1.5 < robot.thrust_to_weight < 15.0
    # room to go down as well as up
    assert 1.2 * model.speed_min_rad_s < robot.hover_speed_rad_s < 0.85 * model.speed_max_rad_s
    hover = 4.0 * float(model.thrust(np.array(robot.hover_speed_rad_s)))
    assert hover == pytest.approx(robot.weight_n)
    assert 2.0 * max(robot.body.inertia_kg_m2) < sum(robot.body.inertia_kg_m2)
    assert max(robot.body.inertia_kg_m2) == robot.body.inertia_kg_m2[2], "a quadrotor is flat"
    inverse = inverse_allocation(robot)  # refuses what it cannot invert
    wanted = (robot.weight_n, 1e-3, -2e-3, 5e-4)
    np.testing.assert_allclose(allocation(robot) @ inverse @ wanted, wanted, atol=1e-12)
    assert np.ptp(inverse[:, 0]) < 1e-9, "hovering, all rotors lift alike"


@EACH_ROBOT
def test_rotors_at_rest_neither_lift_nor_press(name: str) -> None:
    assert float(load_quadrotor(name).rotor_model.thrust(np.array(0.0))) == 0.0


@EACH_ROBOT
def test_the_limits_leave_room_to_fly(name: str) -> None:
    robot = load_quadrotor(name)
    config = QuadrotorGuardConfig.from_robot(robot)  # refuses what no guard can keep
    gains = HoverController(robot).gains
    assert gains.tilt_rad < 0.8 * config.tilt_rad
    assert gains.tilt_rate_rad_s < config.angular_velocity_rad_s
    assert robot.body.collision_height_m < 0.4, "the guard would take it for flying while it stands"
    within_two_periods = robot.limits.rotor_acceleration_rad_s2 * 2.0 / robot.control_rate_hz
    assert within_two_periods == pytest.approx(robot.rotor_model.speed_max_rad_s, rel=0.01)


@EACH_ROBOT
def test_the_fallback_controller_holds_it_in_the_generated_model(name: str) -> None:
    robot = load_quadrotor(name)
    goal, period = np.array([0.0, 0.0, 1.0]), 1.0 / robot.control_rate_hz
    controller = HoverController(robot) if robot.rate_loop is None else RatesHoverController(robot)
    backend = MujocoBackend(robot, noise_seed=1)
    backend.connect()
    backend.reset(
        {
            "position": goal + np.array([0.3, -0.2, 0.2]),
            "orientation": frames.multiply(frames.from_rotation_vector((0.3, -0.3, 0.0)), frames.from_yaw(0.5)),
            "linear_velocity": np.array([0.3, 0.3, -0.3]),
            "rotor_speed": np.full(4, robot.hover_speed_rad_s),
        }
    )
    log = []
    for _ in range(round(5.0 / period)):
        seen = backend.read().signals
        velocity = frames.rotate(seen["orientation"], seen["linear_velocity"])
        command = controller.command(
            seen["position"], seen["orientation"], velocity, seen["angular_velocity"], goal, 0.0, period
        )
        backend.write({command_of(robot).name: command})
        backend.step(period)
        now = seen["orientation"]
        log.append((*(seen["position"] - goal), float(frames.tilt(now)), float(frames.yaw(now))))
    backend.close()
    flight = np.array(log)
    error, settled = np.linalg.norm(flight[:, :3], axis=1), round(4.0 / period)
    assert error.max() < 1.0
    assert error[settled:].max() < 0.03
    assert flight[settled:, 3].max() < 0.05
    assert np.abs(flight[settled:, 4]).max() < 0.05


def test_the_pages_table_is_that_of_the_files() -> None:
    rows = []
    for name in robot_names("quadrotor"):
        robot, about = load_quadrotor(name), robot_files()[name].read_text().splitlines()[0]
        model = robot.rotor_model
        lag = sorted({f"{time:g}" for time in (model.rise_time_constant_s, model.fall_time_constant_s)})
        rows.append(
            (
                f"[`{name}`](../src/rlstack/robots/{name}.yaml)",
                f"{robot.body.mass_kg:g}",
                f"{robot.thrust_to_weight:.2f}",
                f"{torque_to_inertia(robot):.0f}",
                ", ".join(lag),
                about.removeprefix("# ").removesuffix("."),
            )
        )
    head = (
        "robot",
        "mass kg",
        "thrust-to-weight",
        "torque-to-inertia 1/s²",
        "motor lag s",
        "model and source of values",
    )
    expected = docs.table(head, rows)
    assert expected in docs.text("docs/robots.md"), f"docs/robots.md needs this table:\n{expected}"
