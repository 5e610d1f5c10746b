"""docs/teleop.md says what the code does."""

from __future__ import annotations

from rlstack.hardware.devices import DEVICES
from rlstack.interfaces.topics import TELEOP_TYPES
from rlstack.nodes import teleop, teleop_arm
from tests.support import docs


def test_the_page_has_every_topic_parameter_and_device() -> None:
    page = docs.text("docs/teleop.md")
    for node in (teleop, teleop_arm):
        assert docs.parameter_table(node.PARAMETERS) in page
    for topic, kind in TELEOP_TYPES.items():
        assert any(f"`{topic}`" in line and f"`{kind}`" in line for line in page.splitlines()), topic
    for name in DEVICES.names():
        assert f"| `{name}" in page
