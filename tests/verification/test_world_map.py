from __future__ import annotations

import io
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.sim.obstacle import Obstacle
from rlstack.sim.world import Wind, World, load_world, world_names
from rlstack.verification.world_map import describe_world, draw_world

image = pytest.importorskip("matplotlib.image")

BLUE, RED, GREEN = (0.0, 0.0, 1.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)


def pixels(png: bytes) -> np.ndarray:
    """Return a picture as (height, width, 3), 0 to 1."""
    return image.imread(io.BytesIO(png), format="png")[..., :3]


def middle(picture: np.ndarray, colour: tuple[float, float, float]) -> np.ndarray:
    """Return the middle x, y of all pixels of a colour; x to the right, y up."""
    rows, columns = np.nonzero(np.abs(picture - colour).max(axis=2) < 0.02)
    assert len(rows), f"nothing is {colour}"
    return np.array([columns.mean(), -rows.mean()])


def box(name: str, x: float, y: float, z: float, colour: tuple[float, float, float], **more: float) -> Obstacle:
    return Obstacle(name=name, shape="box", size_m=(2.0, 1.0, 0.5), position_m=(x, y, z), colour=colour, **more)


def small(*obstacles: Obstacle, **more: object) -> World:
    bounds = ((-5.0, -4.0, 0.0), (5.0, 4.0, 3.0))
    given = {"floor": True, "bounds_m": bounds, "starts_m": ((0.0, 0.0, 0.0),), **more}
    return World(name="small", seed=0, obstacles=obstacles, **given)  # type: ignore[arg-type]


def test_the_map_has_x_to_the_right_and_y_up_on_one_scale() -> None:
    corner, east, north = (
        box("g", -3.0, -3.0, 0.25, GREEN),
        box("b", 3.0, -3.0, 0.25, BLUE),
        box("r", -3.0, 3.0, 0.25, RED),
    )
    picture = pixels(draw_world(small(corner, east, north), dpi=80))
    right, up = (middle(picture, colour) - middle(picture, GREEN) for colour in (BLUE, RED))
    assert right[0] > 200 and up[1] > 200
    assert right[0] == pytest.approx(up[1], abs=2) and abs(right[1]) < 2 and abs(up[0]) < 2


def test_what_is_overhead_does_not_hide_what_is_below_and_the_higher_hides_the_lower() -> None:
    below, above = box("b", 2.0, 2.0, 0.25, BLUE), box("r", 2.0, 2.0, 2.5, RED)
    picture = pixels(draw_world(small(below, above), dpi=80))
    middle(picture, BLUE)
    assert not (np.abs(picture - RED).max(axis=2) < 0.02).any()
    stacked = pixels(draw_world(small(box("r", 2.0, 2.0, 0.75, RED), below), dpi=80))
    middle(stacked, RED)
    assert not (np.abs(stacked - BLUE).max(axis=2) < 0.02).any()


@pytest.mark.parametrize("name", world_names())
def test_every_world_is_drawn_without_warnings_and_the_same_each_time(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        png = draw_world(world := load_world(name), dpi=50)
    assert png == draw_world(load_world(world.title), dpi=50)
    assert png != draw_world(load_world(f"{name}:1"), dpi=50)
    height, width, _ = pixels(png).shape
    assert width == 400 and 150 < height < 900


def test_the_table_says_what_there_is() -> None:
    crates = (box("crate_1", 2.0, 1.0, 0.25, BLUE), box("crate_2", -2.0, 1.0, 0.75, BLUE))
    ball = Obstacle(name="ball", shape="sphere", size_m=(0.4,) * 3, position_m=(0.0, 3.0, 0.2), mass_kg=0.5)
    world = small(
        *crates, ball, wind=Wind(velocity_m_s=(2.0, 0.0, 0.0), turbulence="light"), physics={"downwash": False}
    )
    text = describe_world(world)
    assert text.startswith("world small:0\n")
    assert "10 x 8 x 3 m, (-5, -4, 0) to (5, 4, 3)" in text
    assert "(2, 0, 0) m/s, turbulence: light" in text and "downwash off" in text
    rows = {line.split("  ")[1]: " ".join(line.split()) for line in text.splitlines() if line.startswith("  ")}
    assert rows["crate"] == "crate 2 box 2 1 0.5 0 to 0.5"
    assert rows["ball, can move"] == "ball, can move 1 sphere 0.4 0.4 0"


@pytest.mark.parametrize("name", world_names())
def test_the_table_of_every_world_fits_a_terminal_and_counts_all(name: str) -> None:
    world = load_world(name)
    text = describe_world(world)
    assert max(map(len, text.splitlines())) <= 110
    first = "the first the map's own" if world.floor_map else "the first at the origin"
    assert f"{len(world.starts_m)}, {first}" in text
    rows = text.partition("obstacles, m\n")[2].splitlines()[1:]
    counts = [int(word) for row in rows for word in [row[2:].split("  ", 1)[1].split()[0]]]
    assert sum(counts) == len(world.obstacles)


def test_a_mujoco_model_is_described_and_not_drawn(tmp_path: Path) -> None:
    path = tmp_path / "mine.xml"
    path.write_text("<mujoco/>")
    world = load_world(path)
    assert f"{path}, for MuJoCo alone" in describe_world(world)
    with pytest.raises(UserError, match=r"Only MuJoCo can display .*: open it in MuJoCo's viewer"):
        draw_world(world)


def test_without_matplotlib_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=r"rlstack\[view\]"):
        draw_world(small())
