"""A policy that a LeRobot policy server steps, with the interface of a policy file."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces.lerobot_features import LerobotFeatures
from rlstack.interfaces.signals import IMAGE_CAMERAS
from rlstack.policies.output_error import PolicyOutputError
from rlstack.policies.robot_contract import contract_for
from rlstack.policies.served.action_queue import ActionQueue
from rlstack.policies.served.actions import TimedAction
from rlstack.policies.served.link import Request, ServerLink
from rlstack.policies.served.settings import ServerSettings
from rlstack.robots import RobotSpec


class ServedPolicy:
    """Sends observations to the server before its actions run out, and steps through those that it sends.

    While there are no actions the robot gets no command, and the guard takes over. Only for the time that the first
    answer of an episode may take is it told to stay as it is.

    Args:
        settings: Server and policy.
        robot: The robot.

    Raises:
        UserError: The robot lacks a camera or does not take commands at LeRobot's rates, or gRPC is not installed.
    """

    sha256 = ""
    """It is no file."""

    def __init__(self, settings: ServerSettings, robot: RobotSpec) -> None:
        self._settings = settings
        self.path = Path(f"the policy server {settings.address}")
        self.features = LerobotFeatures(robot, settings.units, settings.reverse, speeds=settings.speeds)
        for camera in settings.cameras:
            if camera not in IMAGE_CAMERAS:
                raise UserError(f"cameras: '{camera}' is not allowed: policies take {', '.join(IMAGE_CAMERAS)}.")
        self._pictures = {camera: f"{camera}_image" for camera in settings.cameras}
        self.contract = contract_for(
            robot,
            [*self.features.inputs, *self._pictures.values()],
            [self.features.command],
            name="lerobot",
            task=settings.task,
            rate_hz=settings.rate_hz,
            state={"actions": (settings.actions,)},  # so that the guard has it start anew
        )
        self._queue, self._lock = ActionQueue(settings.share), threading.Lock()
        self._episode, self._begun_s, self._chunk = 0, -np.inf, settings.actions
        self._waits = True
        """Whether this episode has not had any actions yet."""
        self._last: Array | None = None
        self.link = ServerLink(
            settings, self._dataset_features(), len(self.features.action_names), self._on_chunk, self._on_lost
        )

    def reset(self, batch: int = 1) -> None:
        """Forget all actions: the next step asks for new ones."""
        with self._lock:
            self._episode += 1
            self._queue.clear()
            self._waits, self._begun_s = True, -np.inf

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the command that is due.

        Raises:
            PolicyOutputError: There is none: the server is lost, too slow, or has sent something else than actions.
        """
        now = time.monotonic()
        if self.link.why_not:
            raise PolicyOutputError(self.link.why_not)
        with self._lock:
            action = self._queue.take()
            left, step = len(self._queue), self._queue.step
            episode, waits = self._episode, self._waits
        if self.link.is_free and left <= self._settings.refill * self._chunk:
            self.link.ask(Request(episode, step, self._observed(inputs), now))
        if action is not None:
            self._last = self.features.command_values(action)
        elif waits:
            self._last = self._standstill(inputs, now)
        else:
            raise PolicyOutputError(f"{self.path} has sent no action for the step {step}")
        return {self.features.command: self._last}

    def _standstill(self, inputs: Mapping[str, Array], now: float) -> Array:
        """Return the command to stay, while the first actions of an episode are awaited."""
        if np.isinf(self._begun_s):
            self._begun_s = now
        command = self.features.standstill(inputs, self._last)
        if command is None or now - self._begun_s > self._settings.timeout_s:
            raise PolicyOutputError(f"{self.path} has sent no actions yet")
        return command

    def _observed(self, inputs: Mapping[str, Array]) -> dict[str, Any]:
        seen: dict[str, Any] = self.features.state(inputs)
        for camera, name in self._pictures.items():
            seen[camera] = np.array(inputs[name], dtype=np.uint8)
        return {**seen, "task": self._settings.task}

    def _on_chunk(self, request: Request, chunk: Sequence[TimedAction]) -> None:
        with self._lock:
            if request.episode == self._episode:
                self._waits, self._chunk = False, len(chunk)
                self._queue.add(chunk)

    def _on_lost(self, why: str) -> None:
        with self._lock:
            self._queue.clear()
            self._waits = False  # no standing still by its command: the guard decides

    def _dataset_features(self) -> dict[str, Any]:
        """Return the observations as features of a LeRobot dataset."""
        names = list(self.features.state_names)
        found: dict[str, Any] = {"observation.state": {"dtype": "float32", "shape": (len(names),), "names": names}}
        shapes = {port.name: port.shape for port in self.contract.inputs}
        for camera, name in self._pictures.items():
            found[f"observation.images.{camera}"] = {
                "dtype": "image",
                "shape": shapes[name],
                "names": ["height", "width", "channels"],
            }
        return found
