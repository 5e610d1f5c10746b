"""Errors whose message is meant for the person at the keyboard."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something the user gave is wrong; the message says what, where, and what to do.

    The command line prints it as one sentence without a traceback and exits with status 2.
    """


class Diverged(RuntimeError):
    """A simulation's numbers are no numbers any more; the message says since when and for which robot."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UserError:
    """Return the error for an unknown ``name`` of a ``kind``, listing the nearest known names first."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    listing = ", ".join(names) or "none"
    hint = f" Nearest: {', '.join(near)}." if near else ""
    return UserError(f"Unknown {kind} '{name}'.{hint} Known: {listing}.")
