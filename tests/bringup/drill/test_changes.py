import pytest

pytest.importorskip("rclpy")

from nav_msgs.msg import Odometry
from rclpy.serialization import serialize_message

from rlstack.bringup.drill import changes
from rlstack.bringup.drill.edits import move_odometry, odometry_edits
from rlstack.interfaces import cdr


def message(stamp_ns: int, x: float = 0.0) -> bytes:
    made = Odometry()
    made.header.stamp.sec, made.header.stamp.nanosec = divmod(stamp_ns, 10**9)
    made.header.frame_id, made.child_frame_id = "odom", "base_link"
    made.pose.pose.position.x = x
    return bytes(serialize_message(made))


def passed(change: changes.Change, stamps: list[int]) -> list[list[int]]:
    return [[changes.stamp_ns(data) for data in change(message(stamp))] for stamp in stamps]


def test_stamps_are_read_and_replaced_and_nothing_else():
    data = message(12_345_678_901, x=2.5)
    assert changes.stamp_ns(data) == 12_345_678_901
    moved = cdr.deserialize(changes.with_stamp(data, 3_000_000_007), Odometry)
    assert (moved.header.stamp.sec, moved.header.stamp.nanosec) == (3, 7)
    assert moved.pose.pose.position.x == 2.5 and moved.child_frame_id == "base_link"
    assert changes.stamp_ns(changes.with_stamp(data, -5)) == 0


def test_changes_of_the_stream():
    stamps = [10, 20, 30, 40, 50]
    assert passed(changes.lost(), stamps) == [[], [], [], [], []]
    assert passed(changes.twice(), stamps[:2]) == [[10, 10], [20, 20]]
    assert passed(changes.one_of(3), stamps) == [[10], [], [], [40], []]
    assert passed(changes.slow(3), stamps) == [[], [], [10], [], []]
    assert passed(changes.frozen(new_stamps=False), stamps[:3]) == [[10], [10], [10]]
    assert passed(changes.shifted(5), stamps[:2]) == [[15], [25]]
    assert passed(changes.out_of_order(), stamps[:4]) == [[10], [9], [30], [40]]


def test_late_messages_wait_for_their_time():
    now = 0.0
    change = changes.late(0.2, clock=lambda: now)
    found = []
    for k in range(5):
        now = 0.1 * k
        found.append([changes.stamp_ns(data) for data in change(message(k))])
    assert found == [[], [], [0], [1], [2]]


def test_frozen_values_may_have_new_stamps():
    change = changes.frozen(new_stamps=True)
    (first,), (second,) = change(message(10, x=1.0)), change(message(20, x=2.0))
    assert changes.stamp_ns(second) == 20
    assert (
        cdr.deserialize(second, Odometry).pose.pose.position.x
        == 1.0
        == cdr.deserialize(first, Odometry).pose.pose.position.x
    )


def test_edits_change_every_message_or_only_one():
    always = changes.edited(Odometry, move_odometry(1.0))
    once = changes.edited(Odometry, move_odometry(1.0), once=True)
    for change, expected in ((always, [1.0, 1.0]), (once, [1.0, 0.0])):
        found = [cdr.deserialize(data, Odometry).pose.pose.position.x for k in (1, 2) for data in change(message(k))]
        assert found == expected
    (foreign,) = changes.edited(Odometry, odometry_edits(move_odometry(1.0))["frame"])(message(1))
    assert "odom" not in cdr.deserialize(foreign, Odometry).header.frame_id


def test_what_is_cut_short_is_malformed():
    (cut,) = changes.cut_short()(message(1))
    with pytest.raises(ValueError):
        cdr.deserialize(cut, Odometry)
