"""The names of a robot's frames, which its nodes share: ``odom``, ``base_link`` and ``map``, with a prefix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.nodes.parameters import Parameter, ParameterSet

PREFIX = Parameter(
    "frame_prefix", "", "Prefix of the robot's frames, such as cf1/, so that several robots can share /tf."
)
FRAME_PARAMETERS = (
    PREFIX,
    Parameter(
        "odom_frame",
        "",
        "Whole name of the frame of odometry, where it lacks the prefix; empty: the prefix and odom.",
    ),
)
"""Parameters of every node that takes poses or scans."""


@dataclass(frozen=True)
class Frames:
    """Names of one robot's frames.

    Args:
        prefix: What they begin with.
        odom: The frame of its odometry.
        fixed_base: Whether it stands where it is: goals are from its base, which is ``odom`` unless robots share that.
        shared: Whether robots of one simulation share ``odom``.
    """

    prefix: str = ""
    odom: str = topics.WORLD_FRAME
    fixed_base: bool = False
    shared: bool = False

    @property
    def base(self) -> str:
        """``base_link``."""
        return self.prefix + topics.BODY_FRAME

    @property
    def map(self) -> str:
        """``map``."""
        return map_of(self.odom)

    @property
    def world(self) -> str:
        """The frame that goals, paths, people and objects are wanted in."""
        return self.base if self.fixed_base else self.odom

    @property
    def goal(self) -> str:
        """The frame that messages of goals are sent in: the same as :attr:`world`, by the more usual name."""
        return self.base if self.fixed_base and self.shared else self.odom

    def mark(self, message: Any) -> Any:
        """Return a message that is in ``base_link`` in this robot's."""
        header = getattr(message, "header", None)
        if header is not None and header.frame_id == topics.BODY_FRAME:
            header.frame_id = self.base
        return message

    def is_world(self, frame: str) -> bool:
        """Return whether a header's ``frame_id`` is :attr:`world`; without a name it is."""
        named = frame.lstrip("/")
        return named in ("", self.world) or (self.fixed_base and not self.shared and named == self.odom)


def map_of(odom: str) -> str:
    """Return the frame ``map`` beside a frame ``odom``, with its prefix."""
    return odom.removesuffix(topics.WORLD_FRAME) + topics.MAP_FRAME


def checked_prefix(prefix: str) -> str:
    """Return a frame prefix; raise ``UserError`` for one that TF would not take."""
    if prefix.startswith("/") or any(c.isspace() for c in prefix):
        raise UserError(
            f"The frame prefix '{prefix}' is not allowed: no slash at the beginning, and no spaces; such as cf1/."
        )
    return prefix


def frames_of(parameters: ParameterSet, *, fixed_base: bool = False) -> Frames:
    """Return the frames of a node with :data:`FRAME_PARAMETERS`.

    Raises:
        UserError: The prefix is not allowed.
    """
    prefix, odom = checked_prefix(parameters["frame_prefix"]), parameters["odom_frame"]
    return Frames(prefix, odom or prefix + topics.WORLD_FRAME, fixed_base, bool(odom))
