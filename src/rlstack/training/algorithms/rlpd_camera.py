"""RLPD from images, with the frozen encoder of a cloning run; the replay buffer stores its features, not images.

An update costs as much as one from states; see :mod:`rlstack.training.algorithms.rlpd` and
:mod:`rlstack.training.environment_wrappers`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlstack.errors import UserError
from rlstack.schema import value
from rlstack.tasks.core.learning_environment import LearningEnvironment, ScriptedEnvironment
from rlstack.training.algorithm import Actor
from rlstack.training.algorithms.bc_camera import EncoderSettings
from rlstack.training.algorithms.rlpd import RLPD, RLPDSettings
from rlstack.training.demonstrations import scripted
from rlstack.training.environment_wrappers import EncodedEnvironment
from rlstack.training.run_folder import load_checkpoint
from rlstack.training.vision_encoder import Encoder, VisionActor, split_of


@dataclass(frozen=True, kw_only=True)
class RLPDCameraSettings(RLPDSettings):
    """Settings of RLPD from images."""

    cloned: str = value("")
    """Folder of the bc_camera run that has the encoder."""
    encoder: EncoderSettings = field(default_factory=EncoderSettings)
    """Settings of that run's encoder."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.apart and self.hindsight:
            raise ValueError("hindsight: must be 0 with apart: the learner has no encoder to relabel goals with.")


class RLPDCamera(RLPD):
    """See :class:`rlstack.training.algorithms.rlpd.RLPD`.

    Raises:
        UserError: The task has no scripted expert, or no cameras.
    """

    Settings = RLPDCameraSettings
    fine_tunes = ""
    settings: RLPDCameraSettings

    def __init__(self, settings: RLPDCameraSettings, environment: LearningEnvironment) -> None:
        inner, vision = scripted(environment, "rlpd_camera"), settings.encoder
        self.encoder = Encoder(
            split_of(environment.pipeline, "rlpd_camera"), vision.channels, vision.hidden, vision.size
        )
        self.encoder.eval().requires_grad_(False)
        self._loaded = False
        super().__init__(settings, self._with_reward(EncodedEnvironment(inner, self.encoder), settings))

    def open(self, folder: Path | None) -> None:
        """Load the encoder, unless resuming; then open steps and demonstrations in a run's folder."""
        self.load_encoder()
        super().open(folder)

    def load_encoder(self) -> None:
        """Load the encoder, unless it is loaded.

        Raises:
            UserError: The settings name no encoder, or one that does not fit.
        """
        if not self._loaded:
            self.encoder.load_state_dict(_encoder_of(self.settings.cloned, self.encoder))
        self._loaded = True

    def begin_as_worker(self, fixed: Any) -> None:
        """Act for a learner elsewhere; see :class:`rlstack.training.rollout_worker.RollsOut`."""
        self.encoder.load_state_dict(fixed["encoder"])
        super().begin_as_worker(fixed)

    def actor(self) -> Actor:
        """Return a copy of the current actor, with its encoder."""
        return VisionActor(copy.deepcopy(self.encoder), super().actor()).eval().requires_grad_(False)

    def state_dict(self) -> dict[str, Any]:
        """Return networks, optimisers, environment and random state; replayed steps stay in their files."""
        return {**super().state_dict(), "encoder": copy.deepcopy(self.encoder.state_dict()), "seeing": self._loaded}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        super().load_state_dict(state)
        self.encoder.load_state_dict(state["encoder"])
        self._loaded = state["seeing"]

    def _fixed(self) -> dict[str, Any]:
        return {"encoder": self.encoder.state_dict()}

    def _with_reward(self, environment: ScriptedEnvironment, settings: RLPDCameraSettings) -> ScriptedEnvironment:
        """Return the environment with the reward to learn from."""
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
        why = "has no encoder" if not state else "has an encoder for other cameras, images or sizes"
        raise UserError(
            f"algorithm_settings: cloned: {cloned} {why}: name a run of bc_camera for this task and robot, with the"
            " same settings of the encoder."
        )
    return state


ALGORITHM = RLPDCamera
