"""Whether the browser view is opened unasked."""

from __future__ import annotations

import importlib.util
import sys


def can_view() -> bool:
    """Return whether the browser view is installed."""
    return importlib.util.find_spec("viser") is not None


def person_watches() -> bool:
    """Return whether a person sits at the terminal, and the browser view is installed."""
    return sys.stdout.isatty() and can_view()
