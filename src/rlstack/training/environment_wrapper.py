"""An environment that another one stands in front of; everything that is not said otherwise is passed on."""

from __future__ import annotations

from typing import Any

from rlstack.tasks.core.interface import ScriptedEnvironment

_ANYTHING: Any = object
"""What a type checker lets stand for any protocol."""


class EnvironmentWrapper(_ANYTHING):  # type: ignore[misc]
    """A :class:`ScriptedEnvironment`; what a subclass does not define is the inner one's.

    Args:
        inner: What stands behind.
    """

    def __init__(self, inner: ScriptedEnvironment) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        """Return what the inner environment has under a name."""
        if name == "inner":  # not made yet, as when it is copied
            raise AttributeError(name)
        return getattr(self.inner, name)
