"""Imports of optional libraries."""

from __future__ import annotations

import importlib
from typing import Any

from rlstack.errors import UserError


def import_library(module: str, extra: str) -> Any:
    """Return a module of a library that an extra of rlstack installs.

    Args:
        module: Its full name, such as ``scipy.ndimage``.
        extra: Name of the extra, such as ``navigation``.

    Raises:
        UserError: It, or a system library that it needs, cannot be imported; the message says what to install.
    """
    try:
        return importlib.import_module(module)
    except (ImportError, OSError) as error:
        how = f"pip install 'rlstack[{extra}]'"
        if ".so" in str(error):
            how = "install the system library that it needs (Open3D: sudo apt install libusb-1.0-0 libgl1 libgomp1)"
        raise UserError(f"{module.partition('.')[0]} cannot be imported ({error}): {how}.") from error
