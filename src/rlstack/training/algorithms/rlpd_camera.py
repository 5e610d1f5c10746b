"""RLPD from images, with the frozen encoder of a cloning run; the replay buffer stores its features, not images.

An update costs as much as one from states; see :mod:`rlstack.training.algorithms.rlpd` and
:mod:`rlstack.training.encoded_environment`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlstack.errors import UserError
from rlstack.schema import value
from rlstack.tasks.core.interface import LearningEnvironment, ScriptedEnvironment
from rlstack.training.algorithm import Actor
from rlstack.training.algorithms.bc_camera import EncoderSettings
from rlstack.training.algorithms.rlpd import RLPD, RLPDSettings
from rlstack.training.checkpoint import load_checkpoint
from rlstack.training.demonstrations import scripted
from rlstack.training.encoded_environment import EncodedEnvironment
from rlstack.training.vision_encoder import Encoder, VisionActor, split_of


@dataclass(frozen=True, kw_only=True)
class RLPDCameraSettings(RLPDSettings):
    """Settings of RLPD from images."""

    cloned: str = value("")
    """Folder of the bc_camera run that has the encoder."""
    encoder: EncoderSettings = field(default_factory=EncoderSettings)
    """Settings of that run's encoder."""


class RLPDCamera(RLPD):
    """See :class:`rlstack.training.algorithms.rlpd.RLPD`.

    Args:
        settings: The recipe's algorithm settings.
        environment: N copies of a task with cameras that has a scripted expert.

    Raises:
        UserError: The task has none, or no cameras.
    """

    Settings = RLPDCameraSettings
    settings: RLPDCameraSettings

    def __init__(self, settings: RLPDCameraSettings, environment: LearningEnvironment) -> None:
        inner, look = scripted(environment, "rlpd_camera"), settings.encoder
        self.encoder = Encoder(split_of(environment.pipeline, "rlpd_camera"), look.channels, look.hidden, look.size)
        self.encoder.eval().requires_grad_(False)
        self._seeing = False
        super().__init__(settings, self._judged(EncodedEnvironment(inner, self.encoder), settings))

    def open(self, folder: Path | None) -> None:
        """Load the encoder, unless resuming; then open steps and demonstrations in a run's folder."""
        self.see()
        super().open(folder)

    def see(self) -> None:
        """Load the encoder, unless it is loaded.

        Raises:
            UserError: The settings name no encoder, or one that does not fit.
        """
        if not self._seeing:
            self.encoder.load_state_dict(_encoder_of(self.settings.cloned, self.encoder))
        self._seeing = True

    def actor(self) -> Actor:
        """Return a copy of the current actor, with its encoder."""
        return VisionActor(copy.deepcopy(self.encoder), super().actor()).eval().requires_grad_(False)

    def state_dict(self) -> dict[str, Any]:
        """Return networks, optimisers, environment and random state; replayed steps stay in their files."""
        return {**super().state_dict(), "encoder": copy.deepcopy(self.encoder.state_dict()), "seeing": self._seeing}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        super().load_state_dict(state)
        self.encoder.load_state_dict(state["encoder"])
        self._seeing = state["seeing"]

    def _judged(self, environment: ScriptedEnvironment, settings: RLPDCameraSettings) -> ScriptedEnvironment:
        """Return the environment to learn from."""
        return environment


def _encoder_of(cloned: str, encoder: Encoder) -> dict[str, Any]:
    """Return the weights of a run's encoder.

    Raises:
        UserError: No run is named, or its encoder is missing or does not fit.
    """
    if not cloned:
        raise UserError(
            "algorithm_settings: cloned: is empty: name the folder of a run of bc_camera, such as"
            " runs/arm_pick_place_camera-001, for its encoder."
        )
    state: dict[str, Any] = load_checkpoint(Path(cloned))["algorithm"].get("looker", {}).get("encoder", {})
    held, wanted = ({n: tuple(t.shape) for n, t in one.items()} for one in (state, encoder.state_dict()))
    if held != wanted:
        told = "has no encoder" if not state else "has an encoder of other cameras, pictures or sizes"
        raise UserError(
            f"algorithm_settings: cloned: {cloned} {told}: name a run of bc_camera for this task and robot, with the"
            " same settings of the encoder."
        )
    return state


ALGORITHM = RLPDCamera
