"""The engine on the stand-in: what the conformance suite, which flies one robot in an empty world, does not reach."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.robots import RobotSpec, load_robot
from rlstack.robots.sensing import Camera
from rlstack.sim.backends.isaac import IsaacEngine, application
from rlstack.sim.engine import BODY_ROWS, Scene
from rlstack.sim.obstacle import Obstacle
from rlstack.sim.simulation import Simulation
from rlstack.sim.world import World
from tests.support.isaacsim_standin import Kit

STEP_S = 1e-3
WALL = Obstacle(name="wall", shape="box", size_m=(0.2, 4.0, 4.0), position_m=(2.1, 0.0, 2.0), colour=(0.0, 0.0, 1.0))


@pytest.fixture(scope="module")
def robot() -> Quadrotor:
    return load_quadrotor("crazyflie")


def walled() -> World:
    bounds = ((-5.0, -5.0, 0.0), (5.0, 5.0, 4.0))
    return World(name="walled", seed=0, floor=True, obstacles=(WALL,), bounds_m=bounds, starts_m=((0.0, 0.0, 0.0),))


def engine(robots: list[RobotSpec], **scene: Any) -> IsaacEngine:
    return IsaacEngine(Scene(tuple(robots), STEP_S, **scene))


def at(x: float, y: float, z: float, **motion: tuple[float, float, float]) -> np.ndarray:
    """Return a level body's state (13,)."""
    linear, angular = motion.get("linear", (0.0, 0.0, 0.0)), motion.get("angular", (0.0, 0.0, 0.0))
    return np.array([x, y, z, 0.0, 0.0, 0.0, 1.0, *linear, *angular])


def states(made: IsaacEngine, count: int) -> np.ndarray:
    rows = np.empty((BODY_ROWS, count))
    made.refresh(rows)
    return rows


def test_sixteen_keep_their_order_and_their_files(kit: Kit):
    robots: list[RobotSpec] = [load_robot(("crazyflie", "x500")[k % 2]) for k in range(16)]
    made = engine(robots)
    for index, one in enumerate(robots):
        assert isinstance(one, Quadrotor)
        held = made.mass_properties(index)
        assert held.mass_kg == pytest.approx(one.body.mass_kg)
        np.testing.assert_allclose(held.inertia_kg_m2, np.diag(one.body.inertia_kg_m2), rtol=1e-6)
        np.testing.assert_array_equal(held.centre_m, np.zeros(3))
        made.place(index, at(0.5 * index, -index, 2.0, angular=(0.0, 0.0, float(index))))
        assert made.joint_names(index) == ()
    rows = states(made, 16)
    np.testing.assert_allclose(rows[0], 0.5 * np.arange(16), atol=1e-6)
    np.testing.assert_allclose(rows[12], np.arange(16), atol=1e-5)


def test_a_push_acts_in_the_world_and_a_twist_in_the_body(kit: Kit, robot: Quadrotor):
    made = engine([robot])
    turned = at(0.0, 0.0, 2.0)
    turned[3:7] = np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)  # rolled by 90 degrees: its y is the world's z
    made.place(0, turned)
    inertia = np.array(robot.body.inertia_kg_m2)
    push = np.array([[0.1], [0.0], [robot.weight_n]])
    made.push(push, (np.array([0.0, 1.0, 0.0]) * inertia)[:, None])
    made.step()
    row = states(made, 1)[:, 0]
    np.testing.assert_allclose(row[7:10], [0.1 / robot.body.mass_kg * STEP_S, 0.0, 0.0], atol=1e-7)
    np.testing.assert_allclose(row[10:13], [0.0, STEP_S, 0.0], atol=1e-8)
    np.testing.assert_allclose(kit.physics.velocity[0, 3:], [0.0, 0.0, STEP_S], atol=1e-8)


@pytest.mark.parametrize("isolated", [False, True])
def test_robots_meet_unless_they_are_isolated(kit: Kit, robot: Quadrotor, isolated: bool):
    made = engine([robot, robot], isolated=isolated)
    for index, (x, towards) in enumerate([(-0.1, 1.0), (0.1, -1.0)]):
        made.place(index, at(x, 0.0, 2.0, linear=(towards, 0.0, 0.0)))
    touched = False
    for _ in range(150):
        made.step()
        touched |= made.touching(0) or made.touching(1)
    passed = states(made, 2)[0, 0] > states(made, 2)[0, 1]
    assert (touched, bool(passed)) == (not isolated, isolated)


