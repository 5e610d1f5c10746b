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


def view_wanted(view: bool, no_view: bool) -> bool:
    """Return whether to open the view, by the options ``--view`` and ``--no-view``: by default, if a person watches.

    Two options, since one whose default depends on the terminal would accept ``--view`` only where it is not the
    default.
    """
    return view or (person_watches() and not no_view)
