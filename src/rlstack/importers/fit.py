"""Whether a mapping fits a network: sizes, named inputs, the order of joints, the rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rlstack.errors import UserError, unknown_name
from rlstack.importers.mapping import Plan, ResolvedTerm
from rlstack.importers.network import Network, NetworkInput

_RATE_TOLERANCE = 0.01


def fitted(plan: Plan, network: Network, where: str) -> Plan:
    """Return the mapping with its terms in the order of the network's inputs.

    Args:
        plan: The mapping.
        network: The network.
        where: Name of the mapping in errors.

    Raises:
        UserError: Sizes, inputs, names of joints or the rate differ; the message has both.
    """
    rate = plan.mapping.rate_hz
    if network.rate_hz and abs(rate / network.rate_hz - 1.0) > _RATE_TOLERANCE:
        raise UserError(f"{where}: rate_hz is {rate:g}, but the network was trained at {network.rate_hz:g} Hz.")
    plan = replace(plan, terms=_arranged(plan.terms, network.inputs, where))
    if plan.observation_size != network.observation_size:
        raise UserError(
            f"{where}: the observation has {plan.observation_size} numbers ({plan.sizes}), but the network takes"
            f" {network.observation_size}."
        )
    if plan.action.size != network.action_size:
        raise UserError(
            f"{where}: the action has {plan.action.size} numbers for {plan.action.signal}, but the network gives"
            f" {network.action_size}."
        )
    _same_order(plan.mapping.action.names, network.action_names, f"{where}: action")
    return plan


def _arranged(terms: Sequence[ResolvedTerm], inputs: Sequence[NetworkInput], where: str) -> tuple[ResolvedTerm, ...]:
    names = [entry.name for entry in inputs]
    for number, term in enumerate(terms):
        at, given = f"{where}: observation[{number}] ({term.term.signal})", term.term.input
        if given and given not in names:
            if not names:
                raise UserError(f"{at}: input: the network has one observation, without a name. Leave input out.")
            raise UserError(f"{at}: {unknown_name('input of the network', given, names)}")
        if not given and len(names) > 1:
            raise UserError(f"{at}: input is missing: the network has the inputs {', '.join(names)}. Say which.")
    if not inputs:
        return tuple(terms)
    arranged: list[ResolvedTerm] = []
    for entry in inputs:
        parts = [term for term in terms if term.term.input in (entry.name, "")]
        size = sum(len(term.scale) for term in parts)
        if size != entry.size:
            has = ", ".join(f"{term.term.signal} {len(term.scale)}" for term in parts) or "no term"
            raise UserError(f"{where}: the input {entry.name} takes {entry.size} numbers, but has {size} ({has}).")
        if len(parts) == 1:
            _same_order(parts[0].names, entry.element_names, f"{where}: input {entry.name}")
        arranged += parts
    return tuple(arranged)


def _same_order(mapped: Sequence[str], stated: Sequence[str], where: str) -> None:
    """Raise ``UserError`` if the same joints come in another order; under other names they cannot be compared."""
    if tuple(mapped) != tuple(stated) and set(mapped) == set(stated):
        raise UserError(
            f"{where}: names: the order is {', '.join(mapped)}, but the network's file says {', '.join(stated)}."
        )
