"""A simulation that runs in this process, in a browser."""

from __future__ import annotations

import sys
import time
from typing import Any

from numpy.typing import NDArray

from rlstack.view.mujoco_scene import MujocoScene
from rlstack.view.server import ViewServer

_PERIOD_S = 1.0 / 30.0


class SimulationView:
    """A page that shows states of a MuJoCo model; its address is printed.

    Args:
        model: A ``mujoco.MjModel``.
        port: See :class:`rlstack.view.server.ViewServer`.

    Raises:
        UserError: viser is not installed.
    """

    def __init__(self, model: Any, port: int = 8080) -> None:
        self.server = ViewServer(port=port)
        viser = self.server.viser
        viser.initial_camera.position, viser.initial_camera.look_at = (1.3, -1.0, 0.9), (0.35, 0.0, 0.2)
        self._scene = MujocoScene(viser.scene, model)
        self._shown_at = 0.0
        print(f"Open {self.server.url} in a browser to see it.", file=sys.stderr, flush=True)

    def show(self, state: NDArray[Any]) -> None:
        """Show a state (width,), at most 30 times a second, and only if a browser looks."""
        now = time.monotonic()
        if now - self._shown_at >= _PERIOD_S and self.server.watched:
            self._shown_at = now
            with self.server.viser.atomic():
                self._scene.show(state)

    def close(self) -> None:
        """Close the page."""
        self.server.close()
