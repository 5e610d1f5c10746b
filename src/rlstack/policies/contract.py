"""The contract that a policy file carries: what goes in, what comes out, at which rate, and where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rlstack.interfaces.image_reader import PictureGeometry
from rlstack.interfaces.laser_scans import ScanGeometry
from rlstack.schema import value

SCHEMA_VERSION = 1
"""Raised when a field changes meaning; loading refuses files of another version."""

METADATA_KEY = "rlstack"
"""The one key in the model's metadata; its value is the contract as JSON."""

STATE_PREFIX, NEXT_STATE_PREFIX = "state.", "next_state."
"""Graph names of a recurrent state called ``x`` are ``state.x`` (input) and ``next_state.x`` (output)."""


@dataclass(frozen=True, kw_only=True)
class Port:
    """One named input or output of the graph, in SI units as on its topic.

    The graph's tensor has a leading batch axis (robots), so its shape is ``(batch, *shape)``, float32.
    """

    name: str
    shape: tuple[int | str, ...]
    """A name in it, such as ``points``, is an axis whose size may differ from call to call; ports that share a name
    share the size."""
    unit: str
    frame: str
    topic: str
    type: str
    field: str
    element_names: tuple[str, ...] = ()
    """Names of the elements where they have some, such as rotors or joints; messages are matched by them."""
    minimum: tuple[float, ...] = ()
    maximum: tuple[float, ...] = ()
    """For outputs: the range that the graph never leaves, per element."""
    scan: ScanGeometry | None = None
    """Of a scan: its rays, what they reach, and where the lidar sits."""
    picture: PictureGeometry | None = None
    """Of a picture: its size, the camera that it is of, and how old it may be."""

    @property
    def dynamic(self) -> tuple[str, ...]:
        """Names of the axes whose size may differ from call to call."""
        return tuple(size for size in self.shape if isinstance(size, str))

    def sized(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape with every named axis of its size in ``sizes``."""
        return tuple(sizes[size] if isinstance(size, str) else size for size in self.shape)


@dataclass(frozen=True, kw_only=True)
class StatePort:
    """A recurrent state; it starts at zero and its meaning stays inside the graph."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Contract:
    """Everything that a user of a policy file must know, and all that the nodes use to wire it.

    A policy for a family of robots bears the family's name as ``robot``. Some of its inputs come from the robot file
    (their topic is empty), and its outputs have neither element names nor limits: all of that is there once the file
    is loaded for one robot.
    """

    schema_version: int
    name: str
    task: str
    robot: str
    rate_hz: float = value(unit="Hz", above=0.0)
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    state: tuple[StatePort, ...] = ()
    envelope: dict[str, float] = field(default_factory=dict)
    """The start states and limits it was trained for, SI units in the keys, such as ``tilt_rad``."""
    family: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Of a policy for many vehicles: lowest and highest value of each parameter that it was trained over, by the names
    of :attr:`rlstack.robots.family.RobotFamily.parameters`. Empty: it is for one robot."""
    training: dict[str, Any] = field(default_factory=dict)
    """Provenance: recipe, seed, steps, algorithm, time."""
    evaluation: dict[str, Any] = field(default_factory=dict)
    """Figures on held-out starts at the end of training."""
    code_version: str
    sha256: str = ""
    """Of the graph and this contract together with this field empty; set when the file is written."""

    @property
    def needs_robot(self) -> bool:
        """Whether it is for a family and not yet for one robot of it."""
        return any(not port.topic for port in self.inputs)
