from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation, Slerp

from rlstack.interfaces import transform_buffer
from rlstack.interfaces.tf_messages import Numbers, Transform
from rlstack.interfaces.transform_buffer import NoTransform, Placed, TransformBuffer
from rlstack.robots import frames

S = 10**9
NUMBER = st.floats(-100.0, 100.0)
UNIT = st.lists(st.floats(-1.0, 1.0), min_size=4, max_size=4).filter(lambda q: np.linalg.norm(q) > 0.1)
PLACE = st.lists(NUMBER, min_size=3, max_size=3)


@st.composite
def poses(draw: st.DrawFn) -> Numbers:
    turn = np.array(draw(UNIT))
    x, y, z = draw(PLACE)
    qx, qy, qz, qw = (turn / np.linalg.norm(turn)).tolist()
    return x, y, z, qx, qy, qz, qw


def matrix(pose: Numbers) -> np.ndarray:
    made = np.eye(4)
    made[:3, :3], made[:3, 3] = Rotation.from_quat(pose[3:]).as_matrix(), pose[:3]
    return made


def as_matrix(placed: Placed) -> np.ndarray:
    return matrix((*placed.position.tolist(), *placed.orientation.tolist()))


def moved(x: float, yaw: float = 0.0) -> Numbers:
    return (x, 0.0, 0.0, *frames.from_yaw(yaw).tolist())


def robot(*times_s: float) -> TransformBuffer:
    """map -> odom -> base_link -> lidar, with base_link 1 m further each second."""
    buffer = TransformBuffer()
    buffer.add([Transform("map", "odom", moved(10.0))], static=True)
    buffer.add([Transform("base_link", "lidar", moved(0.5))], static=True)
    buffer.add([Transform("odom", "base_link", moved(t), round(t * S)) for t in times_s], static=False)
    return buffer


@given(poses(), poses(), poses(), PLACE)
def test_lookups_are_products_of_scipys_matrices(one: Numbers, other: Numbers, third: Numbers, point: list) -> None:
    buffer = TransformBuffer()
    buffer.add([Transform("map", "a", one), Transform("a", "b", other), Transform("map", "c", third)], static=True)
    wanted = np.linalg.inv(matrix(third)) @ matrix(one) @ matrix(other)
    found = buffer.lookup("c", "b")
    np.testing.assert_allclose(as_matrix(found), wanted, atol=1e-9)
    np.testing.assert_allclose(found.points(np.array(point)), (wanted @ [*point, 1.0])[:3], atol=1e-8)
    np.testing.assert_allclose(as_matrix(buffer.lookup("b", "c")), np.linalg.inv(wanted), atol=1e-9)
    np.testing.assert_allclose(as_matrix(found.inverse.after(found)), np.eye(4), atol=1e-9)
    turned = Rotation.from_quat(found.turns(np.array([one[3:], other[3:]])))
    np.testing.assert_allclose(
        turned.as_matrix(), wanted[:3, :3] @ Rotation.from_quat([one[3:], other[3:]]).as_matrix(), atol=1e-9
    )


@given(poses(), poses(), st.floats(0.0, 1.0))
def test_between_two_times_it_is_scipys_slerp(one: Numbers, other: Numbers, share: float) -> None:
    buffer = TransformBuffer()
    buffer.add([Transform("odom", "base_link", one, S), Transform("odom", "base_link", other, 3 * S)], static=False)
    stamp = S + round(2 * S * share)
    found = buffer.lookup("odom", "base_link", stamp)
    both = Rotation.from_quat([one[3:], other[3:]])
    if (both[0].inv() * both[1]).magnitude() > 3.1:
        return  # half a turn: either way is the shorter one
    share = (stamp - S) / (2 * S)
    np.testing.assert_allclose(
        Rotation.from_quat(found.orientation).as_matrix(), Slerp([0, 1], both)(share).as_matrix(), atol=1e-6
    )
    np.testing.assert_allclose(found.position, (1 - share) * np.array(one[:3]) + share * np.array(other[:3]))


