"""MuJoCo's viewer, for teleoperation."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

from rlstack.errors import UserError
from rlstack.robots.mjcf import import_mujoco


class Viewer:
    """A window that shows states of one world.

    Args:
        model: A ``mujoco.MjModel``.

    Raises:
        UserError: There is no screen.
    """

    def __init__(self, model: Any) -> None:
        self._mujoco = import_mujoco()
        if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            raise UserError("There is no screen for a window (DISPLAY is not set): run this without the viewer.")
        from mujoco import viewer

        self._model, self._data = model, self._mujoco.MjData(model)
        self._viewer = viewer.launch_passive(model, self._data, show_left_ui=False, show_right_ui=False)

    def show(self, state: np.ndarray) -> None:
        """Display a state (width,) of a world; do nothing once the window is closed."""
        if not self._viewer.is_running():
            return
        kind = self._mujoco.mjtState.mjSTATE_FULLPHYSICS
        with self._viewer.lock():
            self._mujoco.mj_setState(self._model, self._data, state, kind)
            self._mujoco.mj_forward(self._model, self._data)
        self._viewer.sync()

    def close(self) -> None:
        """Close the window."""
        self._viewer.close()
