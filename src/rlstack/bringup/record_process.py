"""The recorder beside a system of nodes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from rlstack.bringup.node_process import Process, System
from rlstack.errors import UserError
from rlstack.files import check_folder
from rlstack.libraries import import_library

_FOLDER = "recordings"
_GRACE_S = 20.0
"""For the last messages, on a slow disk."""


def recording_folder(given: str | Path = "") -> Path:
    """Return the absolute path of a new bag's folder.

    Args:
        given: The folder; empty: one in ``recordings``, by the time (UTC).

    Raises:
        UserError: It exists, or cannot be made, or the library for it is not installed.
    """
    import_library("mcap.writer", "record")
    now = datetime.now(timezone.utc)
    folder = Path(given or f"{_FOLDER}/{now:%Y-%m-%d_%H-%M-%S}").expanduser().absolute()
    if folder.exists():
        raise UserError(f"The recording's folder {folder} exists already: give one that does not exist yet.")
    check_folder(folder, "record")
    return folder


def with_recorder(system: System, folder: str | Path = "") -> System:
    """Return a system that is recorded, until its robots are at rest.

    Args:
        system: The system, with guards.
        folder: See :func:`recording_folder`.

    Raises:
        UserError: See :func:`recording_folder`.
    """
    guards = [one for one in system.processes if one.node_name == "guard"]
    rest_s = max(one.rest_s for one in guards)
    alone = len(guards) == 1
    record = Process(
        name="record",
        module="rlstack.nodes.record",
        namespace=guards[0].namespace if alone else "/",
        parameters={
            "out": str(recording_folder(folder)),
            **({} if alone else {"robots": tuple(one.namespace.lstrip("/") for one in guards)}),
            **({"rest_within_s": rest_s} if rest_s else {}),
        },
        when_it_ends="let the rest go on",
        why="nothing is recorded any more",
        rest_s=rest_s,
        grace_s=_GRACE_S,
    )
    return replace(system, processes=(record, *system.processes))
