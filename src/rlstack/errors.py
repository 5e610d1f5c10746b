"""Errors with messages for the user."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A user error; the message says what is wrong, where, and what to do.

    The command line prints it as one sentence without a traceback and exits with status 2.
    """


class MalformedMessage(ValueError):
    """Bytes on a topic that are no message of its type: cut short, or with lengths beyond their end.

    Nodes drop such a message, count it in their diagnostics, and go on.
    """


class Diverged(RuntimeError):
    """A simulation's state became non-finite; the message names the time and the robot."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UserError:
    """Return the error for an unknown ``name`` of a ``kind``, listing the nearest known names first."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    listing = ", ".join(names) or "none"
    hint = f" Nearest: {', '.join(near)}." if near else ""
    return UserError(f"Unknown {kind} '{name}'.{hint} Known: {listing}.")
