from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.control.hover import Descent, HoverController
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots import frames
from tests.support import robots
from tests.support.flights import measure, scatter
from tests.support.reference import ReferenceQuadrotor

ROBOTS = {"crazyflie": robots.crazyflie(), "large": robots.large()}
STEP_S = 5e-3


def fly(
    robot: Quadrotor,
    seed: int,
    *,
    seconds: float = 5.5,
    tilt_rad: float = np.deg2rad(60.0),
    plant: Quadrotor | None = None,
    force_share: float = 0.0,
    delay_steps: int = 0,
    noisy: bool = False,
    goal: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> dict[str, np.ndarray]:
    """Fly from a scattered start to the goal; return arrays over time: error_m, tilt_rad, speed, yaw_rad."""
    random = np.random.default_rng(seed)
    quad, controller = ReferenceQuadrotor(plant or robot, step_s=STEP_S), HoverController(robot)
    scatter(quad, random, tilt_rad)
    controller.reset()
    dt, force = 1.0 / robot.control_rate_hz, np.full(3, force_share * robot.weight_n)
    waiting = [np.full(4, robot.hover_speed_rad_s)] * delay_steps
    log = []
    for _ in range(round(seconds / dt)):
        seen = measure(quad, random if noisy else None)
        velocity = frames.rotate(seen["orientation"], seen["linear_velocity"])
        waiting.append(
            controller.command(
                seen["position"], seen["orientation"], velocity, seen["angular_velocity"], np.array(goal), 0.0, dt
            )
        )
        state = quad.step(waiting.pop(0), dt, force=force.tolist())
        log.append(
            (
                np.linalg.norm(state["position"] - goal),
                frames.tilt(state["orientation"]),
                np.linalg.norm(state["linear_velocity"]),
                frames.yaw(state["orientation"]),
            )
        )
    return dict(zip(("error_m", "tilt_rad", "speed", "yaw_rad"), np.array(log).T))


def after(robot: Quadrotor, flight: dict[str, np.ndarray], seconds: float) -> dict[str, np.ndarray]:
    start = round(seconds * robot.control_rate_hz)
    return {name: values[start:] for name, values in flight.items()}


@pytest.mark.parametrize("name", ROBOTS)
def test_every_scattered_start_recovers_and_holds_under_a_steady_force(name: str) -> None:
    robot = ROBOTS[name]
    flights = [fly(robot, seed, force_share=0.05) for seed in range(4)]
    held = [np.max(after(robot, flight, 5.0)["error_m"]) < 0.1 for flight in flights]
    assert np.mean(held) == 1.0
    assert max(np.max(flight["error_m"]) for flight in flights) < 1.0
    assert max(np.max(np.abs(after(robot, flight, 5.0)["yaw_rad"])) for flight in flights) < 0.05


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("departure", ["20% heavier", "motors 30% slower", "motors 40% faster", "two periods late"])
def test_a_plant_that_is_not_the_file_is_still_held(name: str, departure: str) -> None:
    robot = ROBOTS[name]
    model = robot.rotor_model

    def lagging(factor: float) -> Quadrotor:
        times = {k: getattr(model, k) * factor for k in ("rise_time_constant_s", "fall_time_constant_s")}
        return replace(robot, rotor_model=replace(model, **times))

    plant = {
        "20% heavier": robots.heavier(robot, 1.2),
        "motors 30% slower": lagging(1.3),
        "motors 40% faster": lagging(0.6),
        "two periods late": robot,
    }[departure]
    delay = 2 if departure == "two periods late" else 1
    for seed in range(2 if name == "crazyflie" else 1):
        flight = after(robot, fly(robot, seed, plant=plant, delay_steps=delay, noisy=True), 5.0)
        assert np.max(flight["error_m"]) < 0.1
        assert np.max(flight["speed"]) < 0.1


def test_upside_down_is_caught_within_two_metres() -> None:
    robot = ROBOTS["crazyflie"]
    for seed in range(4):
        flight = fly(robot, seed, tilt_rad=np.pi)
        assert np.max(flight["error_m"]) < 2.0
        assert np.max(after(robot, flight, 5.0)["error_m"]) < 0.1


def test_speed_and_tilt_stay_bounded_on_a_long_way() -> None:
    robot = ROBOTS["crazyflie"]
    flight = fly(robot, 0, tilt_rad=0.0, seconds=6.0, goal=(2.5, -2.5, 1.5))
    later = after(robot, flight, 1.0)
    gains = HoverController(robot).gains
    assert np.max(later["speed"]) < 1.15 * gains.speed_m_s
    assert np.max(later["speed"]) > 0.9 * gains.speed_m_s
    assert np.max(later["tilt_rad"]) < gains.tilt_rad + 0.1
    assert flight["error_m"][-1] < 0.1


numbers = st.floats(-1e6, 1e6)
three = st.tuples(numbers, numbers, numbers)


@pytest.mark.parametrize("name", ROBOTS)
@settings(deadline=None)
@given(
    calls=st.lists(st.tuples(three, three, three, three, three, numbers, st.floats(0.0, 1e3)), min_size=1, max_size=4)
)
def test_any_finite_state_gives_finite_speeds_within_the_limits(name: str, calls: list[tuple]) -> None:
    robot = ROBOTS[name]
    controller = HoverController(robot)
    controller.reset(0.0)
    for position, turn, velocity, rate, goal, yaw, dt in calls:
        orientation = frames.from_rotation_vector(turn)
        command = controller.command(position, orientation, velocity, rate, goal, yaw, dt)
        assert command.shape == (4,)
        assert np.all(command >= robot.rotor_model.speed_min_rad_s)
        assert np.all(command <= robot.rotor_model.speed_max_rad_s)


def test_the_motor_model_follows_what_was_sent_not_what_was_wanted() -> None:
    robot = ROBOTS["large"]
    quad, controller = ReferenceQuadrotor(robot), HoverController(robot)
    quad.state["rotor_speed"] = np.full(4, 300.0)
    controller.reset(300.0)
    for sent in ([500.0, 900.0, 100.0, 300.0], [400.0, 100.0, 1000.0, 300.0]):
        controller.sent(sent)
        controller.follow(0.02)
        quad.step(sent, 0.02)
    np.testing.assert_allclose(controller.mixer.speed[0], quad.state["rotor_speed"], rtol=1e-6)


def test_the_lead_makes_the_rotors_arrive_within_the_horizon() -> None:
    robot = ROBOTS["crazyflie"]
    mixer = HoverController(robot).mixer
    mixer.reset(1, 1500.0)
    wanted = np.array([[1520.0, 1450.0, 1500.0, 1550.0]])
    mixer.lead(wanted)
    horizon = HoverController(robot).gains.horizon_s
    assert horizon < robot.rotor_model.rise_time_constant_s / 4.0
    mixer.follow(horizon)
    np.testing.assert_allclose(mixer.speed, wanted)


@pytest.mark.parametrize("floor_m", [-0.1, 0.0, 0.4])
@pytest.mark.parametrize("robot", [robots.crazyflie(), robots.large()], ids=lambda r: r.name)
def test_comes_down_at_the_given_speed_and_stops_on_any_floor(robot, floor_m: float) -> None:
    quad, controller = ReferenceQuadrotor(robot, step_s=5e-3, floor_m=floor_m), HoverController(robot)
    start = np.array([0.3, -0.2, 1.0])
    quad.state.update(position=start, rotor_speed=np.full(4, robot.hover_speed_rad_s))
    controller.reset()
    descent, dt, speed = Descent(start, 0.3), 1.0 / robot.control_rate_hz, []
    landed_s = None
    while landed_s is None and quad.time_s < 12.0:
        s = quad.state
        if descent.step(s["position"], s["linear_velocity"], dt):
            landed_s = quad.time_s
        speed.append(s["linear_velocity"][2])
        quad.step(
            controller.command(
                s["position"], s["orientation"], s["linear_velocity"], s["angular_velocity"], descent.goal, 0.0, dt
            ),
            dt,
        )
    drop = 1.0 - floor_m
    assert landed_s is not None
    assert drop / 0.3 < landed_s < drop / 0.3 + 3.0
    assert min(speed) > -0.45  # the touch is soft
    assert quad.state["position"][2] == pytest.approx(floor_m, abs=0.01)
    np.testing.assert_allclose(quad.state["position"][:2], start[:2], atol=0.05)


def test_a_robot_held_up_for_a_moment_has_not_landed() -> None:
    descent = Descent([0.0, 0.0, 1.0], 0.3)
    still = [0.0, 0.0, 0.0]
    assert not any(descent.step([0.0, 0.0, 1.0], still, 0.01) for _ in range(130))
    assert not any(descent.step([0.0, 0.0, 1.0], [0.0, 0.0, -0.3], 0.01) for _ in range(200))  # goes down again
    assert any(descent.step([0.0, 0.0, 1.0], still, 0.01) for _ in range(60))


def test_the_goal_never_runs_far_ahead_of_a_robot_that_does_not_follow() -> None:
    descent = Descent([0.0, 0.0, 1.0], 0.3)
    for _ in range(1000):
        descent.step([0.0, 0.0, 1.0], [0.0, 0.0, 0.2], 0.01)
    assert descent.goal[2] == pytest.approx(0.7)
