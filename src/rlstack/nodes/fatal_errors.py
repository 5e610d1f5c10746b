"""Errors that end a node: in ROS's log, and as a sentence where ROS security prevents a node."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

from rlstack.errors import Diverged, UserError

_DISCOVERY_S = 1.0
"""Longest wait for readers of /rosout to be discovered, by a node that has just begun and must end."""
_MATCHING_S = 0.2
"""Wait for a reader, once found, to find this node as well: most readers of /rosout miss what was sent before that."""
_SENDING_S = 0.3

Made = TypeVar("Made")


def log_fatal(node: Any, error: BaseException) -> None:
    """Log the error that ends a node, on the console as well, and wait until the readers of /rosout have it."""
    end = time.monotonic() + _DISCOVERY_S
    while time.monotonic() < end and node.count_subscribers("/rosout") == 0:
        time.sleep(0.02)  # a reader that is found later does not receive what was logged before
    if node.count_subscribers("/rosout"):
        time.sleep(_MATCHING_S)
    known = isinstance(error, (UserError, Diverged))
    node.get_logger().fatal(str(error) if known else f"{type(error).__name__}: {first_line(error)}")
    error.is_logged = True  # type: ignore[attr-defined]
    time.sleep(_SENDING_S)


def made_securely(make: Callable[[], Made]) -> Made:
    """Return what ``make`` does; raise ``UserError`` if ROS security is asked for and prevents it."""
    try:
        return make()
    except Exception as error:
        if isinstance(error, UserError) or os.environ.get("ROS_SECURITY_ENABLE", "").lower() != "true":
            raise
        raise UserError(
            "ROS security is on (ROS_SECURITY_ENABLE=true), and the node could not be made with it:"
            f" {first_line(error)}. The ROS wheels from PyPI have no security: use a system ROS 2 and the keys of"
            " docs/security.md, or unset ROS_SECURITY_ENABLE."
        ) from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or its type's name."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
