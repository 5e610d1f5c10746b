"""What slides: along its rails alone, as far as they go, against their friction; its parts with it; in each engine."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack import schema
from rlstack.errors import UserError
from rlstack.interfaces.backend import BACKENDS
from rlstack.robots import frames, load_robot
from rlstack.robots.mjcf import new_world
from rlstack.sim.obstacle import Obstacle, Slide, parts_of, seen_from, slid
from rlstack.sim.world import World, load_world
from rlstack.sim.world_export import add_to_mujoco, to_sdf
from rlstack.verification.world_map import describe_world
from tests.support import docs
from tests.support.isaacsim_standin.process import standing_in

ENGINES = ("mujoco", *(("pybullet",) if sys.version_info < (3, 12) else ()))
Point = tuple[float, float, float]
SLOPE, MASS, FRICTION, DAMPING, TRAVEL = 0.5, 2.0, 4.0, 3.0, 0.3
STEP = Slide(direction=(2.0, 0.0, 0.0), travel_m=0.2, friction_n=1.0)
CHUTE = Slide(
    direction=(3.0 * math.cos(SLOPE), 0.0, -3.0 * math.sin(SLOPE)),
    travel_m=TRAVEL,
    friction_n=FRICTION,
    damping_n_s_per_m=DAMPING,
)
SLED = Obstacle(
    name="sled",
    shape="box",
    size_m=(0.2, 0.2, 0.1),
    position_m=(0.0, 2.0, 1.0),
    yaw_rad=0.4,
    mass_kg=MASS,
    slide=CHUTE,
)
FLAG = Obstacle(name="flag", shape="sphere", size_m=(0.1,) * 3, position_m=(0.0, 2.0, 1.5), part_of="sled")
POST = replace(SLED, name="post", mass_kg=0.0, slide=None, position_m=(0.05, 2.0, 1.0))  # in the way, and fixed
GATE = Obstacle(
    name="gate",
    shape="box",
    size_m=(0.05, 0.4, 0.2),
    position_m=(0.25, 0.0, 0.1),
    mass_kg=0.2,
    friction=0.3,
    slide=STEP,
)


def world_of(*obstacles: Obstacle) -> World:
    far = ((-9.0, -9.0, 0.0), (9.0, 9.0, 3.0))
    return World(name="rails", seed=0, floor=True, obstacles=obstacles, bounds_m=far, starts_m=((0.0, 0.0, 0.0),))


def made(engine: str, *obstacles: Obstacle, rate_hz: float = 500.0) -> Any:
    robot = load_robot("turtlebot3_burger")
    backend = BACKENDS.load(engine)(robot, world=world_of(*obstacles), physics_rate_hz=rate_hz)
    backend.connect()
    return backend


@pytest.mark.parametrize("name", ENGINES)
def test_it_slides_down_by_the_formula_with_its_parts_and_through_what_is_fixed(name: str) -> None:
    backend = made(name, FLAG, SLED, POST)
    engine, down = backend.simulation.engine, frames.rotate(frames.from_yaw(0.4), np.array(CHUTE.axis))
    try:
        pull, tau = MASS * 9.81 * math.sin(SLOPE) - FRICTION, MASS / DAMPING
        for at_s in (0.2, 0.35):
            backend.step(at_s - backend.simulation.time_s)
            gone = pull / DAMPING * (at_s - tau * (1.0 - math.exp(-at_s / tau)))
            place, turn = engine.obstacle_pose("sled")
            np.testing.assert_allclose(place, np.array(SLED.position_m) + gone * down, atol=2e-3)
            np.testing.assert_allclose(turn, frames.from_yaw(0.4), atol=1e-9)
            flag = np.array(FLAG.position_m) + gone * down
            met = engine.cast(0, np.array([[*flag[:2], 2.5]]), np.array([[0.0, 0.0, -1.0]]), 5.0)
            assert met[0] == pytest.approx(2.5 - flag[2] - 0.05, abs=4e-3), "its part is where it is"
        backend.step(1.0)
        np.testing.assert_allclose(engine.obstacle_pose("sled")[0], SLED.position_m + TRAVEL * down, atol=5e-3)
        backend.reset()
        np.testing.assert_allclose(engine.obstacle_pose("sled")[0], SLED.position_m, atol=1e-12)
        with pytest.raises(ValueError, match="'flag' is not allowed: the obstacles that can be pushed: \\['sled'\\]"):
            engine.obstacle_pose("flag")
    finally:
        backend.close()


@pytest.mark.parametrize("name", ENGINES)
def test_rails_hold_what_is_pulled_less_and_a_robot_pushes_it_to_their_end(name: str) -> None:
    held = replace(SLED, slide=replace(CHUTE, friction_n=1.05 * MASS * 9.81 * math.sin(SLOPE)))
    backend = made(name, held, GATE, rate_hz=250.0)
    engine = backend.simulation.engine
    try:
        backend.write({"twist": np.array([0.2, 0.0])})
        backend.step(1.2)
        assert np.linalg.norm(engine.obstacle_pose("sled")[0] - SLED.position_m) < 1e-3
        place, turn = engine.obstacle_pose("gate")
        assert 0.01 < place[0] - 0.25 < 0.06 and place[1:] == pytest.approx([0.0, 0.1], abs=1e-9)
        np.testing.assert_allclose(turn, [0.0, 0.0, 0.0, 1.0], atol=1e-12)
        backend.step(1.3)
        assert engine.obstacle_pose("gate")[0][0] == pytest.approx(0.45, abs=0.02), "there the rails end"
        assert backend.read().signals["position"][0] < 0.42
    finally:
        backend.close()


@settings(deadline=None, max_examples=15)
@given(
    yaw=st.floats(-4.0, 4.0),
    other=st.floats(-4.0, 4.0),
    at=st.tuples(*[st.floats(-5.0, 5.0)] * 3),
    part_at=st.tuples(*[st.floats(-5.0, 5.0)] * 3),
    direction=st.tuples(*[st.floats(-1.0, 1.0)] * 3).filter(lambda d: math.hypot(*d) > 1e-3),
    travelled=st.floats(-1.0, 1.0),
)
def test_parts_are_where_they_stand_and_slides_go_straight(
    yaw: float, other: float, at: Point, part_at: Point, direction: Point, travelled: float
) -> None:
    body = replace(SLED, position_m=at, yaw_rad=yaw, slide=replace(CHUTE, direction=direction))
    part = replace(FLAG, position_m=part_at, yaw_rad=other)
    place, turned = seen_from(body, part)
    np.testing.assert_allclose(frames.rotate(frames.from_yaw(yaw), place) + at, part_at, atol=1e-9)
    assert turned + yaw == pytest.approx(other)
    there, turn = slid(body, travelled)
    along = frames.rotate_inverse(turn, there - np.array(at))
    np.testing.assert_allclose(along * math.hypot(*direction), travelled * np.array(direction), atol=1e-9)


PLAIN = {"name": "a", "shape": "box", "size_m": [1.0, 1.0, 1.0], "position_m": [0.0, 0.0, 1.0]}
RAILS = {"direction": [1.0, 0.0, 0.0], "travel_m": 0.2}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"slide": RAILS}, r"mass_kg: 0 is not allowed with slide: give the mass"),
        ({"slide": {**RAILS, "direction": [0, 0, 0]}}, r"slide: direction: \[0.0, 0.0, 0.0\] .* must not be zero"),
        ({"slide": {**RAILS, "travel_m": 0}}, r"slide.travel_m: 0.0 is not allowed: must be above 0.0 m"),
        ({"slide": {"direction": [1, 0, 0]}}, r"slide.travel_m' is missing \(unit: m\)"),
        ({"part_of": "b", "mass_kg": 1.0}, r"part_of: 'b' is not allowed with mass_kg, kinematic or slide"),
        ({"part_of": "b", "kinematic": True}, r"part_of: 'b' is not allowed with"),
    ],
)
def test_what_moves_in_no_way_or_two_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        schema.load(Obstacle, {**PLAIN, **change}, "world.yaml")


def test_a_part_of_nothing_that_slides_is_refused_where_it_is_read_and_where_it_is_built(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(
        "generator: empty\nobstacles:\n"
        "- {name: flag, shape: sphere, size_m: [0.1, 0.1, 0.1], position_m: [1, 1, 1], part_of: sledge}\n"
    )
    with pytest.raises(UserError, match=r"w.yaml: 'flag' is part_of 'sledge', which is not a sliding .*none\)"):
        load_world(file)
    with pytest.raises(UserError, match="'flag' is part_of 'sled', which is not a sliding obstacle"):
        add_to_mujoco(new_world(), world_of(FLAG, POST))
    assert parts_of((FLAG, SLED, GATE), "") == {"sled": (FLAG,), "gate": ()}


def test_what_cannot_have_it_says_so_and_the_table_shows_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="sled slides, which SDF export does not support"):
        to_sdf(world_of(SLED, FLAG))
    with standing_in(monkeypatch, tmp_path), pytest.raises(UserError, match=r"sled slides.* supported in Isaac Sim"):
        made("isaac", SLED)
    told = describe_world(world_of(SLED, FLAG))
    assert "sled, slides 0.3 m" in told and "flag, part of sled" in told


def test_the_drawer_of_the_documentation_is_one(tmp_path: Path) -> None:
    (text,) = (block for block in docs.blocks("docs/arms.md", "yaml") if "slide" in block)
    (tmp_path / "drawer.yaml").write_text(text)
    world = load_world(tmp_path / "drawer.yaml")
    tab, front, cabinet = world.obstacles
    assert tab.name == "object" and tab.slide is not None and front.part_of == "object" and not cabinet.can_move
    face = front.position_m[0] - front.size_m[0] / 2.0, front.position_m[0] + front.size_m[0] / 2.0
    assert tab.position_m[0] + tab.size_m[0] / 2.0 == pytest.approx(face[0]), "on its front"
    assert cabinet.position_m[0] - cabinet.size_m[0] / 2.0 == pytest.approx(face[1]), "closed"
