"""Scripted input, one reading per step, for tests and repeatable demonstrations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from rlstack import schema
from rlstack.errors import UserError
from rlstack.hardware.devices import STOP, TeleopInput
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.schema import value
from rlstack.yaml_files import read_yaml

Three = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class Move:
    """Input for some steps."""

    steps: int = value(1, at_least=1)
    linear: Three = (0.0, 0.0, 0.0)
    """Share of full speed along x, y, z, -1..1."""
    angular: Three = (0.0, 0.0, 0.0)
    gripper: float = value(0.0, at_least=-1.0, at_most=1.0)
    intervene: bool = True
    said: Literal["", "save", "discard", "stop"] = ""
    """Event in the first of the steps."""


@dataclass(frozen=True, kw_only=True)
class Moves:
    """A script's file."""

    moves: tuple[Move, ...]


class Script:
    """See :class:`rlstack.hardware.devices.Device`.

    Args:
        where: A YAML file with ``moves``, see :class:`Move`.
        robot: The robot to teleoperate.

    Raises:
        UserError: The file cannot be read, or a field is unknown or out of range.
    """

    live = False
    keys = "The script leads."

    def __init__(self, where: str, robot: Manipulator) -> None:
        if not where:
            raise UserError("The device script needs its file: script:FILE.yaml.")
        self._moves = schema.load(Moves, read_yaml(where, "the script"), where).moves
        self.open()

    def open(self) -> None:
        """Start at the first step."""
        self._at, self._step = 0, 0

    def read(self) -> TeleopInput:
        """Return the next step's input; after the last step, stop."""
        if self._at >= len(self._moves):
            return TeleopInput(intervene=False, events=(STOP,))
        move, first = self._moves[self._at], self._step == 0
        self._step += 1
        if self._step >= move.steps:
            self._at, self._step = self._at + 1, 0
        events = (move.said,) if move.said and first else ()
        return TeleopInput(np.array(move.linear), np.array(move.angular), move.gripper, move.intervene, events=events)

    def close(self) -> None:
        """Do nothing."""


DEVICE = Script
