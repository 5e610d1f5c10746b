"""Environment wrappers: their base class, and one that replaces camera images with the features of a frozen encoder.

The encoder stays fixed as in HIL-SERL (Luo et al., arXiv 2410.21845).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from rlstack.tasks.core.learning_environment import GoalStep, ScriptedEnvironment
from rlstack.tasks.core.pipeline import Pipeline, TermInfo
from rlstack.training.vision_encoder import Encoder, encoded

_ANYTHING: Any = object
"""A base class that lets a type checker accept wrappers as any protocol."""


class EnvironmentWrapper(_ANYTHING):  # type: ignore[misc]
    """Wraps an environment and forwards what a subclass does not define.

    Args:
        inner: The wrapped environment.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        """Return the attribute of the wrapped environment."""
        if name == "inner":  # not set yet, as when copying
            raise AttributeError(name)
        return getattr(self.inner, name)


class EncodedPipeline:
    """The pipeline attributes that algorithms read, for observations with encoded images.

    Args:
        pipeline: The task's pipeline.
        encoder: Encoder of the images.
    """

    def __init__(self, pipeline: Pipeline, encoder: Encoder) -> None:
        self.inner, self.size = pipeline, encoder.split.state + encoder.size
        self.action_size = pipeline.action_size
        self.axes: tuple[str, ...] = tuple(getattr(pipeline, "axes", ()))
        """Motion of the actions, if the pipeline has one."""
        self._seen = TermInfo("seen", encoder.split.state, encoder.size, "-", "features of the images")

    def table(self) -> list[TermInfo]:
        """Return one row a term, in order."""
        return [*self.inner.table()[:-1], self._seen]


class EncodedEnvironment(EnvironmentWrapper):
    """See :class:`rlstack.tasks.core.learning_environment.ScriptedEnvironment`.

    Args:
        inner: N copies of a task whose observation ends with images.
        encoder: Encoder of the images; it stays fixed.
    """

    def __init__(self, inner: ScriptedEnvironment, encoder: Encoder) -> None:
        super().__init__(inner)
        self.encoder = encoder
        self.pipeline = EncodedPipeline(inner.pipeline, encoder)
        self.critic_size = self.pipeline.size

    def observe(self) -> tuple[Tensor, Tensor]:
        """Return the actor's and the critic's observations (N, size), which are the same."""
        seen = self._encode(self.inner.observe()[0])
        return seen, seen

    def step(self, action: Tensor) -> GoalStep:
        """Apply actions (N, actions)."""
        result = self.inner.step(action)
        after = self._encode(result.next_actor)
        now = after
        if result.done.any():
            now = after.clone()
            now[result.done] = self._encode(result.actor[result.done])
        return replace(result, actor=now, critic=now, next_actor=after)

    def critic_table(self) -> list[TermInfo]:
        """Return one row for each term of the critic's observation, in order."""
        rows: list[TermInfo] = self.pipeline.table()
        return rows

    def _encode(self, observation: Tensor) -> Tensor:
        with torch.no_grad():
            return encoded(self.encoder, observation)
