"""A base class for wrappers of environments."""

from __future__ import annotations

from typing import Any

from rlstack.tasks.core.interface import ScriptedEnvironment

_ANYTHING: Any = object
"""A base class that lets a type checker accept wrappers as any protocol."""


class EnvironmentWrapper(_ANYTHING):  # type: ignore[misc]
    """Wraps a :class:`ScriptedEnvironment` and forwards what a subclass does not define.

    Args:
        inner: The wrapped environment.
    """

    def __init__(self, inner: ScriptedEnvironment) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        """Return the attribute of the wrapped environment."""
        if name == "inner":  # not set yet, as when copying
            raise AttributeError(name)
        return getattr(self.inner, name)
