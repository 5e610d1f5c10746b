"""Pictures of arms' worlds: what is where the geometry says, and what a look changes."""

from __future__ import annotations

import gc
import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import load_robot
from rlstack.robots.kinematics import chain_of, tool_motion
from rlstack.sim.arms.camera_renderer import ArmCameraRenderer
from rlstack.sim.arms.scene import Block, build_scene
from rlstack.sim.batch_mujoco import make_mujoco_simulator
from rlstack.sim.camera_renderer import camera_of
from rlstack.sim.visual_randomization import Appearance, AppearanceRange, draw_appearance

STILL = AppearanceRange(camera_m=0.0, camera_rad=0.0, view=0.0, shadows=0.0, object_colour=0.0)
HALF = np.full((1, 3), 0.02)
RED = np.array([[0.85, 0.35, 0.2]])


def panda() -> Manipulator:
    robot = load_robot("panda")
    assert isinstance(robot, Manipulator)
    return robot


PANDA = panda()


@pytest.fixture(scope="module")
def eyes() -> ArmCameraRenderer:
    return ArmCameraRenderer(PANDA, Block().add, ("wrist", "scene"), ("object",))


def state(place: list[float]) -> NDArray[np.float64]:
    worlds = make_mujoco_simulator(
        build_scene(PANDA, Block().add), PANDA.drives, 1, period_s=0.05, varied=True, threads=1
    )
    joints = np.array([[drive.rest for drive in PANDA.drives]])
    worlds.restart(np.array([0]), joints)
    worlds.place(np.array([0]), "object", np.array([place]), np.array([[0.0, 0.0, 0.0, 1.0]]))
    worlds.close()
    return worlds.state[0]


def looks(ranges: AppearanceRange = STILL, seed: int = 0) -> Appearance:
    return draw_appearance(ranges, 2, np.random.default_rng(seed), 1)


