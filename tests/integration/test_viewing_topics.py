"""What viewers hear of a robot node: transforms, models and the world, of one robot and of several."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlstack.interfaces import tf2_messages, topics
from rlstack.interfaces.messages import stamp_to_ns
from rlstack.robots.frame_tree import read_frames
from rlstack.sim.world import load_world
from tests.support.ros import Listener, NodeProcess, nodes

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not tf2_messages.PACKAGE.is_installed(), reason="this environment has no tf2_msgs"),
]


def test_one_robot_is_where_its_odometry_says(listener: Listener) -> None:
    odometry = listener.hear(topics.ODOM, "sensor_in_reliable", depth=1000)
    moved, models = listener.hear(topics.TF, "tf"), listener.hear(topics.ROBOT_DESCRIPTION, "latched")
    with nodes(NodeProcess("robot", start_height_m=5.0)):
        listener.until(lambda: models and len(moved) > 5, "transforms")
        tree = read_frames(models[0].data)
        poses = {stamp_to_ns(m.header.stamp): m.pose.pose.position for m in odometry}
        for message in moved:
            base, *rotors = message.transforms
            assert (base.header.frame_id, base.child_frame_id) == ("odom", tree.root)
            assert [t.child_frame_id for t in rotors] == [joint.child for joint in tree.moving]
        both = [m.transforms[0] for m in moved if stamp_to_ns(m.transforms[0].header.stamp) in poses]
        assert len(both) > 3
        for base in both:
            place, t = poses[stamp_to_ns(base.header.stamp)], base.transform.translation
            np.testing.assert_allclose([t.x, t.y, t.z], [place.x, place.y, place.z])
        stamps = [stamp_to_ns(m.transforms[0].header.stamp) for m in moved]
        assert min(np.diff(stamps)) >= 19_999_000


def test_several_robots_share_a_tree_of_frames_and_a_world(listener: Listener) -> None:
    moved, world = listener.hear(topics.TF, "tf"), listener.hear(topics.WORLD_MARKERS, "latched")
    with nodes(NodeProcess("robot", world="warehouse:7", robots="[cf1, cf2]")):
        listener.until(lambda: world, "the world")
        assert len(world[0].markers) == 1 + len(load_world("warehouse:7").obstacles)

        def frames() -> set[str]:
            return {m.transforms[0].child_frame_id for m in moved}

        listener.until(lambda: frames() == {"cf1/base_link", "cf2/base_link"}, "both robots")
        places = {m.transforms[0].child_frame_id: m.transforms[0].transform.translation for m in moved}
        first, second = places["cf1/base_link"], places["cf2/base_link"]
        assert np.hypot(first.x - second.x, first.y - second.y) > 0.1
        models: list[Any] = []
        text, quality = topics.type_of(topics.ROBOT_DESCRIPTION), topics.quality("latched")
        listener.node.create_subscription(text, f"/cf2/{topics.ROBOT_DESCRIPTION}", models.append, quality)
        listener.until(lambda: models, "a model of a robot that was there before")
        assert read_frames(models[0].data).root == "cf2/base_link"


def test_two_simulations_with_prefixes_share_tf_and_each_may_say_that_map_is_odom(listener: Listener) -> None:
    moved, fixed = listener.hear(topics.TF, "tf"), listener.hear(topics.TF_STATIC, "tf_static")
    odometry = listener.hear(topics.ODOM, robot="/a")
    first = NodeProcess("robot", "__ns:=/a", frame_prefix="cf1/", map_to_odom=True)
    with nodes(first, NodeProcess("robot", "__ns:=/b", frame_prefix="cf2/")):
        wanted = {("cf1/odom", "cf1/base_link"), ("cf2/odom", "cf2/base_link")}

        def found() -> set[tuple[str, str]]:
            return {(m.transforms[0].header.frame_id, m.transforms[0].child_frame_id) for m in moved}

        listener.until(lambda: found() == wanted and odometry and fixed, "both robots")
        assert (odometry[0].header.frame_id, odometry[0].child_frame_id) == ("cf1/odom", "cf1/base_link")
        parents = {t.child_frame_id: t.header.frame_id for message in fixed for t in message.transforms}
        assert parents["cf1/odom"] == "cf1/map" and "cf2/odom" not in parents


def test_what_moves_in_a_world_is_shown_where_it_is(listener: Listener, tmp_path: Path) -> None:
    world = tmp_path / "table.yaml"
    world.write_text(
        "generator: empty\nobstacles:\n- {name: ball, shape: sphere, size_m: [0.1, 0.1, 0.1],"
        " position_m: [1.0, 0.0, 1.5], mass_kg: 0.1}\n"
    )
    moved = listener.hear(topics.MOVED_MARKERS, "event")
    with nodes(NodeProcess("robot", world=world)):
        listener.until(lambda: moved and moved[-1].markers[0].pose.position.z < 0.2, "a ball's fall")
        assert len(moved[-1].markers) == 1
