"""The message on /diagnostics that tells how a node is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def diagnostics_of(node: Any, warning: str, figures: Mapping[str, Any], *, is_error: bool = False) -> Any:
    """Return a node's ``diagnostic_msgs/DiagnosticArray``.

    diagnostic_aggregator groups statuses by the beginning of their names: with the namespace it is one robot's.

    Args:
        node: The node.
        warning: What is wrong; empty: nothing.
        figures: Values by key.
        is_error: Whether the warning is an error.
    """
    from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

    robot = node.get_namespace().strip("/")
    status = DiagnosticStatus(
        level=DiagnosticStatus.ERROR if is_error else DiagnosticStatus.WARN if warning else DiagnosticStatus.OK,
        name=f"{robot}/{node.get_name()}".lstrip("/"),
        message=warning or "ok",
        hardware_id=robot,
        values=[KeyValue(key=key, value=str(value)) for key, value in figures.items()],
    )
    message = DiagnosticArray(status=[status])
    message.header.stamp = node.get_clock().now().to_msg()
    return message
