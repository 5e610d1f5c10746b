"""Which topics a recording has."""

from __future__ import annotations

import pytest

from rlstack.interfaces.recorded import Selection

ODOM, IMAGE = "nav_msgs/msg/Odometry", "sensor_msgs/msg/Image"


@pytest.mark.parametrize(
    ("spaces", "chosen", "pictures", "wanted", "others"),
    [
        (["/cf1"], (), False, ("/cf1/odom", "/cf1/camera/camera_info", "/clock", "/tf"), ("/cf10/odom", "/odom")),
        (["/"], (), False, ("/cf1/odom", "/odom", "/rosout"), ("/parameter_events", "/cf1/_action/status")),
        (["/cf1"], ("odom", "/map*"), False, ("/cf1/odom", "/map_server", "/cf1/guard/mode", "/clock"), ("/cf1/imu",)),
        (["/"], ("odom",), False, ("/cf1/odom", "/cf2/policy/cmd/rotors", "/cf2/robot_description"), ("/cf1/imu",)),
    ],
)
def test_everything_of_the_robots_or_what_was_chosen_and_always_what_explains_them(
    spaces: list[str], chosen: tuple[str, ...], pictures: bool, wanted: tuple[str, ...], others: tuple[str, ...]
) -> None:
    selection = Selection(spaces, chosen, pictures=pictures)
    assert [topic for topic in wanted if not selection.wants(topic, ODOM)] == []
    assert [topic for topic in others if selection.wants(topic, ODOM)] == []


def test_pictures_are_recorded_if_asked_for_or_if_a_policy_sees_them() -> None:
    picture = "/arm/wrist/image_raw"
    assert not Selection(["/arm"]).wants(picture, IMAGE)
    assert Selection(["/arm"], pictures=True).wants(picture, IMAGE)
    assert Selection(["/arm"], ["wrist/*"]).wants(picture, IMAGE)
    selection = Selection(["/arm"], ["odom"])
    selection.inputs.add(picture)
    assert selection.wants(picture, IMAGE)
