"""Where a human's hand comes from: a device, or whatever publishes the topics of teleoperation."""

from __future__ import annotations

from typing import Any

from rlstack.errors import UserError, unknown_name
from rlstack.hardware.devices import DEVICES, device_called
from rlstack.kinds.manipulator.spec import Manipulator


def device_of(spec: str, robot: Manipulator, motion: Any, namespace: str = "") -> Any:
    """Return what leads an arm's tool by hand, not opened yet; see :class:`rlstack.hardware.devices.Device`.

    Args:
        spec: ``NAME`` or ``NAME:WHERE``, or ``topic``.
        robot: The arm.
        motion: What full speed is: ``speed_m_s`` and ``yaw_rate_rad_s``.
        namespace: Of the topics; empty: the robot's name.

    Raises:
        UserError: There is no such device, or what stands after its name is not allowed.
    """
    if spec == "topic":
        from rlstack.nodes.teleop_topics import TopicDevice

        return TopicDevice(namespace or robot.name, motion)
    name = spec.partition(":")[0]
    if name not in DEVICES.names():
        here = [known for known in DEVICES.names() if getattr(DEVICES.load(known), "topic", None) is None]
        raise unknown_name(DEVICES.kind, name, [*here, "topic"])
    device = device_called(spec, robot)
    if getattr(device, "topic", None) is not None:
        raise UserError(
            f"The device {spec} speaks over ROS: run rlstack teleop --device {spec} --only-device, and give topic as"
            " the device here."
        )
    return device