def test_the_world_is_there_to_hit_to_see_and_to_measure(kit: Kit, robot: Quadrotor):
    made = engine([robot, robot], world=walled())
    made.place(0, at(1.0, 0.0, 1.0))
    made.place(1, at(1.5, 0.0, 1.0))
    origins, directions = (
        np.tile([1.0, 0.0, 1.0], (3, 1)),
        np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, -1.0]]),
    )
    reach = made.cast(0, origins, directions, 10.0)
    np.testing.assert_allclose(reach, [0.5 - robot.body.collision_radius_m, np.inf, 1.0], atol=1e-4)
    made.place(1, at(-1.0, 2.0, 1.0))
    np.testing.assert_allclose(made.cast(0, origins[:1], directions[:1], 10.0), [1.0], atol=1e-4)
    made.place(0, at(1.9, 0.0, 1.0, linear=(2.0, 0.0, 0.0)))
    hit = False
    for _ in range(100):
        made.step()
        hit |= made.touching(0)
    assert hit
    assert states(made, 2)[0, 0] < 2.0


def test_isolated_robots_are_not_in_each_others_rays(kit: Kit, robot: Quadrotor):
    made = engine([robot, robot], world=walled(), isolated=True)
    made.place(0, at(1.0, 0.0, 1.0))
    made.place(1, at(1.5, 0.0, 1.0))
    np.testing.assert_allclose(
        made.cast(0, np.array([[1.0, 0.0, 1.0]]), np.array([[1.0, 0.0, 0.0]]), 10.0), [1.0], atol=1e-4
    )


def test_a_camera_of_the_robot_file_sees_colours_and_depth(kit: Kit, robot: Quadrotor):
    made = engine([robot], world=walled())
    camera = Camera(width=32, height=24, rate_hz=10.0, horizontal_fov_rad=1.0, near_m=0.05, far_m=3.0, depth=True)
    forward = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
    view = made.look(np.array([0.0, 0.0, 1.0]), forward, camera, ("rgb", "depth"))
    assert view.rgb is not None and view.depth is not None
    np.testing.assert_array_equal(view.rgb[4, 16], [0, 0, 255])
    assert view.depth[4, 16] == pytest.approx(2.0, abs=1e-4)
    away = made.look(np.array([0.0, 0.0, 1.0]), forward @ np.diag([-1.0, 1.0, -1.0]), camera, ("depth",))
    assert away.rgb is None
    assert away.depth is not None and np.isinf(away.depth[4, 16])  # beyond far_m


def test_without_a_picture_it_says_what_rendering_needs(kit: Kit, robot: Quadrotor, monkeypatch: pytest.MonkeyPatch):
    from tests.support.isaacsim_standin.seeing import Camera as StandInCamera

    made = engine([robot])
    monkeypatch.setattr(StandInCamera, "get_rgb", lambda self, device=None: None)
    camera = Camera(width=8, height=8, rate_hz=10.0, horizontal_fov_rad=1.0)
    with pytest.raises(UserError, match=r"no image.*RTX.*nvidia-smi"):
        made.look(np.zeros(3), np.eye(3), camera, ("rgb",))


def test_a_rate_that_is_not_whole_is_refused(kit: Kit, robot: Quadrotor):
    with pytest.raises(UserError, match=r"physics_rate_hz: 333\.5 is not allowed.*whole number"):
        Simulation(IsaacEngine, [robot], physics_rate_hz=333.5).open()
    assert kit.application is None


@pytest.mark.parametrize(
    ("options", "said"), [({"gpu": True}, "no option gpu.*headless"), ({"headless": "no"}, "headless")]
)
def test_unknown_and_wrong_options_are_refused(kit: Kit, robot: Quadrotor, options: dict[str, Any], said: str):
    with pytest.raises(UserError, match=said):
        engine([robot], options=options)
    assert kit.application is None


def test_options_reach_the_application(kit: Kit, robot: Quadrotor):
    engine([robot], options={"headless": False})
    assert kit.application.config["headless"] is False


def test_what_fails_while_it_is_built_gives_the_world_back(kit: Kit, robot: Quadrotor, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as broken, pytest.raises(ZeroDivisionError):
        broken.setattr("rlstack.sim.backends.isaac.stage.author_quadrotor", lambda *_, **__: 1 / 0)
        engine([robot])
    assert application._tenant is None
    engine([robot]).step()


def test_worlds_come_and_go_in_one_application(kit: Kit, robot: Quadrotor):
    for number in range(3):
        made = engine([robot])
        made.place(0, at(0.0, 0.0, 1.0 + number))
        made.step()
        made.close()
        made.close()
        with pytest.raises(RuntimeError, match="closed"):
            made.step()
    assert kit.names().count("World.__init__") == 3
    assert kit.names().count("SimulationApp.close") == 0
