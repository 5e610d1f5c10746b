"""Behaviour cloning from images: train an encoder first, then a policy on its frozen features.

An encoder learns from demonstrations to predict their next action and, if the simulator knows it, the object's pose. It
is then frozen, all images become features, and these are cloned like states, with action chunks; see
:mod:`rlstack.training.algorithms.bc`.
"""

from __future__ import annotations

import copy
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rlstack.schema import value
from rlstack.tasks.core.learning_environment import LearningEnvironment
from rlstack.training.algorithm import Actor, IterationResult, cosine_decay
from rlstack.training.algorithms.bc import Cloner, CloneSettings, checked_losses
from rlstack.training.demonstrations import DemonstrationSettings, scripted
from rlstack.training.image_replay import ImageReplay, chunks, copy_images, open_image_replay
from rlstack.training.optimisers import AdamW
from rlstack.training.vision_encoder import LABELS, Encoder, VisionActor, shifted, split_of

_ENCODER_UPDATES, _POLICY_UPDATES = 20, 300
"""Updates in an iteration: of the encoder, then of the policy."""


@dataclass(frozen=True, kw_only=True)
class EncoderSettings:
    """Settings of the image encoder and its training."""

    channels: tuple[int, ...] = value((16, 32, 32), at_least=1)
    """Channels of the convolutions; each camera has its own."""
    hidden: tuple[int, ...] = value((128, 128), at_least=1)
    """Widths of the dense layers after them."""
    size: int = value(16, at_least=LABELS)
    """Number of features."""
    labels: float = value(1.0, at_least=0.0)
    """Weight of the loss on the object's pose, which only a simulator provides, in training; 0: learn from actions
    alone."""
    shift: int = value(1, at_least=0)
    """Largest random shift of images, pixels."""
    learning_rate: float = value(1e-3, above=0.0)
    """Initial learning rate; it decays to 0 along a cosine."""
    batch: int = value(64, at_least=1)
    """Batch size of an update."""


@dataclass(frozen=True, kw_only=True)
class BCCameraSettings(CloneSettings, DemonstrationSettings):
    """Settings of behaviour cloning from images."""

    demonstrations: int = value(250, at_least=1)
    stills: int = value(0, at_least=0)
    """Starts of further episodes with the expert's action there; none from a dataset."""
    stray: float = value(0.3, at_least=0.0)
    """Standard deviation of the noise on the expert's executed actions, 0 to 1."""
    looking: float = value(0.9, above=0.0, at_most=0.99)
    """Share of the run for the encoder; the rest is for the policy."""
    copies: int = value(2, at_least=1)
    """Number of randomly shifted encodings of each image for the policy."""
    encoder: EncoderSettings = EncoderSettings()


