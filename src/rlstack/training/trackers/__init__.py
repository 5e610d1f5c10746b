"""Trackers: services that keep the figures of runs, beside TensorBoard's events in each run's folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from rlstack.registry import Registry

TRACKERS = Registry("tracker", "rlstack.training.trackers", "TRACKER", "rlstack.trackers")
"""Each entry is a :class:`Tracker` class."""


class Tracker(Protocol):
    """A run in a tracking service, which the library's own environment variables choose; one thread calls it.

    Args:
        name: Name of the run: that of its folder.
        folder: The run's folder.
        recipe: The whole recipe as plain data.
        run: What :attr:`run` was when the run began, to continue it; None: a new one.

    Raises:
        UserError: The library is not installed.
        Exception: Whatever the library raises.
    """

    run: str
    """The run's identity in the service."""

    def __init__(self, name: str, folder: Path, recipe: Mapping[str, Any], run: str | None) -> None: ...

    @property
    def place(self) -> str:
        """Where the run can be looked at, for people."""
        ...

    def log(self, scalars: Mapping[str, float], step: int) -> None:
        """Add scalars at an environment step."""
        ...

    def finish(self, figures: Mapping[str, float], policy: Path | None) -> None:
        """End the run: with the best policy's figures and its file, or without if it was interrupted or failed."""
        ...
