"""Whether a simulated world has what an arm's policy handles: without it the policy would wait in vain."""

from __future__ import annotations

from collections.abc import Iterable

from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.signals import SENSED
from rlstack.sim.world import load_world


def check_scene(world: str, senses: Iterable[str], who: str) -> None:
    """Refuse a world without the object that somebody senses.

    Args:
        world: Name or file of a simulator's; empty: a floor.
        senses: Names of signals.
        who: Senses them, for the message.

    Raises:
        UserError: There is none in it.
    """
    if not any(name in SENSED and SENSED[name].topic == topics.OBJECT for name in senses):
        return
    things = load_world(world).obstacles if world else ()
    if not any(thing.is_handled for thing in things):
        raise UserError(
            f"{who} handles an object, and {f'the world {world}' if world else 'a bare floor'} has none: give a --world"
            f" with an obstacle called '{topics.OBJECT}' that has a mass, such as those in docs/arms.md."
        )
