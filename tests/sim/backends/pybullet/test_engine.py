"""PyBullet as an engine, driven directly: what it integrates, in which frames, what touches, what is refused."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pybullet", reason="PyBullet has wheels up to Python 3.11 only")

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.robots import frames, load_robot
from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.sim.backends.mujoco import MujocoBackend
from rlstack.sim.backends.pybullet import PybulletBackend, PybulletEngine
from rlstack.sim.obstacle import Obstacle
from tests.support.bullet import STEP_S, body, built, states, world_with
from tests.support.reference import ReferenceQuadrotor
from tests.support.robots import large
from tests.support.worlds import VOID

TURNED = frames.from_rotation_vector([0.3, -0.2, 1.1])


@pytest.fixture(scope="module")
def robot() -> Quadrotor:
    return load_quadrotor("crazyflie")


# ---- bodies


def test_it_is_an_engine_of_the_registry() -> None:
    assert PybulletBackend.engine is PybulletEngine
    assert (PybulletEngine.name, PybulletEngine.gyroscopic) == ("pybullet", "explicit")


def test_a_state_reads_back_in_its_frames(robot: Quadrotor) -> None:
    engine = built(robot, large())
    first = body((0.4, -0.3, 1.2), TURNED, (0.5, -1.0, 0.25), (0.7, -0.1, 2.0))
    second = body((3.0, 0.0, 2.0), frames.inverse(TURNED), (0.0, 0.1, 0.0), (-3.0, 0.2, 0.3))
    engine.place(0, first)
    engine.place(1, second)
    np.testing.assert_allclose(states(engine, 2), [first, second], atol=1e-14)


def test_free_fall_is_semi_implicit_euler_without_any_damping(robot: Quadrotor) -> None:
    engine = built(robot)
    engine.place(0, body(velocity=(30.0, 0.0, 0.0), rates=(0.0, 0.0, 25.0)))
    count = 2000
    for _ in range(count):
        engine.step()
    (state,) = states(engine)
    t, fallen = count * STEP_S, 0.5 * STANDARD_GRAVITY * STEP_S**2 * count * (count + 1)
    np.testing.assert_allclose(state[:3], [30.0 * t, 0.0, 1.0 - fallen], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(state[7:10], [30.0, 0.0, -STANDARD_GRAVITY * t], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(state[10:], [0.0, 0.0, 25.0], rtol=1e-10, atol=1e-12)
    assert frames.yaw(state[3:7]) == pytest.approx(frames.wrap_angle(25.0 * t), abs=1e-9)


def test_it_does_not_clip_speeds(robot: Quadrotor) -> None:
    engine = built(robot)
    engine.place(0, body(velocity=(150.0, 0.0, 0.0), rates=(0.0, 0.0, 120.0)))
    engine.step()
    (state,) = states(engine)
    assert state[7] == pytest.approx(150.0) and state[12] == pytest.approx(120.0)


def test_its_gyroscopic_term_is_that_of_the_velocity_it_holds() -> None:
    robot = large()
    engine = built(robot)
    inertia, rates = np.array(robot.body.inertia_kg_m2), np.array([2.0, -3.0, 1.0])
    engine.place(0, body(orientation=TURNED, rates=rates))
    engine.step()
    (state,) = states(engine)
    expected = rates - STEP_S * np.cross(rates, inertia * rates) / inertia
    # what it holds, in the body as it is turned by the step
    in_body = frames.rotate_inverse(state[3:7], frames.rotate(TURNED, expected))
    np.testing.assert_allclose(state[10:], in_body, atol=1e-12)


def test_forces_are_of_the_world_and_torques_of_the_body_and_last_one_step() -> None:
    robot = large()
    engine = built(robot)
    force, torque = np.array([0.3, -0.7, 1.1]), np.array([0.002, -0.001, 0.004])
    engine.place(0, body((5.0, -3.0, 2.0), TURNED))
    engine.push(np.full((3, 1), 99.0), np.full((3, 1), 99.0))  # taken back by the next
    engine.push(force[:, None], torque[:, None])
    engine.step()
    (after,) = states(engine)
    gravity = np.array([0.0, 0.0, -STANDARD_GRAVITY])
    np.testing.assert_allclose(after[7:10], STEP_S * (force / robot.body.mass_kg + gravity), rtol=1e-9)
    spun = frames.rotate(TURNED, STEP_S * torque / np.array(robot.body.inertia_kg_m2))
    np.testing.assert_allclose(frames.rotate(after[3:7], after[10:]), spun, rtol=1e-9)
    engine.step()
    (later,) = states(engine)
    np.testing.assert_allclose(later[7:10] - after[7:10], STEP_S * gravity, rtol=1e-9, atol=1e-15)
    # and from where the body has come to, without asking for the state in between
    engine.place(0, body((-5.0, 8.0, 2.0), TURNED))
    engine.push(force[:, None], np.zeros((3, 1)))
    engine.step()
    np.testing.assert_allclose(states(engine)[0, 10:], np.zeros(3), atol=1e-12)


@pytest.mark.parametrize("name", ["crazyflie", "x500", "racer", "turtlebot3_burger", "husky", "panda"])
def test_mass_centre_and_inertia_are_the_files(name: str) -> None:
    robot = load_robot(name)
    engine = built(robot)
    held = engine.mass_properties(0)
    engine.close()
    if isinstance(robot, Quadrotor):
        assert held.mass_kg == robot.body.mass_kg
        np.testing.assert_array_equal(held.centre_m, np.zeros(3))
        np.testing.assert_allclose(held.inertia_kg_m2, np.diag(robot.body.inertia_kg_m2), rtol=1e-12)
    elif robot.kind == "wheeled_base":
        wheels = sum(wheel.mass_kg for wheel in robot.wheels)  # type: ignore[attr-defined]
        body_mass, centre, _ = robot.chassis_inertial()  # type: ignore[attr-defined]
        assert held.mass_kg == pytest.approx(body_mass + wheels, rel=1e-12)
        moment = body_mass * centre + sum(w.mass_kg * np.array(w.position_m) for w in robot.wheels)  # type: ignore[attr-defined]
        np.testing.assert_allclose(held.centre_m, moment / held.mass_kg, atol=1e-12)
    else:
        assert held.mass_kg == pytest.approx(robot.mass_kg, rel=robot.mass_tolerance)  # type: ignore[attr-defined]


def test_another_mass_and_inertia_are_taken_and_stay_when_a_robot_was_lost(robot: Quadrotor) -> None:
    engine = built(robot, robot, world=None)
    engine.set_mass(1, 0.05, np.array([4e-6, 5e-6, 6e-6]))
    engine.place(0, body((0.0, 0.0, 0.5)))
    engine.place(1, body((2.0, 0.0, 0.5)))
    engine.push(np.array([[np.nan, 0.0]] * 3), np.zeros((3, 2)))
    engine.step()
    assert np.isnan(states(engine, 2)[0]).all() and np.isfinite(states(engine, 2)[1]).all()
    engine.place(0, body((0.0, 0.0, 0.5)))
    assert engine.mass_properties(1).mass_kg == 0.05
    np.testing.assert_allclose(np.diag(engine.mass_properties(1).inertia_kg_m2), [4e-6, 5e-6, 6e-6])
    assert engine.mass_properties(0).mass_kg == robot.body.mass_kg
    for _ in range(1000):
        engine.step()
    heights = states(engine, 2)[:, 2]
    np.testing.assert_allclose(heights, robot.body.collision_height_m / 2.0, atol=1e-4)  # the floor is felt again


# ---- contact


def test_it_stands_where_its_cylinder_ends_and_says_that_it_touches(robot: Quadrotor) -> None:
    engine = built(robot, world=None)
    engine.place(0, body((0.0, 0.0, 0.1)))
    assert not engine.touching(0)
    for _ in range(1000):
        engine.step()
    (state,) = states(engine)
    assert state[2] == pytest.approx(robot.body.collision_height_m / 2.0, abs=2e-5)
    np.testing.assert_allclose(state[7:], np.zeros(6), atol=1e-6)
    assert engine.touching(0)


def test_without_a_floor_nothing_stops_it(robot: Quadrotor) -> None:
    engine = built(robot)
    engine.place(0, body((0.0, 0.0, 0.1)))
    for _ in range(1000):
        engine.step()
    assert states(engine)[0, 2] < -4.0


def test_friction_holds_up_to_its_coefficient(robot: Quadrotor) -> None:
    engine = built(robot, world=None)
    for share, slides in ((0.9, False), (1.1, True)):
        engine.place(0, body((0.0, 0.0, robot.body.collision_height_m / 2.0)))
        for _ in range(500):
            engine.push(np.array([[share * robot.weight_n], [0.0], [0.0]]), np.zeros((3, 1)))
            engine.step()
        assert (states(engine)[0, 0] > 0.05) == slides


@pytest.mark.parametrize("isolated", [True, False])
def test_robots_meet_unless_they_are_isolated(robot: Quadrotor, isolated: bool) -> None:
    engine = built(robot, robot, world=None, isolated=isolated)
    engine.place(0, body((0.0, 0.0, 0.2)))
    engine.place(1, body((0.0, 0.0, 0.3)))
    for _ in range(1500):
        engine.step()
    lower, upper = np.sort(states(engine, 2)[:, 2])
    height = robot.body.collision_height_m
    assert lower == pytest.approx(height / 2.0, abs=1e-3)
    assert upper - lower == pytest.approx(0.0 if isolated else height, abs=2e-3)


def test_obstacles_stand_and_those_with_a_mass_fall(robot: Quadrotor) -> None:
    table = Obstacle(name="table", shape="box", size_m=(1.0, 2.0, 0.5), position_m=(0.0, 0.0, 0.75), yaw_rad=0.5)
    ball = Obstacle(name="ball", shape="sphere", size_m=(0.2, 0.2, 0.2), position_m=(3.0, 0.0, 1.0), mass_kg=0.5)
    engine = built(robot, world=world_with(table, ball, floor=True))
    engine.place(0, body((0.1, 0.6, 1.2)))
    for _ in range(1500):
        engine.step()
    assert states(engine)[0, 2] == pytest.approx(1.0 + robot.body.collision_height_m / 2.0, abs=1e-3)
    down = np.array([[0.0, 0.0, -1.0]])
    assert engine.cast(0, np.array([[3.0, 0.0, 2.0]]), down, 5.0) == pytest.approx(1.8, abs=1e-2)


# ---- what is refused, and what it leaves behind


def test_without_pybullet_what_installs_it_is_said(robot: Quadrotor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pybullet", None)
    with pytest.raises(UserError, match=r"rlstack\[pybullet\].*3\.11"):
        PybulletBackend(robot)


def test_a_world_of_mujocos_and_an_option_that_nobody_takes_are_refused(robot: Quadrotor) -> None:
    with pytest.raises(UserError, match="MuJoCo model"):
        built(robot, world=replace(VOID, mjcf=Path("there.xml")))
    with pytest.raises(UserError, match="option of the pybullet simulation 'colour'"):
        PybulletBackend(robot, colour=1)


def test_importing_it_prints_nothing() -> None:
    code = "from rlstack.sim.backends.pybullet.server import import_pybullet; import_pybullet()"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("", "")


def test_servers_are_given_back(robot: Quadrotor) -> None:
    import pybullet

    before = built(robot)
    client = before.client
    before.close()
    assert not pybullet.isConnected(client)
    after = built(robot)
    assert after.client <= client
    after.close()


# ---- with the motors, against the reference and against MuJoCo


def tumble(
    backend: PybulletBackend | MujocoBackend, start: dict[str, np.ndarray], commands: np.ndarray, period_s: float
) -> list[dict[str, np.ndarray]]:
    """Return the states, velocities in the world, after each command."""
    backend.connect()
    backend.reset(start)
    path = []
    for command in commands:
        backend.write({"rotor_speed": command})
        backend.step(period_s)
        path.append({name: array[0] for name, array in backend.simulation.state().items()})
    backend.close()
    return path


def departure(one: list[dict[str, np.ndarray]], other: list[dict[str, np.ndarray]]) -> tuple[float, float]:
    """Return the largest distance m and angle rad between two flights."""
    distance = max(float(np.linalg.norm(a["position"] - b["position"])) for a, b in zip(one, other))
    turns = [frames.multiply(frames.inverse(a["orientation"]), b["orientation"]) for a, b in zip(one, other)]
    return distance, max(2.0 * float(np.arcsin(min(1.0, np.linalg.norm(turn[:3])))) for turn in turns)


@pytest.mark.parametrize("make", [lambda: load_quadrotor("crazyflie"), large], ids=["crazyflie", "large"])
@pytest.mark.parametrize("rate_hz, commands_hz", [(240.0, 120), (1000.0, 100)])
def test_random_commands_for_a_second_fly_as_the_reference_and_mujoco_do(
    make: object, rate_hz: float, commands_hz: int
) -> None:
    """Over the rotors' full range; commands fall on physics steps, because a late one is felt: see the docs."""
    robot = replace(make(), control_rate_hz=100.0, sensors={})  # type: ignore[operator]
    random, model = np.random.default_rng(2), robot.rotor_model
    low, high = model.speed_min_rad_s, model.speed_max_rad_s
    start = {
        "position": random.uniform(-1.0, 1.0, 3),
        "orientation": frames.normalise(random.normal(size=4)),
        "linear_velocity": random.uniform(-1.0, 1.0, 3),
        "angular_velocity": random.uniform(-1.0, 1.0, 3),
        "rotor_speed": np.full(4, 0.5 * (low + high)),
    }
    commands = random.uniform(low, high, (commands_hz, 4))
    options = {"physics_rate_hz": rate_hz, "world": VOID}
    ours = tumble(PybulletBackend(robot, **options), start, commands, 1.0 / commands_hz)  # type: ignore[arg-type]
    theirs = tumble(MujocoBackend(robot, **options), start, commands, 1.0 / commands_hz)  # type: ignore[arg-type]
    reference = ReferenceQuadrotor(robot, step_s=5e-4)
    reference.state = {name: value.copy() for name, value in start.items()}
    expected = [dict(reference.step(command, 1.0 / commands_hz)) for command in commands]
    distance, angle = departure(ours, expected)
    share = (1000.0 / rate_hz) ** 2  # of second order in the step
    assert distance < 1.5e-4 * share < 0.01 and angle < 5e-4 * share < np.deg2rad(1.0)
    assert max(departure(ours, theirs)) < 1e-6


def test_a_robot_that_is_lost_and_put_back_leaves_obstacles_where_they_have_come_to(robot: Quadrotor) -> None:
    crate = Obstacle(name="crate", shape="box", size_m=(0.2, 0.2, 0.2), position_m=(2.0, 0.0, 0.5), mass_kg=1.0)
    engine = built(robot, world=world_with(crate, floor=True))
    ray = np.array([[2.0, 1.0, 0.1]]), np.array([[0.0, -1.0, 0.0]])
    assert engine.cast(0, *ray, 5.0)[0] == np.inf
    for _ in range(1000):
        engine.step()
    assert engine.cast(0, *ray, 5.0)[0] == pytest.approx(0.9, abs=1e-3)
    engine.place(0, body(position=(np.nan, 0.0, 1.0)))
    engine.place(0, body())
    assert engine.cast(0, *ray, 5.0)[0] == pytest.approx(0.9, abs=1e-3)
    engine.reset_world()
    assert engine.cast(0, *ray, 5.0)[0] == np.inf
    engine.close()
