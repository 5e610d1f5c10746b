"""/tf, /tf_static and robot_description over real rclpy, as a listener that comes late hears them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.interfaces import tf2_messages, topics
from rlstack.interfaces.messages import NANOSECONDS, stamp_to_ns
from rlstack.nodes.runtime import ManagedNode
from rlstack.nodes.transforms import Transforms
from rlstack.robots import Camera, RobotSpec, frames, load_robot
from rlstack.robots.urdf import to_urdf
from tests.support.ros import Listener

pytestmark = pytest.mark.integration
needs_tf2 = pytest.mark.skipif(not tf2_messages.PACKAGE.is_installed(), reason="this environment has no tf2_msgs")

STEP_NS = 20_000_000
LEVEL = np.array([0.0, 0.0, 0.0, 1.0])


CAMERA = Camera(width=64, height=48, rate_hz=10.0, horizontal_fov_rad=1.0, position_m=(0.03, 0.0, 0.01))
ROBOT = replace(load_robot("crazyflie"), cameras={"front": CAMERA})


class Publishing(ManagedNode):
    NAME = "robot"


@pytest.fixture
def node(_ros_environment: None) -> Iterator[ManagedNode]:
    import rclpy

    context = rclpy.Context()
    rclpy.init(context=context)
    made = Publishing(namespace="cf1", context=context)
    yield made
    made.stop()
    made.destroy_node()
    rclpy.shutdown(context=context)


@pytest.fixture
def listener(node: ManagedNode) -> Iterator[Listener]:
    made = Listener()
    yield made
    made.close()


@needs_tf2
def test_frames_move_with_the_robot_and_its_joints(node: ManagedNode, listener: Listener) -> None:
    sender = Transforms(node, [ROBOT])
    assert not sender.publish(0, 0, np.zeros(3), LEVEL)  # nobody listens
    heard = listener.hear(topics.TF, "tf")
    place, turned = np.array([1.0, 2.0, 3.0]), frames.from_yaw(0.5)
    stamp = [NANOSECONDS]

    def say() -> bool:
        stamp[0] += STEP_NS
        sender.publish(stamp[0], 0, place, turned, {"m1": 0.3})
        return bool(heard)

    listener.until(say, "a transform")
    base, rotor, *others = heard[-1].transforms
    assert len(others) == 3
    assert (base.header.frame_id, base.child_frame_id) == ("odom", "base_link")
    assert (rotor.header.frame_id, rotor.child_frame_id) == ("base_link", "m1_link")
    assert stamp_to_ns(base.header.stamp) == stamp_to_ns(rotor.header.stamp) <= stamp[0]
    t, r = base.transform.translation, base.transform.rotation
    np.testing.assert_allclose([t.x, t.y, t.z], place)
    np.testing.assert_allclose([r.x, r.y, r.z, r.w], turned)
    r = rotor.transform.rotation
    np.testing.assert_allclose([rotor.transform.translation.x, r.z], [ROBOT.rotors[0].position_m[0], np.sin(0.15)])


@needs_tf2
def test_no_more_than_50_a_second_of_stamped_time_and_a_reset_does_not_stop_it(
    node: ManagedNode, listener: Listener
) -> None:
    sender = Transforms(node, [ROBOT])
    heard = listener.hear(topics.TF, "tf")

    def begin() -> bool:
        sender.publish(0, 0, np.zeros(3), LEVEL, speeds={"m1": 10.0})
        return bool(heard)

    listener.until(begin, "the first")
    sent = [sender.publish(2_000_000 * k, 0, np.zeros(3), LEVEL, speeds={"m1": 10.0}) for k in range(1, 501)]
    assert sum(sent) == 50  # of 500 in a second
    assert sender.publish(500, 0, np.zeros(3), LEVEL)
    listener.until(lambda: len(heard) == 52, "all of them")
    angle = [2.0 * np.arctan2(r.z, r.w) for r in (m.transforms[1].transform.rotation for m in heard)]
    np.testing.assert_allclose(frames.wrap_angle(np.diff(angle[:51])), 0.2, atol=1e-6)  # 10 rad/s for 20 ms
    np.testing.assert_allclose(frames.wrap_angle(angle[51] - angle[50]), 0.0, atol=1e-9)


@needs_tf2
def test_who_comes_late_hears_the_model_and_what_never_moves(node: ManagedNode, listener: Listener) -> None:
    Transforms(node, [ROBOT, ROBOT], ["cf1/", "cf2/"], ["", "second"])
    models: dict[str, list[str]] = {"/cf1/robot_description": [], "/cf1/second/robot_description": []}
    for topic, kept in models.items():
        text = topics.type_of(topics.ROBOT_DESCRIPTION)
        listener.node.create_subscription(
            text, topic, lambda m, kept=kept: kept.append(m.data), topics.quality("latched")
        )
    fixed = listener.hear(topics.TF_STATIC, "latched")
    listener.until(lambda: all(models.values()) and fixed, "latched messages")
    assert list(models.values()) == [[to_urdf(ROBOT, prefix=prefix, meshes="uri")] for prefix in ("cf1/", "cf2/")]
    (message,) = fixed
    link, optical, *second = message.transforms
    assert [t.child_frame_id for t in (link, optical)] == ["cf1/front_link", "cf1/front_optical_frame"]
    assert [t.child_frame_id for t in second] == ["cf2/front_link", "cf2/front_optical_frame"]
    assert (link.header.frame_id, link.transform.translation.x) == ("cf1/base_link", 0.03)
    r = optical.transform.rotation  # REP-103: z forward, x right
    turned = frames.to_matrix([r.x, r.y, r.z, r.w])
    np.testing.assert_allclose(turned, [[0, 0, 1], [-1, 0, 0], [0, -1, 0]], atol=1e-12)


def test_robots_with_the_same_frames_are_refused(node: ManagedNode) -> None:
    with pytest.raises(UserError, match=r"frame 'base_link'.*prefix"):
        Transforms(node, [ROBOT, ROBOT])


@needs_tf2
def test_a_robot_without_a_model_still_says_where_it_is(node: ManagedNode, listener: Listener) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Unknown(RobotSpec):
        """Of a kind that another package has brought."""

    sender = Transforms(node, [Unknown(name="u", kind="u", description="", control_rate_hz=10.0, sensors={})])
    heard = listener.hear(topics.TF, "tf")
    stamp = [0]

    def say() -> bool:
        stamp[0] += STEP_NS
        sender.publish(stamp[0], 0, np.ones(3), LEVEL, {"none": 1.0}, {"neither": 1.0})
        return bool(heard)

    listener.until(say, "a transform")
    assert [t.child_frame_id for t in heard[0].transforms] == ["base_link"]
    assert listener.node.count_publishers("/cf1/robot_description") == 0