class EncoderTrainer:
    """Trains an encoder on demonstrations.

    Args:
        settings: Settings of the encoder.
        encoder: The encoder.
        actions: Number of actions.
        generator: Draws steps and shifts.
    """

    def __init__(self, settings: EncoderSettings, encoder: Encoder, actions: int, generator: torch.Generator) -> None:
        self.settings, self.encoder, self.generator = settings, encoder, generator
        inputs, width = encoder.split.state + encoder.size, settings.hidden[-1]
        self._head = nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, actions))
        self._optimiser = AdamW(self._parameters(), lr=settings.learning_rate, weight_decay=1e-4)

    def update(self, shown: ImageReplay, share: float) -> dict[str, Tensor]:
        """Update it once on a batch of steps; return scalars to log.

        Args:
            shown: Demonstrations.
            share: Completed share of the updates.
        """
        settings = self.settings
        for group in self._optimiser.param_groups:
            group["lr"] = cosine_decay(settings.learning_rate, 0.0, share)
        drawn = torch.randint(len(shown), (settings.batch,), generator=self.generator)
        state, labels, action = shown.state[drawn], shown.labels[drawn], shown.action[drawn]
        images = shifted(shown.images(drawn.numpy()), settings.shift, self.generator)
        seen = self.encoder(state, images.float())
        clone = (self._head(torch.cat([state, seen], dim=1)) - action).abs().mean()
        where = (seen[:, :LABELS] - labels).abs().mean(dim=0)
        loss = clone + settings.labels * where.sum()
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self._parameters(), 10.0)
        self._optimiser.step()
        return {"look": clone.detach(), "place_dm": where[:3].detach().mean(), "turn": where[3:].detach().mean()}

    def state_dict(self) -> dict[str, Any]:
        """Return networks, optimiser and random state."""
        networks = {"encoder": self.encoder.state_dict(), "head": self._head.state_dict()}
        state = {**networks, "optimiser": self._optimiser.state_dict(), "generator": self.generator.get_state()}
        return copy.deepcopy(state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        self.encoder.load_state_dict(state["encoder"])
        self._head.load_state_dict(state["head"])
        self._optimiser.load_state_dict(state["optimiser"])
        self.generator.set_state(state["generator"])

    def _parameters(self) -> list[nn.Parameter]:
        return [*self.encoder.parameters(), *self._head.parameters()]


class BCCamera:
    """Learns from demonstrations with images; see :class:`rlstack.training.algorithm.Algorithm`.

    Raises:
        UserError: The task has no scripted expert, or no cameras.
    """

    Settings = BCCameraSettings
    needs_gradients = False
    changeable = ("learning_rate",)

    def __init__(self, settings: BCCameraSettings, environment: LearningEnvironment) -> None:
        self.settings, self.environment = settings, scripted(environment, "bc_camera")
        self.steps_per_iteration = _ENCODER_UPDATES * settings.encoder.batch
        pipeline, vision = environment.pipeline, settings.encoder
        self.split = split_of(pipeline, "bc_camera")
        self.generator = torch.Generator().manual_seed(torch.initial_seed() % 2**63)
        encoder = Encoder(self.split, vision.channels, vision.hidden, vision.size)
        self.encoder_trainer = EncoderTrainer(vision, encoder, pipeline.action_size, self.generator)
        columns = self.split.state + encoder.size
        self.cloner = Cloner(settings, columns, pipeline.action_size, torch.initial_seed() % 2**32)
        self._shown: ImageReplay | None = None
        self._steps: tuple[Tensor, Tensor, Tensor] | None = None
        self._begun = self._cloning = False
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    def open(self, folder: Path | None) -> None:
        """Open the demonstrations in a run's folder; existing ones are reused."""
        settings = self.settings
        if folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="rlstack-pictures-")
            folder = Path(self._temporary.name)
        wanted = settings.demonstrations
        if settings.dataset:
            labelled = settings.encoder.labels > 0.0
            self._shown = copy_images(self.environment, self.split, folder, wanted, settings.dataset, labelled)
        else:
            self._shown = open_image_replay(
                self.environment, self.split, folder, wanted, settings.stills, settings.stray, self.generator
            )
        if not self._begun:
            self.encoder_trainer.encoder.normalise_by(self._shown.state)

    def iterate(self, done: float) -> IterationResult:
        """Learn from demonstrations; raise ``NotFinite`` naming the term that is not finite."""
        if self._shown is None:
            self.open(None)
        assert self._shown is not None
        self._begun = True
        looking = self.settings.looking
        if done < looking:
            each = [self.encoder_trainer.update(self._shown, done / looking) for _ in range(_ENCODER_UPDATES)]
            logged = {name: torch.stack([one[name] for one in each]).mean().item() for name in each[0]}
        else:
            if self._steps is None:
                self._steps = self.encode()
            if not self._cloning:
                self.cloner.actor.normalise_by(self._steps[0])
                self._cloning = True
            share = (done - looking) / (1.0 - looking)
            losses = [self.cloner.update(*self._steps, share) for _ in range(_POLICY_UPDATES)]
            logged = {"clone": torch.stack(losses).mean().item()}
        return IterationResult(0.0, 0.0, checked_losses(logged))

    def encode(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return all steps with encoded images; see :meth:`rlstack.training.algorithms.bc.Cloner.update`."""
        shown, copies, encoder = self._shown, self.settings.copies, self.encoder_trainer.encoder
        assert shown is not None
        seen, moved = [], torch.Generator().manual_seed(0)  # the same in a resumed run
        for k in range(copies):
            shift = self.settings.encoder.shift if k else 0
            for some in chunks(np.arange(len(shown))):
                with torch.no_grad():
                    found = encoder(shown.state[some], shifted(shown.images(some), shift, moved).float())
                seen.append(torch.cat([shown.state[some], found], dim=1))
        bounds = torch.cat([shown.bounds + k * len(shown) for k in range(copies)])
        return torch.cat(seen), shown.action.repeat(copies, 1), bounds

    def actor(self) -> Actor:
        """Return a copy of the current actor."""
        return copy.deepcopy(VisionActor(self.encoder_trainer.encoder, self.cloner.actor)).eval().requires_grad_(False)

    def change(self, settings: BCCameraSettings) -> None:
        """Go on with other settings; see :class:`rlstack.training.algorithm.ChangesInRun`."""
        self.settings = self.cloner.settings = settings

    def state_dict(self) -> dict[str, Any]:
        """Return networks, optimisers and random state; the demonstrations stay in their files."""
        parts = {"looker": self.encoder_trainer.state_dict(), "cloner": self.cloner.state_dict()}
        return {**parts, "begun": self._begun, "cloning": self._cloning}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        self.encoder_trainer.load_state_dict(state["looker"])
        self.cloner.load_state_dict(state["cloner"])
        self._begun, self._cloning = state["begun"], state["cloning"]


ALGORITHM = BCCamera
