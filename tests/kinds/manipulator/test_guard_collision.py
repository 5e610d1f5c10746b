"""Capsules about an arm's links: what they hold, and what they say of postures in which MuJoCo sees links touch."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlstack.kinds.manipulator.guard_collision import (
    NEIGHBOURS,
    PIECES,
    Capsule,
    CollisionModel,
    carriers,
    fit,
    segment_distance,
)
from rlstack.kinds.manipulator.guard_config import ManipulatorGuardConfig
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import load_robot
from rlstack.robots.collision_geometry import edges_of, read_collision_edges
from tests.kinds.manipulator.guard_loop import panda

Array = NDArray[np.float64]

PAIR = """
name: faces
kind: manipulator
description: two UR5e face to face, 1.2 m apart
control_rate_hz: 100.0
arms:
  - {robot: ur5e, prefix: near_}
  - {robot: ur5e, prefix: far_, position_m: [1.2, 0.0, 0.0], rpy_rad: [0.0, 0.0, 3.141593]}
mass_kg: 43.6
mass_tolerance: 0.01
gravity_compensation: true
tool_link: near_tool
limits:
  workspace_min_m: [-0.9, -0.9, 0.0]
  workspace_max_m: [2.1, 0.9, 1.1]
  tool_velocity_m_s: 1.0
sensors:
  joint_states: {rate_hz: 100.0}
