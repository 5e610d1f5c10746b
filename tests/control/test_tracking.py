"""Both tracking controllers in closed loop with the float64 reference quadrotor, on two very different robots."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.control.cascaded_pid import CascadeController, CascadeGains
from rlstack.control.lee import LeeController, LeeGains, cross
from rlstack.control.reference_trajectory import Reference, along, rest
from rlstack.control.tracking import bounded, feasible, widest_tilt
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots import frames
from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.tasks.quadrotor import trajectories
from tests.support import robots
from tests.support.flights import scatter
from tests.support.reference import ReferenceQuadrotor

ROBOTS = {"crazyflie": robots.crazyflie(), "large": robots.large()}
CONTROLLERS = {"lee": (LeeController, LeeGains), "cascade": (CascadeController, CascadeGains)}
EACH = pytest.mark.parametrize("kind", CONTROLLERS)
EACH_ROBOT = pytest.mark.parametrize("name", ROBOTS)


def fly(
    robot: Quadrotor,
    kind: str,
    seconds: float,
    paths: trajectories.Paths | None = None,
    *,
    quads: list[ReferenceQuadrotor] | None = None,
    force: tuple[float, float, float] = (0.0, 0.0, 0.0),
    torque: tuple[float, float, float] = (0.0, 0.0, 0.0),
    yaw: float = 0.0,
) -> dict[str, np.ndarray]:
    """Fly robots along a path, or to the origin; return error_m, yaw_rad and tilt_rad over time, of each of several."""
    if quads is None:
        quads = [ReferenceQuadrotor(robot, step_s=5e-3)]
        quads[0].state["rotor_speed"] = np.full(4, robot.hover_speed_rad_s)
    count = len(quads)
    controller, dt = CONTROLLERS[kind][0](robot), 1.0 / robot.control_rate_hz
    controller.reset(count)
    log = []
    for k in range(round(seconds / dt)):
        s = {name: np.stack([quad.state[name] for quad in quads]) for name in quads[0].state}
        if paths is None:
            reference = rest(np.zeros((count, 3)), np.full(count, yaw))
        else:
            reference = along(
                paths.time_s - k * dt, paths.position, frames.from_yaw(paths.yaw), controller.gains.lead_s
            )
        command = controller.command(
            s["position"], s["orientation"], s["linear_velocity"], s["angular_velocity"], reference, dt if k else 0.0
        )
        log.append(
            (
                np.linalg.norm(s["position"] - reference.position, axis=1),
                frames.wrap_angle(frames.yaw(s["orientation"]) - reference.yaw),
                frames.tilt(s["orientation"]),
            )
        )
        for quad, speeds in zip(quads, command):
            quad.step(speeds, dt, force=list(force), torque=list(torque))
    flown = np.array(log).transpose(1, 0, 2)
    return dict(zip(("error_m", "yaw_rad", "tilt_rad"), flown if count > 1 else flown[..., 0]))


@EACH
@EACH_ROBOT
def test_scattered_starts_are_caught_and_held(name: str, kind: str) -> None:
    robot, random = ROBOTS[name], np.random.default_rng(2)
    quads = [ReferenceQuadrotor(robot, step_s=5e-3) for _ in range(3)]
    for quad in quads:
        scatter(quad, random, np.deg2rad(60.0))
    flight = fly(robot, kind, 5.0, quads=quads)
    late = round(4.0 * robot.control_rate_hz)
    assert flight["error_m"].shape == (round(5.0 * robot.control_rate_hz), 3)
    assert flight["error_m"].max() < 1.5
    assert flight["error_m"][late:].max() < 0.05
    assert np.abs(flight["yaw_rad"][late:]).max() < 0.05


@EACH
@EACH_ROBOT
def test_a_steady_force_and_torque_leave_no_error(name: str, kind: str) -> None:
    robot = ROBOTS[name]
    turn = 3.0 * np.array(robot.body.inertia_kg_m2)  # 3 rad/s^2 about each axis
    flight = fly(robot, kind, 8.0, force=(0.05 * robot.weight_n, 0.0, -0.05 * robot.weight_n), torque=tuple(turn))
    end = round(7.0 * robot.control_rate_hz)
    assert flight["error_m"].max() > 0.01
    assert flight["error_m"][end:].max() < 5e-3
    assert np.abs(flight["yaw_rad"][end:]).max() < 5e-3


@EACH
@EACH_ROBOT
def test_random_paths_are_followed(name: str, kind: str) -> None:
    robot = ROBOTS[name]
    paths = trajectories.random_polynomials(
        np.random.default_rng(4), 1, robot, duration_s=5.0, speed_share=(0.5, 0.5), acceleration_share=(0.4, 0.4)
    )
    flight = fly(robot, kind, 5.0, paths)
    assert np.sqrt((flight["error_m"] ** 2).mean()) < 0.05


def test_the_geometric_controller_turns_with_a_turning_path() -> None:
    robot = ROBOTS["crazyflie"]
    paths = trajectories.random_polynomials(np.random.default_rng(4), 1, robot, duration_s=6.0, turning=True)
    assert np.ptp(paths.yaw) > 0.3
    quad = ReferenceQuadrotor(robot, step_s=5e-3)
    quad.state["rotor_speed"] = np.full(4, robot.hover_speed_rad_s)
    quad.state["orientation"] = frames.from_yaw(paths.yaw[0, 0])
    assert np.abs(fly(robot, "lee", 6.0, paths, quads=[quad])["yaw_rad"]).max() < 0.2


@EACH
def test_a_far_goal_is_approached_within_the_limits(kind: str) -> None:
    robot = ROBOTS["crazyflie"]
    quad = ReferenceQuadrotor(robot, step_s=5e-3)
    quad.state["position"] = np.array([6.0, -5.0, 1.0])
    quad.state["rotor_speed"] = np.full(4, robot.hover_speed_rad_s)
    flight = fly(robot, kind, 9.0, quads=[quad], yaw=2.0)
    speed = float(np.abs(np.diff(flight["error_m"])).max() * robot.control_rate_hz)
    assert 0.9 < speed / (0.5 * robot.limits.linear_velocity_m_s) < 1.3
    assert flight["tilt_rad"].max() < widest_tilt(robot) + 0.2
    assert flight["error_m"][-1] < 0.05 and abs(flight["yaw_rad"][-1]) < 0.05


@EACH
def test_the_integral_does_not_wind_up_while_the_robot_is_held_far_away(kind: str) -> None:
    robot = ROBOTS["crazyflie"]
    controller = CONTROLLERS[kind][0](robot)
    controller.reset(1)
    level = np.array([[0.0, 0.0, 0.0, 1.0]])
    zero = np.zeros((1, 3))
    for _ in range(300):
        controller.command(np.array([[3.0, 0.0, 2.0]]), level, zero, zero, rest(zero, np.zeros(1)), 0.01)
    held = controller._velocity_integral
    assert np.abs(held).max() < 0.1


numbers = st.floats(-1e6, 1e6)
three = st.tuples(numbers, numbers, numbers)


@EACH
@EACH_ROBOT
@settings(deadline=None, max_examples=60)
@given(
    calls=st.lists(
        st.tuples(three, three, three, three, st.tuples(*[three] * 5), numbers, st.floats(0.0, 1e3)),
        min_size=1,
        max_size=3,
    )
)
def test_any_finite_input_gives_finite_speeds_within_the_limits(name: str, kind: str, calls: list[tuple]) -> None:
    robot = ROBOTS[name]
    controller = CONTROLLERS[kind][0](robot)
    controller.reset(1)
    for position, turn, velocity, rate, motion, yaw, dt in calls:
        reference = Reference(*(np.array([m]) for m in motion), np.array([yaw]))
        orientation = frames.from_rotation_vector(np.array([turn]))
        arrays = (np.array([position]), orientation, np.array([velocity]), np.array([rate]))
        command = controller.command(*arrays, reference, dt)
        assert command.shape == (1, 4)
        assert (command >= robot.rotor_model.speed_min_rad_s).all()
        assert (command <= robot.rotor_model.speed_max_rad_s).all()


@EACH
def test_gains_scale_with_the_robot(kind: str) -> None:
    robot = ROBOTS["crazyflie"]
    slow = replace(robot, control_rate_hz=50.0)
    one, other = (CONTROLLERS[kind][1].for_robot(r) for r in (robot, slow))
    for field in ("rate_per_s", "velocity_per_s", "position_per_s"):
        assert getattr(other, field) < getattr(one, field)
    assert widest_tilt(robot) < 0.8 * robot.limits.tilt_rad + 1e-9


def test_height_comes_before_place_and_what_was_refused_is_said() -> None:
    g = STANDARD_GRAVITY
    wanted = np.array([[1.0, 0.0, 0.0], [50.0, 0.0, 1.0], [3.0, 4.0, 99.0], [0.0, 0.0, -99.0]])
    thrust, granted = feasible(wanted, 0.5, 2.0 * g)
    np.testing.assert_allclose(thrust[0], [1.0, 0.0, g])
    np.testing.assert_allclose(thrust[1], [(g + 1.0) * np.tan(0.5), 0.0, g + 1.0])
    assert thrust[2, 2] == pytest.approx(1.8 * g) and thrust[2, 1] / thrust[2, 0] == pytest.approx(4.0 / 3.0)
    assert thrust[3, 2] == pytest.approx(0.3 * g)
    assert granted.tolist() == [[True] * 3, [False, False, True], [True, True, False], [True, True, False]]


def test_vectors_are_shortened_and_crossed() -> None:
    vectors = np.array([[3.0, 4.0, 0.0], [0.3, 0.4, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(bounded(vectors, 1.0), [[0.6, 0.8, 0.0], [0.3, 0.4, 0.0], [0.0, 0.0, 0.0]])
    other = np.random.default_rng(0).normal(size=(3, 3))
    np.testing.assert_allclose(cross(vectors, other), np.cross(vectors, other))
