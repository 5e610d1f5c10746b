"""OpenCV and Open3D, which only those install who need them."""

from __future__ import annotations

import importlib
from typing import Any

from rlstack.errors import UserError


def import_opencv() -> Any:
    """Return the module ``cv2``.

    Raises:
        UserError: It cannot be imported; says what to install.
    """
    try:
        return importlib.import_module("cv2")
    except ImportError as error:
        raise UserError(
            f"OpenCV cannot be imported ({error}): install it with `pip install 'rlstack[perception]'`,"
            " or alone with `pip install opencv-python-headless`."
        ) from error


def import_open3d() -> Any:
    """Return the module ``open3d``.

    Raises:
        UserError: It, or a system library that it needs, cannot be imported; says what to install.
    """
    try:
        return importlib.import_module("open3d")
    except (ImportError, OSError) as error:
        how = "install it with `pip install 'rlstack[perception]'`"
        if ".so" in str(error):
            how = "install the system library it needs (Debian: sudo apt install libusb-1.0-0 libgl1 libgomp1)"
        raise UserError(f"Open3D cannot be imported ({error}): {how}.") from error
