from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import rlstack.sim.world_generators
from rlstack.errors import UserError
from rlstack.sim.obstacle import Obstacle
from rlstack.sim.world import Wind, World, load_world, world_names
from tests.support import docs

CRATE = Obstacle(name="crate", shape="box", size_m=(1.0, 1.0, 1.0), position_m=(2.0, 0.0, 0.5))
SMALL = World(
    name="small", seed=0, floor=True, obstacles=(CRATE,), bounds_m=((-3.0, -3.0, 0.0), (3.0, 3.0, 2.0)), starts_m=()
)

MINE = """
generator: empty
seed: 4
settings: {size_m: [8, 6, 3]}
obstacles:
- {name: table, shape: box, size_m: [1.2, 0.8, 0.75], position_m: [2, 1, 0.375], yaw_rad: 0.3, colour: [0.6, 0.5, 0.4]}
- {name: ball, shape: sphere, size_m: [0.4, 0.4, 0.4], position_m: [-2, 1, 0.2], mass_kg: 0.5}
wind: {velocity_m_s: [2, 0, 0], turbulence: light}
physics: {ground_effect: true, downwash: false}
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(MINE)
    return path


def test_distance_and_rays_with_the_floor() -> None:
    assert SMALL.distance(np.array([[2.0, 0.0, 1.5], [0.0, 0.0, 0.4], [2.0, 0.0, 0.9]])) == pytest.approx(
        [0.5, 0.4, -0.1]
    )
    origins = np.array([[0.0, 0.0, 0.5]] * 4)
    directions = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -3.0], [0.0, 1.0, 0.0], [2.0, 0.0, 0.0]])
    assert SMALL.cast(origins, directions) == pytest.approx([1.5, 0.5, np.inf, 1.5])
    assert SMALL.cast(origins, directions, far_m=1.0) == pytest.approx([np.inf, 0.5, np.inf, np.inf])


def test_free_is_off_obstacles_and_in_bounds_and_a_floor_may_be_stood_on() -> None:
    assert SMALL.free((0.0, 0.0, 0.0), 1.4) and not SMALL.free((0.0, 0.0, 0.0), 1.6)
    assert not SMALL.free((2.0, 0.0, 0.5), 0.0)
    assert not SMALL.free((0.0, 0.0, -0.1), 0.1) and not SMALL.free((0.0, 3.1, 0.5), 0.1)


def test_arrays_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"points: shape \(1, 2\) is not \(rows, 3\)"):
        SMALL.distance(np.zeros((1, 2)))
    with pytest.raises(ValueError, match="longer than 0"):
        SMALL.cast(np.zeros((1, 3)), np.zeros((1, 3)))


def test_a_name_and_a_seed() -> None:
    plain, zero, seven = (load_world(text) for text in ("forest", "forest:0", "forest:7"))
    assert plain == zero != seven
    assert (seven.name, seven.seed, seven.title) == ("forest", 7, "forest:7")
    assert load_world(seven.title) == seven


def test_a_file_with_obstacles_of_its_own(mine: Path) -> None:
    world = load_world(str(mine))
    assert (world.seed, world.wind) == (4, Wind(velocity_m_s=(2.0, 0.0, 0.0), turbulence="light"))
    assert world.physics == {"ground_effect": True, "downwash": False}
    assert [o.name for o in world.obstacles] == ["table", "ball"]
    assert not world.free((2.0, 1.0, 0.1), 0.0)
    assert all(world.free(p, 0.49) for p in world.starts_m)
    other = load_world(f"{mine}:5")
    assert other.seed == 5 and other.obstacles == world.obstacles and other.starts_m != world.starts_m


def test_worlds_of_another_folder_are_found_by_name(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    share = mine.parent / "share"
    (share / "sim").mkdir(parents=True)
    mine.rename(share / "sim" / "mine.yaml")
    monkeypatch.setenv("RLSTACK_SHARE", str(share))
    assert "mine" in world_names() and "warehouse" in world_names()
    assert load_world("mine:3").title == "mine:3"


def test_a_generator_of_another_package_is_found(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (mine.parent / "worlds_of_a_test.py").write_text(
        "from rlstack.sim.world_generators import WorldGenerator, WorldLayout\n"
        "from rlstack.sim.world_generators.empty import EmptySettings, draw\n"
        "GENERATOR = WorldGenerator(EmptySettings, lambda s, rng: draw(EmptySettings(size_m=(20.0, 20.0, 9.0)), rng))\n"
    )
    info = mine.parent / "worlds_of_a_test-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: worlds-of-a-test\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[rlstack.worlds]\nlarge = worlds_of_a_test:GENERATOR\n")
    monkeypatch.syspath_prepend(mine.parent)
    mine.write_text("generator: large")
    assert load_world(mine).bounds_m[1] == (10.0, 10.0, 9.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "warehose",
            r"Unknown world 'warehose'. Nearest: warehouse, .* Known: chairs, clutter, .*, room, rooms, .*warehouse.",
        ),
        ("house:3", r"Unknown world 'house'. Nearest: warehouse.* Known: chairs, clutter, corridor, .*"),
        (
            "forest:-1",
            r"World 'forest:-1': '-1' is not a seed: must be a whole number, 0 or more, as in 'warehouse:7'.",
        ),
        ("forest:seven", r"World 'forest:seven': 'seven' is not a seed: .*"),
        ("forest:", r"World 'forest:': '' is not a seed: .*"),
        ("nowhere/mine.yaml", r"Cannot read the world nowhere/mine.yaml: .*No such file.*"),
        ("nowhere/mine.xml", r"There is no world nowhere/mine.xml. Worlds that need no file: chairs, clutter, .*"),
    ],
)
def test_a_world_that_is_not_there_is_refused(text: str, said: str) -> None:
    with pytest.raises(UserError) as refused:
        load_world(text)
    assert re.fullmatch(said, str(refused.value))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("generator: empty", "generator: emty"), "Unknown world generator 'emty'. Nearest: empty"),
        (("size_m: [8, 6, 3]", "size: [8, 6, 3]"), "mine.yaml: settings: Unknown key 'size'. Nearest: size_m."),
        (("size_m: [8, 6, 3]", "size_m: [8, 6, -3]"), "settings: size_m: -3.0 is not allowed: must be at least 1.0 m."),
        (("seed: 4", "seed: -4"), "seed: -4 is not allowed: must be at least 0."),
        (("seed: 4", "sed: 4"), "Unknown key 'sed'. Nearest: seed."),
        (("name: ball", "name: table"), "two obstacles are called 'table': rename one."),
        (
            ("[-2, 1, 0.2]", "[-2, 9, 0.2]"),
            "the obstacle 'ball' is outside the world's bounds, (-4, -3, 0) to (4, 3, 3)",
        ),
        (
            ("[-2, 1, 0.2]", "[0.3, 0, 0.2]"),
            "the origin, where the first robot starts, is not 0.5 m from all obstacles",
        ),
        (("turbulence: light", "turbulence: gusty"), "'gusty' is not allowed: one of none, light, moderate, severe."),
        (
            ("ground_effect: true", "ground_effect: 1"),
            "physics.ground_effect: 1 is not allowed: must be true or false.",
        ),
        (("downwash: false", "downwsh: false"), "physics: Unknown physics model 'downwsh'. Nearest: downwash."),
        (("seed: 4", "starts: {count: 500}"), "start places 1 m apart, not 500"),
        (("seed: 4", "seed: [4"), "is not valid YAML"),
        ((MINE, "warehouse"), "the file must be a mapping of keys to values, not 'warehouse'."),
    ],
)
def test_a_file_that_is_not_valid_is_refused(mine: Path, change: tuple[str, str], said: str) -> None:
    assert change[0] in MINE
    mine.write_text(MINE.replace(*change))
    with pytest.raises(UserError) as refused:
        load_world(mine)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("generator", "settings", "said"),
    [
        ("room", "doorway_m: [9, 2]", "doorway_m: [9.0, 2.0] is not allowed: must fit in a wall of 8.0 m by 2.8 m."),
        ("corridor", "leg_m: [2, 9]", "at least 2.7 m, the width and two walls"),
        ("corridor", "beam_height_m: 2.5", "must be 0.2 m below height_m."),
        ("warehouse", "aisle_m: 9.8", "aisle_m: 9.8 is not allowed: a rack between two aisles is 20.7 m deep."),
        ("warehouse", "levels: 4", "levels: 4 is not allowed: racks of 6 m and 0.3 m more must fit under 6 m."),
        (
            "forest",
            "radius_m: [0.3, 0.1]",
            "radius_m: [0.3, 0.1] is not allowed: the lower end must come first.",
        ),
        ("forest", "{gap_m: 0, clearing_m: 0.6, count: 1000}", "no world with seed 0 has room for its start places"),
    ],
)
def test_settings_that_make_no_world_are_refused(mine: Path, generator: str, settings: str, said: str) -> None:
    braced = settings if settings.startswith("{") else "{" + settings + "}"
    mine.write_text(f"generator: {generator}\nsettings: {braced}")
    with pytest.raises(UserError) as refused:
        load_world(mine)
    assert said in str(refused.value) and str(mine) in str(refused.value)


def test_a_mujoco_model_is_a_world_for_mujoco_alone(tmp_path: Path) -> None:
    path = tmp_path / "table.xml"
    path.write_text("<mujoco/>")
    world = load_world(path)
    assert (world.mjcf, world.obstacles, world.title) == (path, (), str(path))
    assert len(set(world.starts_m)) == 16 and world.starts_m[0] == (0.0, 0.0, 0.0)
    for ask in (lambda: world.distance(np.zeros((1, 3))), lambda: world.free((0.0, 0.0, 1.0), 0.1)):
        with pytest.raises(UserError, match="only MuJoCo reads"):
            ask()
    with pytest.raises(UserError, match="not drawn from a seed: leave out ':3'"):
        load_world(f"{path}:3")


def test_the_documentations_program_file_and_generator_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    (program, maps, generator), (file,) = (docs.blocks("docs/worlds.md", word) for word in ("python", "yaml"))
    monkeypatch.chdir(tmp_path)
    exec(program, {})
    assert "rack board" in capsys.readouterr().out and Path("warehouse.png").stat().st_size > 10_000
    exec(maps, {})
    Path("mine.yaml").write_text(file)
    assert {"desk", "drum"} < {o.name for o in load_world("mine.yaml").obstacles}
    (tmp_path / "gates.py").write_text(generator)
    monkeypatch.setattr(
        rlstack.sim.world_generators, "__path__", [*rlstack.sim.world_generators.__path__, str(tmp_path)]
    )
    Path("gates.yaml").write_text("generator: gates\nsettings: {count: 3}")
    assert len(load_world("gates.yaml").obstacles) == 6