"""


def outside(points: Array, capsules: list[Capsule]) -> float:
    """Return how far, m, the point of (P, 3) m that is furthest from the capsules is from them; below 0: inside."""
    alone = np.stack([points, points], 1)
    return float(np.min([segment_distance(alone, c.ends[None]) - c.radius for c in capsules], axis=0).max())


def within(corners: Array, rng: np.random.Generator) -> Array:
    """Return points (P, 3) anywhere in the convex hull of corners (C, 3), many of them between only two or three."""
    share = rng.dirichlet(np.full(len(corners), 0.1), 500)
    return share @ corners


def all_edges(corners: Array) -> Array:
    """Return the edges (E, 2, 3) of a convex hull, and lines within it, between corners (C, 3)."""
    return corners[list(combinations(range(len(corners)), 2))]


def arm(name: str) -> Manipulator:
    robot = load_robot(name)
    assert isinstance(robot, Manipulator)
    return robot


@given(st.integers(0, 10_000), st.integers(1, 4))
@settings(deadline=None, max_examples=30)
def test_capsules_hold_the_whole_convex_hull_of_a_random_mesh(seed: int, pieces: int) -> None:
    rng = np.random.default_rng(seed)
    corners = rng.normal(size=(12, 3)) * rng.uniform(0.01, 1.0, 3)
    assert outside(within(corners, rng), fit(all_edges(corners), pieces)) < 1e-9


@given(st.integers(0, 10_000), st.integers(1, 4))
@settings(deadline=None, max_examples=30)
def test_capsules_hold_every_triangle_of_a_hollow_mesh(seed: int, pieces: int) -> None:
    rng = np.random.default_rng(seed)
    triangles = rng.normal(size=(20, 3, 3)) * rng.uniform(0.01, 1.0, 3)
    edges = triangles[:, [(0, 1), (1, 2), (2, 0)]].reshape(-1, 2, 3)
    points = np.einsum("psk,skx->psx", rng.dirichlet(np.full(3, 0.5), (50, 20)), triangles).reshape(-1, 3)
    assert outside(points, fit(edges, pieces)) < 1e-9


@given(st.integers(0, 10_000), st.integers(1, 4))
@settings(deadline=None, max_examples=30)
def test_capsules_hold_the_whole_of_a_box_and_a_cylinder(seed: int, pieces: int) -> None:
    rng = np.random.default_rng(seed)
    size, radius, length = rng.uniform(0.01, 0.5, 3), rng.uniform(0.01, 0.3), rng.uniform(0.01, 1.0)
    turn, place = np.linalg.qr(rng.normal(size=(3, 3)))[0], rng.normal(size=3)
    box = rng.uniform(-0.5, 0.5, (500, 3)) * size
    round_about = rng.uniform(0.0, 2.0 * math.pi, 500)
    high = rng.uniform(-0.5, 0.5, 500) * length
    off = radius * rng.uniform(0.0, 1.0, 500) ** 0.1
    cylinder = np.column_stack([off * np.cos(round_about), off * np.sin(round_about), high])
    for points, name, numbers in (
        (box, "box", {"size": " ".join(map(str, size))}),
        (cylinder, "cylinder", {"radius": str(radius), "length": str(length)}),
    ):
        geometry = ET.Element("geometry")
        ET.SubElement(geometry, name, numbers)
        capsules = fit(edges_of(geometry, "a test") @ turn + place, pieces)
        assert outside(points @ turn + place, capsules) < 1e-9


def test_the_middle_of_long_links_is_in_their_capsules() -> None:
    for name, links in (("ur5e", ("upper_arm_link", "forearm_link")), ("so100", ("upper_arm", "lower_arm", "jaw"))):
        shell = read_collision_edges(arm(name))[1]
        for link in links:
            corners = shell[link].reshape(-1, 3)
            assert outside(within(corners, np.random.default_rng(0)), fit(shell[link], PIECES)) < 1e-9


def test_segments_are_as_far_apart_as_their_nearest_points() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 30, 2, 3))
    s, t = np.meshgrid(np.linspace(0, 1, 101), np.linspace(0, 1, 101))
    on_first = first[:, None, None, 0] + s[..., None] * (first[:, 1] - first[:, 0])[:, None, None]
    on_second = second[:, None, None, 0] + t[..., None] * (second[:, 1] - second[:, 0])[:, None, None]
    nearest = np.linalg.norm(on_first - on_second, axis=-1).min(axis=(1, 2))
    found = segment_distance(first, second)
    assert (found <= nearest + 1e-12).all() and np.abs(found - nearest).max() < 0.02
    assert segment_distance(np.zeros((2, 3)), np.ones((2, 3))) == pytest.approx(math.sqrt(3.0))


def seen_by_mujoco(robot: Manipulator, body: CollisionModel, drawn: Array) -> Array:
    """Return how deep, m, links of pairs that the guard watches are in each other in postures (N, joints); (N,)."""
    mujoco = pytest.importorskip("mujoco")
    from rlstack.robots.mjcf import add_robot, new_world

    spec = new_world(timestep_s=0.001, floor=False)
    add_robot(spec, robot, timestep_s=0.001)
    model = spec.compile()
    data = mujoco.MjData(model)
    places = [int(model.joint(drive.name).qposadr[0]) for drive in robot.drives]
    on = carriers(read_collision_edges(robot)[0], body.chains)
    depth = np.zeros(len(drawn))
    for k, joints in enumerate(drawn):
        data.qpos[places] = joints
        mujoco.mj_kinematics(model, data)
        mujoco.mj_collision(model, data)
        for contact in data.contact:
            (chain, after), (other, later) = (on[model.body(model.geom_bodyid[g]).name] for g in contact.geom)
            if (chain != other and min(chain, other) >= 0) or abs(after - later) > NEIGHBOURS:
                depth[k] = max(depth[k], -contact.dist)
    return depth


@pytest.mark.parametrize(
    ("name", "postures", "touching", "refused"),
    [
        ("panda", 300, 3, 0.08),
        ("fr3", 300, 3, 0.1),
        ("ur5e", 300, 40, 0.25),
        ("so100", 300, 10, 0.14),
        ("faces", 150, 40, 0.45),
    ],
)
def test_no_posture_in_which_mujoco_sees_links_touch_is_taken_for_clear(
    name: str, postures: int, touching: int, refused: float, tmp_path: Path
) -> None:
    if name == "faces":
        (tmp_path / "faces.yaml").write_text(PAIR)
    robot = arm(str(tmp_path / "faces.yaml") if name == "faces" else name)
    body = CollisionModel(robot)
    reach = [(max(drive.lower, -math.pi), min(drive.upper, math.pi)) for drive in robot.drives]
    low, high = np.array(reach).T
    drawn = np.random.default_rng(3).uniform(low, high, (postures, len(low)))
    gap = body.place(drawn)[1]
    touch = seen_by_mujoco(robot, body, drawn) > 1e-6  # less is rounding in MuJoCo
    assert touch.sum() >= touching
    assert gap[touch].max() <= 0.0  # without the 2 cm that the guard keeps free
    apart = ManipulatorGuardConfig.from_robot(robot).apart_m
    assert (gap[~touch] < apart).mean() < refused
    rest = np.array([drive.rest for drive in robot.drives])
    assert body.place(rest[None])[1][0] > 2.0 * apart


def test_the_nearest_pair_is_found_among_all() -> None:
    body = CollisionModel(panda())
    drawn = np.random.default_rng(1).uniform(*np.array([(d.lower, d.upper) for d in panda().drives]).T, (40, 9))
    np.testing.assert_array_equal(body.place(drawn)[1], [body.place(joints[None])[1][0] for joints in drawn])


def test_a_jaw_that_turns_is_where_its_joint_has_it() -> None:
    robot = arm("so100")
    body = CollisionModel(robot)
    names = [drive.name for drive in robot.drives]
    drawn = np.tile([drive.rest for drive in robot.drives], (2, 1))
    drawn[:, names.index("gripper")] = 0.0, 2.0
    first, second = body._ends_of(body._moved(drawn))
    moved = np.linalg.norm(second - first, axis=-1).max(axis=1)
    assert (moved > 0.05).sum() == PIECES and (moved < 1e-9).sum() == len(moved) - PIECES
