"""Limits of a guard that change while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlstack import schema
from rlstack.errors import UserError
from rlstack.guard.config import shown
from rlstack.guard.guard import Guard


class LiveLimits:
    """The limits :attr:`Guard.LIVE` of a guard: as tight as wanted, and no wider than those that it was started with.

    Args:
        guard: The guard, with the configuration that it was started with.
    """

    def __init__(self, guard: Guard[Any]) -> None:
        self._guard, self._started = guard, guard.config

    def change(self, wanted: Mapping[str, Any]) -> None:
        """Change limits, all or none; a robot that is beyond them now is brought inside, see :meth:`Guard.adopt`.

        Args:
            wanted: Values by name, of limits in :attr:`Guard.LIVE`.

        Raises:
            UserError: A value is not allowed, or wider than that which the guard was started with.
        """
        config = schema.load(type(self._started), {**vars(self._guard.config), **wanted}, "guard settings")
        for name in wanted:
            value, started = getattr(config, name), getattr(self._started, name)
            if config.is_wider(name, value, started):
                raise UserError(
                    f"{name}: {shown(value)} is wider than the {shown(started)} that the guard was started with: give a"
                    " tighter limit, or end the guard and start it with a wider one."
                )
        self._guard.adopt(config)