def redness(picture: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return the middle of what is as red as the box: column and row."""
    red, green, blue = (picture[..., k].astype(float) for k in range(3))
    rows, columns = np.nonzero((red > 1.6 * blue) & (red > 1.3 * green) & (red > 30.0))
    return np.array([columns.mean(), rows.mean()])


def redness_share(image: NDArray[np.int_]) -> NDArray[np.float64]:
    """Return red relative to blue."""
    share: NDArray[np.float64] = image[..., 0] / np.maximum(image[..., 2], 1)
    return share


def test_a_camera_on_a_link_that_the_model_has_not_is_refused() -> None:
    cameras = {**PANDA.cameras, "wrist": replace(PANDA.cameras["wrist"], link="panda_hnd")}
    with pytest.raises(UserError, match="its camera 'wrist' is on 'panda_hnd', and the model has no such link"):
        ArmCameraRenderer(replace(PANDA, cameras=cameras), Block().add, ("wrist", "scene"), ("object",))


@pytest.mark.parametrize("place", [[0.5, 0.1, 0.02], [0.42, -0.15, 0.02], [0.6, 0.0, 0.1]])
def test_the_box_is_where_a_pinhole_shows_it_from_the_scene_camera(eyes: ArmCameraRenderer, place: list[float]) -> None:
    plain = replace(looks(), material=np.zeros(1, dtype=np.intp), table=np.full((1, 3), 0.9))
    picture = eyes.render(state(place), HALF, RED, plain, 0, 1)
    assert picture.shape == (84, 84, 3) and picture.dtype == np.uint8
    camera = PANDA.cameras["scene"]
    x, y, z = (np.array(place) - camera.position) @ camera.optical_rotation
    column, row, _ = camera.intrinsics @ [x / z, y / z, 1.0]
    np.testing.assert_allclose(redness(picture), [column, row], atol=1.0)
    np.testing.assert_allclose((eyes.places[0] + 1.0) * 42.0 - 0.5, [column, row], atol=1e-6)


def test_the_wrist_camera_goes_with_the_hand(eyes: ArmCameraRenderer) -> None:
    joints = np.array([[drive.rest for drive in PANDA.drives]])
    chain = chain_of(PANDA)
    tool = tool_motion(chain.screws, joints[:, list(chain.index)]).position[0]
    below = [float(tool[0]), float(tool[1]), float(tool[2]) - 0.1]
    picture = eyes.render(state(below), HALF, RED, looks(), 0, 0)
    column, row = redness(picture)
    assert abs(column - 41.5) < 3.0 and row > 30.0  # in the middle between the fingers, below the hand
    np.testing.assert_allclose((eyes.places[0] + 1.0) * 42.0 - 0.5, [column, row], atol=3.0)
    aside = eyes.render(state([below[0], below[1] + 0.04, below[2]]), HALF, RED, looks(), 0, 0)
    assert abs(redness(aside)[0] - column) > 5.0


def test_a_look_changes_the_picture_and_the_same_look_does_not(eyes: ArmCameraRenderer) -> None:
    at = state([0.5, 0.0, 0.02])
    first = eyes.render(at, HALF, RED, looks(), 0, 1)
    other = eyes.render(at, HALF, RED, looks(seed=1), 0, 1)
    assert np.array_equal(first, eyes.render(at, HALF, RED, looks(), 0, 1)) and not np.array_equal(first, other)
    shadowed = replace(looks(), shadows=np.ones(1, dtype=bool))
    assert eyes.render(at, HALF, RED, shadowed, 0, 1).mean() < first.mean()
    moved = replace(looks(), shift=np.full((1, 2, 3), 0.05))
    assert not np.array_equal(first, eyes.render(at, HALF, RED, moved, 0, 1))


@pytest.mark.skipif(os.environ.get("LP_NUM_THREADS", "0") != "0", reason="LP_NUM_THREADS asks for threads")
def test_mesa_has_no_threads_of_its_own_which_would_corrupt_the_heap(eyes: ArmCameraRenderer) -> None:
    eyes.render(state([0.5, 0.0, 0.02]), HALF, RED, looks(), 0, 0)
    names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    assert names and not [name for name in names if name.startswith("llvmpipe")]


def test_eyes_that_are_closed_or_forgotten_leave_others_their_sight(eyes: ArmCameraRenderer) -> None:
    at, others = (
        state([0.5, 0.0, 0.02]),
        [ArmCameraRenderer(PANDA, Block().add, ("wrist", "scene"), ("object",)) for _ in range(2)],
    )
    first = eyes.render(at, HALF, RED, looks(), 0, 1)
    for other in others:
        np.testing.assert_array_equal(other.render(at, HALF, RED, looks(), 0, 1), first)
    eyes.render(at, HALF, RED, looks(), 0, 1)  # the last that drew
    others.pop().close()
    np.testing.assert_array_equal(eyes.render(at, HALF, RED, looks(), 0, 1), first)
    del other
    others.clear()
    gc.collect()
    np.testing.assert_array_equal(eyes.render(at, HALF, RED, looks(), 0, 1), first)


def test_looks_are_drawn_in_their_ranges_and_put_where_they_belong() -> None:
    ranges = AppearanceRange()
    many = draw_appearance(ranges, 2, np.random.default_rng(0), 500)
    assert abs(many.shadows.mean() - ranges.shadows) < 0.06
    assert ((many.arm >= ranges.arm[0]) & (many.arm <= ranges.arm[1])).all()
    assert (np.abs(many.view - 1.0) <= ranges.view).all() and (many.direction[:, 2] == -1.0).all()
    np.testing.assert_allclose(many.shift.std(), ranges.camera_m, rtol=0.1)
    few = draw_appearance(ranges, 2, np.random.default_rng(1), 2)
    many.put(np.array([7, 3]), few)
    for one in fields(Appearance):
        assert np.array_equal(getattr(many, one.name)[[7, 3]], getattr(few, one.name))


def test_a_camera_that_is_not_there_or_bent_is_refused_in_words() -> None:
    with pytest.raises(UserError, match="panda has no camera called 'ceiling': its cameras are wrist, scene"):
        camera_of(PANDA, "ceiling")
    bent = replace(PANDA.cameras["wrist"], distortion=(0.1, 0.0, 0.0, 0.0, 0.0))
    robot = replace(PANDA, cameras={**PANDA.cameras, "wrist": bent})
    with pytest.raises(UserError, match="its camera 'wrist' has lens distortion"):
        ArmCameraRenderer(robot, Block().add, ("wrist", "scene"), ("object",))
    large = replace(PANDA.cameras["wrist"], width=128, height=128)
    robot = replace(PANDA, cameras={**PANDA.cameras, "wrist": large})
    with pytest.raises(UserError, match="images of different sizes"):
        ArmCameraRenderer(robot, Block().add, ("wrist", "scene"), ("object",))


def test_each_box_has_its_own_size_and_colour(eyes: ArmCameraRenderer) -> None:
    def build(spec: Any) -> None:
        Block().add(spec)
        Block(name="other").add(spec)

    several = ArmCameraRenderer(PANDA, build, ("scene",), ("object", "other"))
    model = build_scene(PANDA, build)
    worlds = make_mujoco_simulator(model, PANDA.drives, 1, period_s=0.05, threads=1)
    upright = np.array([[0.0, 0.0, 0.0, 1.0]])
    for name, y in (("object", -0.1), ("other", 0.1)):
        worlds.place(np.array([0]), name, np.array([[0.6, y, 0.03]]), upright)
    half, colour = np.array([[0.03] * 3, [0.015] * 3]), np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    image = several.render(worlds.state[0], half, colour, looks(), 0, 0).astype(float)
    red, blue = (image[..., k] > 2.0 * image[..., 2 - k] + 20.0 for k in (0, 2))
    assert red.sum() > 2.5 * blue.sum() > 0
    assert np.nonzero(red)[1].mean() < np.nonzero(blue)[1].mean(), "the camera looks back: the arm's left is its right"
    worlds.close()
    several.close()


def test_a_grey_table_has_no_colour_whatever_its_pattern(eyes: ArmCameraRenderer) -> None:
    white = replace(STILL, warmth=0.0, grey=1.0)
    for seed in range(6):
        image = eyes.render(state([0.5, 0.1, 0.02]), HALF, RED, looks(white, seed), 0, 1).astype(int)[60:]
        table = np.ptp(image, axis=2)[redness_share(image) < 1.2]
        assert np.quantile(table, 0.95) <= 2


def test_looks_are_the_same_as_without_grey_tables_but_for_the_table() -> None:
    some, none = (draw_appearance(AppearanceRange(grey=grey), 2, np.random.default_rng(3), 200) for grey in (0.5, 0.0))
    plain = some.material != none.material
    assert 0.35 < plain.mean() < 0.65
    assert (np.ptp(some.table[plain], axis=1) == 0.0).all()
    for one in fields(Appearance):
        mine, theirs = getattr(some, one.name), getattr(none, one.name)
        kept = ~plain if one.name in ("table", "material") else slice(None)
        np.testing.assert_array_equal(mine[kept], theirs[kept])
