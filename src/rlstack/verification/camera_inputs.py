"""Camera images for a policy in process, with the same timing, latency and age as over topics."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.errors import UserError
from rlstack.interfaces.image_reader import age_s, fit_image
from rlstack.interfaces.messages import seconds_to_ns
from rlstack.interfaces.sensor_queue import SensorQueue
from rlstack.policies import Contract


class CameraInputs:
    """The newest images that a policy's contract names, and their ages.

    Args:
        backend: A backend with cameras; only images that the policy takes are rendered.
        contract: The policy's contract; its robot is checked, see :func:`rlstack.policies.robot_contract.check_robot`.
    """

    def __init__(self, backend: Any, contract: Contract) -> None:
        self._backend = backend
        self._ports = {p.name: p for p in contract.inputs if p.picture is not None}
        self._cameras = {name: port.topic.partition("/")[0] for name, port in self._ports.items()}
        by_topic = {port.topic: name for name, port in self._ports.items()}
        self._ages = {p.name: by_topic[p.topic] for p in contract.inputs if p.topic in by_topic and p.picture is None}
        self._queues: dict[str, SensorQueue[NDArray[np.uint8]]] = {}
        for name, camera in self._cameras.items():
            spec = backend.robot.cameras[camera]
            self._queues[name] = SensorQueue(spec.rate_hz, seconds_to_ns(spec.latency_s))

    def begin(self) -> None:
        """Reset for an episode that starts at time 0; then call :meth:`look`."""
        for queue in self._queues.values():
            queue.restart(0)

    def look(self, now_ns: int) -> None:
        """Take the images that are due; call it once in every control period of the robot.

        Args:
            now_ns: Time since the start of the episode.
        """
        for name, queue in self._queues.items():
            if queue.is_due(now_ns):
                queue.push(now_ns, now_ns, self._backend.capture(self._cameras[name]).arrays["rgb"])
            queue.pop_arrived(now_ns)

    def signals(self, now_ns: int) -> dict[str, NDArray[Any]]:
        """Return the images (height, width, 3) uint8, and their ages (1,) s.

        Raises:
            UserError: An image is older than the policy allows: the camera is too slow for it.
        """
        found: dict[str, NDArray[Any]] = {}
        for name, port in self._ports.items():
            newest, geometry = self._queues[name].newest, port.picture
            assert newest is not None and geometry is not None  # the first is available at once
            old_s = age_s(now_ns, newest[0])
            if old_s > geometry.max_age_s:
                raise UserError(
                    f"The newest picture of the camera '{self._cameras[name]}' is {old_s:.3f} s old, and the policy"
                    f" acts on none older than {geometry.max_age_s:g} s: see its rate_hz and latency_s in the robot"
                    " file."
                )
            found[name] = fit_image(newest[1], geometry)
            found.update((age, np.array([old_s])) for age, image in self._ages.items() if image == name)
        return found
