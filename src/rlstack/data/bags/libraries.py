"""The library rosbags, which only those install who keep recordings."""

from __future__ import annotations

import importlib
from typing import Any

from rlstack.errors import UserError


def import_rosbags(module: str) -> Any:
    """Return a module of rosbags, such as ``highlevel``.

    Raises:
        UserError: It cannot be imported; says what to install.
    """
    try:
        return importlib.import_module(f"rosbags.{module}")
    except ImportError as error:
        raise UserError(
            f"Bags need rosbags, which cannot be imported ({error}): pip install 'rlstack[data]'."
        ) from error


def message_definitions() -> Any:
    """Return what rosbags knows of the messages of ROS 2 Jazzy, for bags that do not define their own."""
    typesys = import_rosbags("typesys")
    return typesys.get_typestore(typesys.Stores.ROS2_JAZZY)
