"""Maps as worlds: the same for the batch simulator and for every engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.resources import list_resources
from rlstack.robots.mjcf import new_world
from rlstack.sim.maps.floor_map import FloorMap
from rlstack.sim.maps.generate import HELD_OUT_SEEDS, draw_map, most_circles
from rlstack.sim.maps.generators import MAP_GENERATORS
from rlstack.sim.maps.pool import pool_of
from rlstack.sim.world import load_world, read_world
from rlstack.sim.world_export import add_to_mujoco
from rlstack.sim.world_generators.floor_map import world_of
from rlstack.verification.world_map import describe_world

EACH = pytest.mark.parametrize("kind", MAP_GENERATORS.names())


def batch_rays(drawn: FloorMap, origins: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """Return how far level rays go by the arrays of the batch simulator, along each box's and circle's outline."""
    pool = pool_of([drawn], circles=most_circles([drawn.kind]), fields=False)
    ux, uy = np.cos(angles), np.sin(angles)
    reach = np.full(len(angles), np.inf)
    for cx, cy, c, s, half_x, half_y in pool.boxes[0].reshape(-1, 6).astype(float):
        corners = [(cx + c * a - s * b, cy + s * a + c * b) for a, b in
                   ((half_x, half_y), (-half_x, half_y), (-half_x, -half_y), (half_x, -half_y))]  # fmt: skip
        for (ax, ay), (bx, by) in zip(corners, corners[1:] + corners[:1]):
            across = ux * (by - ay) - uy * (bx - ax)
            px, py = ax - origins[:, 0], ay - origins[:, 1]
            with np.errstate(divide="ignore", invalid="ignore"):
                far, share = (px * (by - ay) - py * (bx - ax)) / across, (px * uy - py * ux) / across
            hit = (across != 0.0) & (far >= 0.0) & (share >= 0.0) & (share <= 1.0)
            reach = np.where(hit, np.minimum(reach, far), reach)
    for cx, cy, radius, _, _ in pool.circles[0].reshape(-1, 5).astype(float):
        px, py = origins[:, 0] - cx, origins[:, 1] - cy
        b = px * ux + py * uy
        under = b * b - (px * px + py * py - radius * radius)
        with np.errstate(invalid="ignore"):
            far = -b - np.sqrt(under)
        reach = np.where((under >= 0.0) & (far >= 0.0), np.minimum(reach, far), reach)
    return reach


def scan(drawn: FloorMap, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return origins (N, 3) off obstacles, angles and directions (N, 3) of level rays."""
    rng = np.random.default_rng(0)
    places = rng.uniform(-3.9, 3.9, (4 * count, 2))
    places = places[drawn.distance(places) > 0.02][:count]
    angles = rng.uniform(-np.pi, np.pi, len(places))
    directions = np.stack([np.cos(angles), np.sin(angles), np.zeros(len(angles))], axis=1)
    return np.column_stack([places, np.full(len(places), 0.2)]), angles, directions


@EACH
def test_lidars_see_in_mujoco_and_in_the_batch_simulator_the_same(kind: str) -> None:
    mujoco = pytest.importorskip("mujoco")
    drawn = draw_map(kind, 1_000_007, 0.9)
    world = world_of(drawn)
    spec = new_world()
    add_to_mujoco(spec, world)
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    origins, angles, directions = scan(drawn, 400)
    hit = np.zeros(1, np.int32)
    there = [mujoco.mj_ray(model, data, o, d, None, 1, -1, hit) for o, d in zip(origins, directions)]
    here = batch_rays(drawn, origins, angles)
    assert np.isfinite(here).all(), "outer walls close the floor"
    close = np.isclose(there, here, rtol=0.0, atol=1e-4)
    assert close.mean() > 0.995, "float32 places may miss an edge by a micrometre"
    np.testing.assert_allclose(world.cast(origins, directions), there, atol=1e-6)


