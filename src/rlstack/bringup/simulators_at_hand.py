"""The simulators that a verification can use here."""

from __future__ import annotations

from collections.abc import Sequence

from rlstack.errors import UserError, unknown_name
from rlstack.interfaces.backend import BACKENDS
from rlstack.sim.vector import BATCH, engine_of


def simulators_at_hand() -> tuple[str, ...]:
    """Return the batch simulator and every installed simulator."""
    found = [BATCH]
    for name in BACKENDS.names():
        engine = engine_of(name)
        if engine is None:
            continue
        try:
            engine.require()
        except UserError:
            continue
        found.append(name)
    return tuple(found)


def checked_simulators(simulators: Sequence[str], episodes: int | None) -> tuple[str, ...]:
    """Return simulators without duplicates; refuse unknown or missing ones, and a wrong number of episodes."""
    if episodes is not None and episodes < 1:
        raise UserError(f"{episodes} episodes are not allowed: at least 1.")
    names = tuple(dict.fromkeys(simulators))
    if not names:
        raise UserError("No backend was given: give at least one, such as batch.")
    _check_known(names)
    return names


def check_topics() -> None:
    """Raise ``UserError`` if trials over topics cannot run, before minutes of others do."""
    from rlstack.nodes.runtime import require_ros

    try:
        require_ros()
    except UserError as error:
        raise UserError(f"{error} Or verify in process alone, with --no-topics.") from error


def _check_known(names: Sequence[str]) -> None:
    """Refuse unknown or missing simulators before any trial starts."""
    known = [BATCH, *BACKENDS.names()]
    for name in names:
        if name not in known:
            raise unknown_name("backend", name, known)
        if name == BATCH:
            continue
        engine = engine_of(name)
        if engine is None:
            raise UserError(f"The backend '{name}' is not a simulator: a policy is verified in simulators.")
        engine.require()
