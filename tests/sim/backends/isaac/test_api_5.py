"""What is called of Isaac Sim 5.x, in which order and with which arrays; pictures and rays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from rlstack.robots import frames
from rlstack.sim.backends.isaac import api_5, convert
from tests.support.isaacsim_standin import Kit

PLACES = np.array([[0.0, 0.0, 5.0], [10.0, 0.0, 5.0]])
PATHS = ["/World/a", "/World/b"]


def author(stage: Any) -> None:
    """Write two bodies of 2 kg, a floor and a red wall at x = 3."""
    from pxr import Gf, UsdGeom, UsdPhysics

    UsdGeom.Xform.Define(stage, "/World")
    for path, place in zip(PATHS, PLACES):
        prim = UsdGeom.Xform.Define(stage, path).GetPrim()
        UsdGeom.Xformable(prim).AddTranslateOp().Set(Gf.Vec3d(*place))
        UsdPhysics.RigidBodyAPI.Apply(prim)
        mass = UsdPhysics.MassAPI.Apply(prim)
        mass.CreateMassAttr(2.0)
        mass.CreateDiagonalInertiaAttr(Gf.Vec3f(0.1, 0.2, 0.3))
        shell = UsdGeom.Sphere.Define(stage, f"{path}/shell")
        shell.CreateRadiusAttr(0.25)
        UsdPhysics.CollisionAPI.Apply(shell.GetPrim())
    wall = UsdGeom.Cube.Define(stage, "/World/wall")
    wall.CreateSizeAttr(2.0)
    wall.CreateDisplayColorAttr([Gf.Vec3f(1.0, 0.0, 0.0)])
    UsdGeom.Xformable(wall).AddTranslateOp().Set(Gf.Vec3d(4.0, 0.0, 5.0))
    UsdPhysics.CollisionAPI.Apply(wall.GetPrim())


@pytest.fixture
def world(kit: Kit) -> api_5.World5:
    made = api_5.World5(api_5.construct(), 500, author)
    made.play(PATHS, PLACES)
    return made


def level() -> np.ndarray:
    return np.array([[1.0, 0.0, 0.0, 0.0]], dtype=np.float32)


def test_the_order_is_the_documented_one(kit: Kit, world: api_5.World5):
    wanted = (
        "Stages.create_new_stage", "World.__init__", "Context.set_gravity", "World.reset", "RigidPrim.initialize",
        "World.add_physics_callback",
    )  # fmt: skip
    names = kit.names()
    places = [names.index(name) for name in wanted]
    assert places == sorted(places)
    assert names.index("SimulationApp.update") < places[3]  # it waited for the stage to load


@pytest.mark.parametrize("rate", [1, 49, 60, 100, 240, 333, 500, 1000, 10000])
def test_the_rate_survives_the_physics_scenes_rounding(rate: int):
    step = api_5.whole_step(rate)
    assert int(1.0 / step) == rate
    assert step == pytest.approx(1.0 / rate, rel=1e-12)


def test_there_are_rates_that_would_be_rounded_down_without_care():
    assert any(int(1.0 / (1.0 / rate)) != rate for rate in range(1, 10000))
    assert all(int(1.0 / api_5.whole_step(rate)) == rate for rate in range(1, 10000))


def test_a_step_is_one_step_and_forces_act_in_it_alone(kit: Kit, world: api_5.World5):
    for index, place in enumerate(PLACES):
        world.place(index, place[None].astype(np.float32), level(), np.zeros((1, 6), np.float32))
    weight = np.zeros((2, 3), np.float32)
    weight[0, 2] = 2.0 * 9.81
    world.push(weight, np.zeros((2, 3), np.float32))
    world.step()
    _, _, velocities = world.states()
    np.testing.assert_allclose(velocities[:, 2], [0.0, -9.81 / 500.0], atol=1e-6)
    world.step()
    _, _, velocities = world.states()
    np.testing.assert_allclose(velocities[:, 2], [-9.81 / 500.0, -2.0 * 9.81 / 500.0], atol=1e-6)
    assert kit.names().count("World.step") == 2
    assert [step["render"] for step in kit.named("World.step")] == [False, False]


def test_a_placed_body_forgets_the_push_before(world: api_5.World5):
    world.push(np.full((2, 3), 1e3, np.float32), np.zeros((2, 3), np.float32))
    for index, place in enumerate(PLACES):
        world.place(index, place[None].astype(np.float32), level(), np.zeros((1, 6), np.float32))
    world.step()
    assert np.abs(world.states()[2]).max() < 0.02


def test_an_application_that_steps_by_itself_is_noticed(kit: Kit, world: api_5.World5, monkeypatch: pytest.MonkeyPatch):
    kind, once = type(kit.world), type(kit.world).step

    def twice(self: Any, render: bool = True) -> None:
        once(self, render=False)
        once(self, render=False)

    monkeypatch.setattr(kind, "step", twice)
    with pytest.raises(RuntimeError, match="took 2 physics steps instead of one"):
        world.step()


def test_another_order_of_the_bodies_is_noticed(kit: Kit):
    made = api_5.World5(api_5.construct(), 500, author)
    with pytest.raises(RuntimeError, match="in another order"):
        made.play(PATHS, PLACES[::-1])


def test_somebody_elses_world_is_left_alone(kit: Kit):
    application = api_5.construct()
    kit.world = object()
    with pytest.raises(RuntimeError, match="not one of rlstack's"):
        api_5.World5(application, 500, author)


def test_mass_and_inertia_of_one_body_are_set_and_read(world: api_5.World5):
    world.set_mass(1, 3.0, np.array([0.4, 0.5, 0.6]))
    for index, (mass, moments) in enumerate([(2.0, (0.1, 0.2, 0.3)), (3.0, (0.4, 0.5, 0.6))]):
        read, centre, inertia = world.mass(index)
        assert read == pytest.approx(mass)
        np.testing.assert_array_equal(centre, np.zeros(3))
        np.testing.assert_allclose(inertia, np.diag(moments), rtol=1e-6)


def test_contact_is_of_the_last_step(world: api_5.World5):
    beside_the_wall = np.array([[2.74, 0.0, 5.0]], dtype=np.float32)
    world.place(0, beside_the_wall, level(), np.array([[10.0, 0, 0, 0, 0, 0]], dtype=np.float32))
    world.step()
    assert world.contact().tolist() == [True, False]
    world.place(0, PLACES[:1].astype(np.float32), level(), np.zeros((1, 6), np.float32))
    world.step()
    assert world.contact().tolist() == [False, False]


# ---- seeing


def optical(yaw_rad: float = 0.0) -> np.ndarray:
    """Return (4,) wxyz of an optical frame that looks along a heading."""
    forward = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
    return convert.wxyz_from_xyzw(frames.multiply(frames.from_yaw(yaw_rad), frames.from_matrix(forward)))


def look(world: api_5.World5, **changes: Any) -> tuple[np.ndarray, np.ndarray]:
    settings = {
        "name": "eye",
        "size": (40, 30),
        "horizontal_fov_rad": 2.0 * math.atan(0.5),
        "clipping_m": (0.05, 50.0),
        "position": np.array([1.0, 0.0, 5.0]),
        "orientation": optical(),
    }
    return world.look(**{**settings, **changes})


def test_a_picture_has_its_rows_down_and_depth_along_the_axis(kit: Kit, world: api_5.World5):
    colours, depths = look(world)
    assert (colours.shape, colours.dtype) == ((30, 40, 3), np.uint8)
    assert (depths.shape, depths.dtype) == ((30, 40), np.float32)
    np.testing.assert_array_equal(colours[15, 20], [255, 0, 0])
    # the wall's near face is 2 m away, flat: depth is the same all over it, and it is 2 m wide in a view of 2 m
    np.testing.assert_allclose(depths, 2.0, atol=1e-5)
    _, depths = look(world, position=np.array([1.0, 0.0, 5.5]))
    assert np.isinf(depths[0]).all()  # above the wall's upper edge: the picture's first row
    assert np.isfinite(depths[-1]).all()
    _, depths = look(world, position=np.array([1.0, 0.5, 5.0]))
    assert np.isinf(depths[15, 0])  # left of the wall's left edge
    assert np.isfinite(depths[15, -1])
    assert {call["camera_axes"] for call in kit.named("Camera.set_world_pose")} == {"ros"}


def test_a_picture_shows_the_present_and_takes_no_physics_step(kit: Kit, world: api_5.World5):
    look(world)
    before = kit.names().count("World.step")
    _, depths = look(world, position=np.array([0.0, 0.0, 5.0]))
    assert depths[15, 20] == pytest.approx(3.0, abs=1e-5)
    assert kit.names().count("World.step") == before
    assert len(kit.cameras) == 1


def test_a_renderer_that_gives_nothing_is_an_error_and_no_hang(kit: Kit, world: api_5.World5):
    look(world)
    type(kit.cameras[0]).get_rgb = lambda self, device=None: None
    with pytest.raises(api_5.NoFrame, match="no image in 30 renderings"):
        look(world)


def test_rays_end_at_the_nearest_that_is_not_unseen(world: api_5.World5):
    origins = np.array([[0.0, 0.0, 5.0], [0.0, 0.0, 5.0], [20.0, 0.0, 5.0], [20.0, 0.0, 5.0]])
    directions = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    np.testing.assert_allclose(world.cast(origins, directions, 30.0, [PATHS[0]]), [3.0, np.inf, 9.75, 9.75], atol=1e-3)
    np.testing.assert_allclose(world.cast(origins, directions, 30.0, PATHS), [3.0, np.inf, 15.0, 15.0], atol=1e-3)
    assert np.isinf(world.cast(origins, directions, 2.0, [PATHS[0]])).all()
    assert np.isfinite(world.cast(origins[:1], directions[:1], 2.0, [])).all()  # from inside of a shape: there
