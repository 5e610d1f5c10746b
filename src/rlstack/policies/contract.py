"""The contract of a policy file: inputs, outputs, rate and provenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.interfaces.image_reader import ImageGeometry
from rlstack.interfaces.instruction import TextInput
from rlstack.interfaces.scan_geometry import ScanGeometry
from rlstack.policies.envelope import Envelope
from rlstack.schema import value

SCHEMA_VERSION = 2
"""Raised when a field changes meaning; loading refuses files of a newer version. 2: ``envelope`` is an Envelope."""

OLDEST_VERSION = 1
"""The oldest version that still loads. In it ``envelope`` holds the task's conditions alone."""

METADATA_KEY = "rlstack"
"""The one key in the model's metadata; its value is the contract as JSON."""

STATE_PREFIX, NEXT_STATE_PREFIX = "state.", "next_state."
"""Graph names of a recurrent state called ``x`` are ``state.x`` (input) and ``next_state.x`` (output)."""


PLAN, ACTION = "chunk.plan", "chunk.action"
"""Tensors within the graph of a policy that plans chunks: the actions that it plans, (batch, steps, axes), and the
present one of them, (batch, axes)."""

NOISE = "noise"
"""Input of a policy whose actions come from noise, (batch, *shape). It has a default in the graph, 0, which is the
noise's mean, so that it need not be given."""


@dataclass(frozen=True, kw_only=True)
class Port:
    """One named input or output of the graph, in SI units as on its topic.

    The graph's tensor has a leading batch axis (robots), so its shape is ``(batch, *shape)``, float32.
    """

    name: str
    shape: tuple[int | str, ...]
    """A name in it, such as ``points``, is a dynamic axis, whose size may differ between calls; ports that share a name
    share the size."""
    unit: str
    frame: str
    topic: str
    type: str
    field: str
    element_names: tuple[str, ...] = ()
    """Names of the elements, if any, such as rotors or joints; messages are matched by them."""
    minimum: tuple[float, ...] = ()
    maximum: tuple[float, ...] = ()
    """For outputs: the guaranteed range, per element."""
    scan: ScanGeometry | None = None
    """Of a scan: its rays, their range, and the lidar's pose."""
    picture: ImageGeometry | None = None
    """Of an image: its size, camera, and largest age."""
    text: TextInput | None = None
    """Of an instruction: the words that the policy knows."""

    @property
    def dynamic(self) -> tuple[str, ...]:
        """Names of the axes whose size may differ between calls."""
        return tuple(size for size in self.shape if isinstance(size, str))

    @property
    def limits(self) -> tuple[Array, Array]:
        """Of an output: ``minimum`` and ``maximum`` in its shape."""
        shape = self.sized({})
        return np.array(self.minimum, dtype=float).reshape(shape), np.array(self.maximum, dtype=float).reshape(shape)

    def sized(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape with named axes replaced by their size in ``sizes``."""
        return tuple(sizes[size] if isinstance(size, str) else size for size in self.shape)


@dataclass(frozen=True, kw_only=True)
class StatePort:
    """A recurrent state, which starts at zero and is internal to the graph."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Contract:
    """The interface of a policy file, from which users and nodes connect it.

    A policy for a family of robots has the family's name as ``robot``. Some of its inputs come from the robot file
    (their topic is empty), and its outputs have neither element names nor limits: loading the file for one robot fills
    them in.
    """

    schema_version: int
    name: str
    task: str
    robot: str
    rate_hz: float = value(unit="Hz", above=0.0)
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    state: tuple[StatePort, ...] = ()
    chunk: tuple[int, ...] = ()
    """Of a policy that plans several steps at once: the number of steps and of an action's axes. Its graph names the
    tensors :data:`PLAN` and :data:`ACTION`, at which it may be cut; where :data:`ACTION` is 0 the robot stays where it
    is. Empty: it plans each step."""
    noise: tuple[int, ...] = ()
    """Of a policy whose actions come from noise, such as a flow: the shape of its input :data:`NOISE`, each value of
    which was drawn from the standard normal distribution in training. Where it plans chunks, the noise counts in the
    steps in which it plans. Empty: it has none."""
    envelope: Envelope = field(default_factory=Envelope)
    """What it was trained for, and what its inputs and outputs must be for that to hold."""
    family: dict[str, tuple[float, float]] = field(default_factory=dict)
    """For a family: lowest and highest trained value of each parameter, by the names of
    :attr:`rlstack.robots.spec.RobotFamily.parameters`. Empty: it is for one robot."""
    training: dict[str, Any] = field(default_factory=dict)
    """Provenance: recipe, seed, steps, algorithm, time."""
    evaluation: dict[str, Any] = field(default_factory=dict)
    """Figures on held-out starts at the end of training."""
    code_version: str
    sha256: str = ""
    """Hash of the graph and this contract with this field empty; set when the file is written."""

    @property
    def optional(self) -> tuple[Port, ...]:
        """Inputs that need not be given, beside :attr:`inputs`, and that no topic has: the noise, if any."""
        if not self.noise:
            return ()
        return (Port(name=NOISE, shape=self.noise, unit="-", frame="", topic="", type="", field=""),)

    @property
    def needs_robot(self) -> bool:
        """Whether it is for a family and not yet bound to one robot."""
        return any(not port.topic for port in self.inputs)
