"""Worlds in other programs' hands: MuJoCo's rays and contacts, and SDF read back."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.errors import UserError
from rlstack.robots.mjcf import new_world
from rlstack.sim.obstacle import Obstacle
from rlstack.sim.world import Wind, World, load_world, world_names
from rlstack.sim.world_export import add_to_mujoco, to_sdf

mujoco = pytest.importorskip("mujoco")

CRATE = Obstacle(
    name="crate", shape="box", size_m=(0.6, 0.4, 0.3), position_m=(1.0, 2.0, 0.9), yaw_rad=0.7, mass_kg=3.0
)
DRUM = Obstacle(name="drum", shape="cylinder", size_m=(0.5, 0.5, 0.8), position_m=(-1.0, 0.0, 0.6), mass_kg=5.0)
BALL = Obstacle(name="ball", shape="sphere", size_m=(0.3, 0.3, 0.3), position_m=(0.0, -1.0, 1.0), mass_kg=0.4)
TABLE = Obstacle(name="table", shape="box", size_m=(2.0, 2.0, 0.5), position_m=(1.0, 2.0, 0.25), colour=(0.1, 0.2, 0.3))
LOOSE = World(
    name="a/b/loose things.yaml",
    seed=0,
    floor=True,
    obstacles=(CRATE, DRUM, BALL, TABLE),
    bounds_m=((-3.0, -3.0, 0.0), (3.0, 3.0, 3.0)),
    starts_m=((0.0, 0.0, 0.0),),
    wind=Wind(velocity_m_s=(1.5, 0.0, -0.25)),
)


def compiled(world: World) -> tuple[Any, Any]:
    spec = new_world(floor=world.floor)
    add_to_mujoco(spec, world)
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


def mujoco_rays(model: Any, data: Any, origins: np.ndarray, directions: np.ndarray) -> np.ndarray:
    found = np.zeros(1, np.int32)
    reach = np.array([mujoco.mj_ray(model, data, o, d, None, 1, -1, found) for o, d in zip(origins, directions)])
    return np.where(reach < 0.0, np.inf, reach)


@pytest.mark.parametrize("name", [*world_names(), "loose"])
@settings(deadline=None, max_examples=6)
@given(seed=st.integers(0, 2**32))
def test_rays_end_where_mujocos_do(name: str, seed: int) -> None:
    world = LOOSE if name == "loose" else load_world(f"{name}:{seed % 100}")
    rng = np.random.default_rng(seed)
    origins = rng.uniform(*world.bounds_m, (400, 3))
    directions = rng.normal(size=(400, 3))
    directions[:80, 2] = 0.0
    directions[80:100, 1:] = directions[100:120, :2] = 0.0
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    expected = mujoco_rays(*compiled(world), origins, directions)
    far_m = 150.0  # MuJoCo's floor ends 200 m from the origin
    expected[expected > far_m] = np.inf
    # MuJoCo lets a ray that passes a box's edge by a micrometre through to the next surface
    np.testing.assert_allclose(world.cast(origins, directions, far_m), expected, rtol=0.0, atol=1e-5)
    assert np.isfinite(expected).any()


def test_static_obstacles_are_of_the_world_and_loose_ones_fall() -> None:
    model, data = compiled(LOOSE)
    assert model.geom("world/table").bodyid[0] == 0 and model.geom("world/table").rgba == pytest.approx(
        [0.1, 0.2, 0.3, 1]
    )
    assert [model.body(f"world/{n}").mass[0] for n in ("crate", "drum", "ball")] == pytest.approx([3.0, 5.0, 0.4])
    for o in (CRATE, DRUM, BALL):
        w, x, y, z = data.body(f"world/{o.name}").xquat
        assert data.body(f"world/{o.name}").xpos == pytest.approx(o.position_m)
        assert (2.0 * math.atan2(z, w), x, y) == pytest.approx((o.yaw_rad, 0.0, 0.0))
    while data.time < 2.0:
        mujoco.mj_step(model, data)
    heights = [data.body(f"world/{n}").xpos[2] for n in ("crate", "drum", "ball")]
    assert heights == pytest.approx([0.5 + 0.15, 0.4, 0.15], abs=0.01), "on the table and on the floor"


def test_a_world_is_added_once() -> None:
    spec = new_world()
    add_to_mujoco(spec, LOOSE)
    with pytest.raises(UserError, match=r"a part called 'world/crate' already"):
        add_to_mujoco(spec, LOOSE)


def test_a_mujoco_model_is_neither_added_nor_written(tmp_path: Path) -> None:
    path = tmp_path / "mine.xml"
    path.write_text("<mujoco/>")
    with pytest.raises(UserError, match="cannot be added to another"):
        add_to_mujoco(new_world(), load_world(path))
    with pytest.raises(UserError, match="only MuJoCo reads"):
        to_sdf(load_world(path))


@pytest.mark.parametrize("name", [*world_names(), "loose"])
def test_sdf_reads_back_as_the_same_obstacles(name: str) -> None:
    world = LOOSE if name == "loose" else load_world(name)
    root = Xml.fromstring(to_sdf(world))
    assert root.tag == "sdf" and root.get("version") == "1.9"
    (top,) = root
    models = {model.get("name"): model for model in top.iter("model")}
    assert len(models) == len(list(top.iter("model"))), "names are unique"
    links = {link.get("name"): link for link in models.get("obstacles", [])}
    read = []
    for o in world.obstacles:
        if o.mass_kg:
            posed, link = models[o.name], models[o.name].find("link")
            assert posed.find("static") is None
        else:
            posed = link = links[o.name]
            assert models["obstacles"].findtext("static") == "true"
        shapes = [read_shape(link.find(f"{part}/geometry")) for part in ("collision", "visual")]
        assert shapes[0] == shapes[1]
        x, y, z, roll, pitch, yaw = numbers(posed, "pose")
        assert (roll, pitch) == (0.0, 0.0)
        colour = tuple(numbers(link, "visual/material/diffuse"))
        assert colour == (*o.colour, 1.0)
        mass = float(link.findtext("inertial/mass") or 0.0)
        read.append(
            Obstacle(
                name=o.name,
                shape=shapes[0][0],
                size_m=shapes[0][1],
                position_m=(x, y, z),
                yaw_rad=yaw,
                colour=o.colour,
                mass_kg=mass,
            )
        )
    assert tuple(read) == world.obstacles
    assert ("floor" in models) == world.floor


def numbers(element: Xml.Element, path: str) -> list[float]:
    return [float(word) for word in (element.findtext(path) or "").split()]


def read_shape(geometry: Xml.Element) -> tuple[str, tuple[float, float, float]]:
    (shape,) = geometry
    if shape.tag == "box":
        x, y, z = numbers(shape, "size")
        return "box", (x, y, z)
    diameter = 2.0 * numbers(shape, "radius")[0]
    return shape.tag, (diameter, diameter, numbers(shape, "length")[0] if shape.tag == "cylinder" else diameter)


@pytest.mark.parametrize("obstacle", [CRATE, DRUM, BALL], ids=lambda o: o.name)
def test_inertia_in_sdf_is_mujocos(obstacle: Obstacle) -> None:
    model, _ = compiled(dataclasses.replace(LOOSE, obstacles=(obstacle,)))
    inertia = Xml.fromstring(to_sdf(LOOSE)).find(f".//model[@name='{obstacle.name}']/link/inertial/inertia")
    assert inertia is not None
    moments = [float(inertia.findtext(axis) or "nan") for axis in ("ixx", "iyy", "izz")]
    assert sorted(moments) == pytest.approx(sorted(model.body(f"world/{obstacle.name}").inertia))
    assert all(float(inertia.findtext(axis) or "nan") == 0.0 for axis in ("ixy", "ixz", "iyz"))


def test_the_sdf_world_has_a_plain_name_and_its_wind() -> None:
    (top,) = Xml.fromstring(to_sdf(LOOSE))
    assert top.get("name") == "loose_things"
    assert numbers(top, "wind/linear_velocity") == [1.5, 0.0, -0.25]
    assert numbers(top, "gravity") == [0.0, 0.0, -9.81]
    (plain,) = Xml.fromstring(to_sdf(dataclasses.replace(LOOSE, wind=None, floor=False)))
    assert plain.find("wind") is None and plain.find("model[@name='floor']") is None