def test_chains_are_followed_up_and_down_at_the_newest_common_time() -> None:
    buffer = robot(1.0, 2.0)
    assert buffer.lookup("map", "lidar").position[0] == pytest.approx(12.5)
    assert buffer.lookup("map", "lidar", 1_250_000_000).position[0] == pytest.approx(11.75)
    assert buffer.lookup("map", "lidar").stamp_ns == 2 * S
    assert buffer.lookup("map", "odom").stamp_ns is None
    buffer.add(
        [Transform("odom", "camera", moved(0.0), S), Transform("odom", "camera", moved(1.0), 3 * S)], static=False
    )
    assert buffer.lookup("camera", "base_link").position[0] == pytest.approx(2.0 - 0.5)
    assert buffer.common("lidar", "map") == "map" and buffer.common("lidar", "camera") == "odom"


@pytest.mark.parametrize(
    ("target", "source", "stamp_ns", "said"),
    [
        (
            "odom",
            "mars",
            None,
            "there is no frame mars on /tf; frames known: base_link, island, lidar, map, odom, rock",
        ),
        ("odom", "rock", None, "odom and rock are not connected; frames known: base_link"),
        ("odom", "base_link", 5 * S, "from odom to base_link is needed 3 s after the newest"),
        ("odom", "lidar", S // 2, "from odom to base_link is needed 0.5 s before the oldest"),
    ],
)
def test_refusals_say_what_is_missing(target: str, source: str, stamp_ns: int | None, said: str) -> None:
    buffer = robot(1.0, 2.0)
    buffer.add([Transform("island", "rock")], static=True)
    with pytest.raises(NoTransform, match=re.escape(said)):
        buffer.lookup(target, source, stamp_ns)


def test_with_nothing_heard_that_is_said() -> None:
    with pytest.raises(NoTransform, match="nothing publishes transforms") as refusal:
        TransformBuffer().lookup("odom", "map")
    assert refusal.value.later


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (Transform("", "a"), "without a frame"),
        (Transform("a", "/a"), "in itself"),
        (Transform("odom", "a", (float("nan"), 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)), "not finite"),
        (Transform("odom", "a", (0.0,) * 7), "no unit quaternion"),
    ],
)
def test_what_is_no_transform_is_counted_and_left_out(bad: Transform, said: str) -> None:
    buffer = robot(1.0)
    buffer.add([bad], static=False)
    assert buffer.refused == 1 and said in buffer.last_refusal
    assert "a" not in buffer.frames


def test_frames_in_a_circle_end_in_a_sentence() -> None:
    buffer = TransformBuffer()
    buffer.add([Transform("a", "b"), Transform("b", "a")], static=True)
    with pytest.raises(NoTransform, match="form a circle"):
        buffer.lookup("odom", "a")


def test_memory_is_bounded_in_time_in_number_and_in_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transform_buffer, "MOST_FRAMES", 3)
    buffer = robot(*np.arange(0.0, 30.0, 0.01))
    with pytest.raises(NoTransform, match="before the oldest"):
        buffer.lookup("odom", "base_link", 18 * S)
    assert len(buffer._edges["base_link"].samples) <= transform_buffer.MOST_SAMPLES
    slow = robot(*np.arange(0.0, 30.0, 1.0))
    assert len(slow._edges["base_link"].samples) == 11
    buffer.add([Transform("odom", f"frame{k}") for k in range(10)], static=False)
    assert len(buffer.frames) == 4 and "more than 3 frames" in buffer.last_refusal


def test_late_ones_are_sorted_in_a_clock_that_begins_anew_is_followed_and_parents_that_quarrel_are_named() -> None:
    buffer = robot(1.0, 3.0)
    buffer.add([Transform("odom", "base_link", moved(7.0), 2 * S)], static=False)
    assert buffer.lookup("odom", "base_link", 2 * S).position[0] == 7.0
    buffer = robot(100.0, 1.0)
    assert buffer.lookup("odom", "base_link").stamp_ns == S
    assert buffer.conflict("odom") == ""
    buffer.add([Transform("world", "odom")], static=True)
    assert buffer.conflict("odom") == "odom has several parents on /tf: map, world"
    assert buffer.parent("odom") == "world" and buffer.parent("world") == ""
