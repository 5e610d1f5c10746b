"""The observation pipeline: from named SI inputs to the network, and from its output back to a command in SI units.

The module that computes the training observation is exported into the policy file, so the two cannot differ. It
is a list of named terms; its table has the index, name, shape and unit of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class TermInfo:
    """Columns, shape, unit and meaning of one observation term."""

    name: str
    start: int
    size: int
    unit: str
    meaning: str


class Term(nn.Module):
    """One named part of the observation, with its memory.

    Attributes:
        name: Unique in its pipeline.
        size: Number of columns.
        unit: SI unit, or a dash.
        meaning: One line for the table.
        memory: Shapes of recurrent state by name; state starts at zero.
    """

    name: str
    size: int
    unit: str
    meaning: str
    memory: Mapping[str, tuple[int, ...]] = {}

    def prepare(self, inputs: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """Return values that :meth:`observe` and :meth:`remember` share, to be added to ``inputs`` under new names."""
        return {}

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return the columns (batch, size)."""
        raise TypeError(f"{type(self).__name__} does not define observe")

    def remember(self, inputs: Tensors, memory: Tensors, action: Tensor) -> dict[str, Tensor]:
        """Return the memory after ``action`` (batch, actions) in -1..1 was chosen; keys as in ``memory``."""
        return {}


class Pipeline(nn.Module):
    """Terms in order, then the scaling of the action.

    Args:
        terms: The observation's terms.
        output: Name of the command signal.
        minimum: (actions,) command at action -1, SI.
        maximum: (actions,) command at action +1, SI.
    """

    def __init__(self, terms: Sequence[Term], output: str, minimum: Sequence[float], maximum: Sequence[float]) -> None:
        super().__init__()
        names = [term.name for term in terms]
        if len(set(names)) != len(names):
            raise ValueError(f"observation terms must have unique names, got {names}")
        self.terms = nn.ModuleList(terms)
        self.output = output
        self.register_buffer("minimum", torch.tensor(minimum, dtype=torch.float32))
        self.register_buffer("maximum", torch.tensor(maximum, dtype=torch.float32))

    minimum: Tensor
    maximum: Tensor
    resting_action = 0.0
    """The action near which an untrained policy starts, where its settings give none."""
    stays = False
    """Whether the robot stays where it is under actions of 0."""

    @property
    def size(self) -> int:
        """Number of observation columns."""
        return sum(term.size for term in self._terms())

    @property
    def action_size(self) -> int:
        """Number of actions."""
        return int(self.minimum.shape[0])

    @property
    def memory(self) -> dict[str, tuple[int, ...]]:
        """Shapes of all recurrent state by name."""
        return {name: shape for term in self._terms() for name, shape in term.memory.items()}

    def initial_memory(self, batch: int) -> dict[str, Tensor]:
        """Return zeros for every recurrent state, with a leading batch axis."""
        return {name: torch.zeros(batch, *shape, device=self.minimum.device) for name, shape in self.memory.items()}

    def prepare(self, inputs: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """Return the inputs with shared values: ``rotation`` (batch, 3, 3), if they have an orientation, and those that
        the terms prepare."""
        prepared = dict(inputs)
        if "orientation" in inputs:
            prepared["rotation"] = rotation_matrix(inputs["orientation"])
        for term in self._terms():
            prepared.update(term.prepare(prepared, memory))
        return prepared

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return the observation (batch, size) of prepared inputs and memory."""
        return torch.cat([term.observe(inputs, memory) for term in self._terms()], dim=-1)

    def clip(self, action: Tensor) -> Tensor:
        """Return the action clipped to -1..1."""
        return action.clamp(-1.0, 1.0)

    def command(self, action: Tensor, inputs: Tensors) -> Tensor:
        """Return the command (batch, actions) in SI units for a clipped action; ``inputs`` as prepared."""
        return self.minimum + (action + 1.0) * (0.5 * (self.maximum - self.minimum))

    def action_of(self, command: Tensor, inputs: Tensors) -> Tensor:
        """Return the clipped action (batch, actions) whose command is nearest to one of someone else's."""
        return self.clip((command - self.minimum) * (2.0 / (self.maximum - self.minimum)) - 1.0)

    def remember(self, inputs: Tensors, memory: Tensors, action: Tensor) -> dict[str, Tensor]:
        """Return all memory after a clipped ``action``; ``inputs`` as prepared for the observation."""
        after: dict[str, Tensor] = {}
        for term in self._terms():
            after.update(term.remember(inputs, memory, action))
        return after

    def remember_command(self, inputs: Tensors, memory: Tensors, action: Tensor, command: Tensor) -> dict[str, Tensor]:
        """Return all memory after a clipped ``action`` whose ``command`` is already known."""
        return self.remember(inputs, memory, action)

    def term(self, name: str) -> Term:
        """Return the term of that name.

        Raises:
            KeyError: There is none.
        """
        return {term.name: term for term in self._terms()}[name]

    def table(self) -> list[TermInfo]:
        """Return one row for each term, in order."""
        return term_table((term.name, term.size, term.unit, term.meaning) for term in self._terms())

    def _terms(self) -> list[Term]:
        return [term for term in self.terms if isinstance(term, Term)]


def term_table(terms: Iterable[tuple[str, int, str, str]], start: int = 0) -> list[TermInfo]:
    """Return terms (name, size, unit, meaning) as consecutive columns from ``start``."""
    rows = []
    for name, size, unit, meaning in terms:
        rows.append(TermInfo(name, start, size, unit, meaning))
        start += size
    return rows


def rotation_matrix(q: Tensor) -> Tensor:
    """Return the body-to-world matrices (batch, 3, 3) of unit quaternions (batch, 4) xyzw."""
    x, y, z, w = (2.0 * q).unbind(dim=-1)
    qx, qy, qz = q[:, 0], q[:, 1], q[:, 2]
    xx, yy, zz = x * qx, y * qy, z * qz
    xy, xz, yz = x * qy, x * qz, y * qz
    wx, wy, wz = w * qx, w * qy, w * qz
    columns = [1 - yy - zz, xy - wz, xz + wy, xy + wz, 1 - xx - zz, yz - wx, xz - wy, yz + wx, 1 - xx - yy]
    return torch.stack(columns, dim=-1).reshape(-1, 3, 3)


def to_world(rotation: Tensor, v: Tensor) -> Tensor:
    """Rotate body vectors (batch, 3) by body-to-world matrices (batch, 3, 3)."""
    return (rotation * v.unsqueeze(1)).sum(dim=2)


def to_body(rotation: Tensor, v: Tensor) -> Tensor:
    """Rotate world vectors (batch, 3) by the inverses of body-to-world matrices (batch, 3, 3)."""
    return (rotation * v.unsqueeze(2)).sum(dim=1)