@pytest.mark.parametrize("kind", ["clutter", "dead_ends"])
def test_lidars_see_in_pybullet_and_in_the_batch_simulator_the_same(kind: str) -> None:
    pytest.importorskip("pybullet", reason="PyBullet has wheels up to Python 3.11 only")
    from tests.support.bullet import body, built

    drawn = draw_map(kind, 1_000_007, 0.9)
    engine = built(load_quadrotor("crazyflie"), world=world_of(drawn))
    engine.place(0, body((0.0, 0.0, 50.0)))
    origins, angles, directions = scan(drawn, 400)
    there = engine.cast(0, origins, directions, 20.0)
    # PyBullet rounds edges by 1 mm
    assert np.isclose(there, batch_rays(drawn, origins, angles), rtol=0.0, atol=2e-3).mean() > 0.99


@EACH
def test_a_world_by_name_is_the_map_of_its_seed(kind: str) -> None:
    world = load_world(f"{kind}:1000007")
    drawn = draw_map(kind, 1_000_007)
    assert world.floor_map is not None and world.obstacles == world_of(drawn).obstacles
    np.testing.assert_array_equal(world.floor_map.goal, drawn.goal)
    assert world.starts_m[0] == (*drawn.start[:2], 0.0) and len(world.starts_m) >= 2
    assert all(world.free((x, y, 0.3), 0.12) for x, y, _ in world.starts_m)
    assert load_world(world.title) == world and world.title == f"{kind}:1000007"
    file = read_world(list_resources("sim", ".yaml")[kind])
    assert file.seed in HELD_OUT_SEEDS and file.settings["kind"] == kind
    assert {o.highest_m for o in world.obstacles} == {0.6}


def test_settings_may_follow_the_seed() -> None:
    world = load_world("rooms:5:difficulty=0.9,radius_m=0.6")
    assert world.floor_map is not None and (world.floor_map.difficulty, world.floor_map.radius_m) == (0.9, 0.6)
    assert world.bounds_m[1][0] == pytest.approx(12.0), "a larger robot has a larger floor"
    again = world_of(draw_map("rooms", 5, 0.9, 0.6))
    assert again.title == world.title and again.obstacles == world.obstacles == load_world(again.title).obstacles
    wide = load_world("corridors:5:size_m=[12, 6],at_least_m=7")
    assert wide.bounds_m[1][:2] == (6.0, 3.0) and wide.floor_map is not None and wide.floor_map.shortest_m >= 7.0
    assert len(load_world("warehouse:7:levels=1").obstacles) < len(load_world("warehouse:7").obstacles)
    assert "difficulty  0.9, for a robot of radius 0.6 m" in describe_world(world)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("clutter:difficulty=1", "World 'clutter:difficulty=1': write settings after a seed, as in 'clutter:7:diff"),
        ("clutter:7:difficulty=[", "write settings after a seed"),
        ("clutter:7:dificulty=1", "World 'clutter:7:dificulty=1': settings: Unknown key 'dificulty'. Nearest: diff"),
        ("clutter:7:difficulty=2", "settings: difficulty: 2.0 is not allowed: must be at most 1"),
        ("clutter:7:kind=clatter", "Unknown kind of map 'clatter'. Nearest: clutter"),
        ("forest:7:difficulty=1", "Unknown key 'difficulty'"),
    ],
)
def test_settings_that_are_not_allowed_are_refused(text: str, said: str) -> None:
    with pytest.raises(UserError) as refused:
        load_world(text)
    assert said in str(refused.value)


def test_a_map_cannot_be_added_to(tmp_path: Path) -> None:
    for more in (
        "starts: {count: 3}",
        "obstacles: [{name: a, shape: box, size_m: [1, 1, 1], position_m: [0, 0, 0.5]}]",
    ):
        path = tmp_path / "mine.yaml"
        path.write_text(f"generator: floor_map\n{more}\n")
        with pytest.raises(UserError, match="leave out 'obstacles' and 'starts'"):
            load_world(path)
