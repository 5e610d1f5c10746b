"""The guard node's parameters: fields of the guards' configurations by name, and the configuration that they give."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, replace
from functools import cache
from typing import Any

from rlstack.errors import UserError
from rlstack.guard.config import GuardConfig
from rlstack.guard.tightening import LiveLimits
from rlstack.kinds import find_kind, kind_names
from rlstack.nodes.kind_topics import all_kind_topics
from rlstack.nodes.parameters import Parameter, ParameterSet
from rlstack.robots import RobotSpec

TETHER = Parameter(
    "tether",
    1.0,
    "For first tries: share of the robot file's speeds, accelerations and geofence that the limits are at most.",
    minimum=0.05,
    maximum=1.0,
)


@cache
def guard_parameters() -> tuple[Parameter, ...]:
    """Return the parameters of all kinds' guards: the tether, configuration fields with a ``text``, further options.

    Several kinds may share one.
    """
    found: dict[str, dict[str, Field[Any]]] = {}
    live: set[str] = set()
    for kind in map(find_kind, kind_names()):
        if kind.has("guard"):
            guard = kind.load("guard")
            live |= guard.LIVE
            for field in _declared(guard.CONFIG):
                found.setdefault(field.name, {})[kind.name] = field
    shared_first = sorted(found.items(), key=lambda item: -len(item[1]))
    options = (parameter for topics in all_kind_topics().values() for parameter in topics.GUARD_PARAMETERS)
    own = (replace(_parameter(by_kind), live=name in live) for name, by_kind in shared_first)
    return (TETHER, *own, *dict.fromkeys(options))


def guard_config(config: type[GuardConfig], robot: RobotSpec, parameters: ParameterSet) -> Any:
    """Return the configuration of a robot's guard from the node's parameters.

    Args:
        config: The class of the configuration.
        robot: The robot; its limits hold unless tightened.
        parameters: Those of the node.

    Raises:
        UserError: A value is not allowed.
    """
    own = {field.name for field in _declared(config)}
    given = [p.name for p in guard_parameters() if p.name in own and _is_given(p, parameters[p.name])]
    overrides = {name: parameters[name] for name in given}
    made: GuardConfig = config.from_robot(robot, allow_wider=parameters["allow_wider"], **overrides)
    return made.tethered(robot, parameters[TETHER.name])


def leave_to_others(config: type[Any], robot: RobotSpec, parameters: ParameterSet) -> str:
    """Undeclare the parameters of other kinds' guards; return which of them were given, as a sentence, or nothing.

    Files and launch groups set parameters of robots of several kinds, and a node ignores what it does not declare.

    Args:
        config: The class of the configuration.
        robot: The robot.
        parameters: Those of the node.
    """
    mine = {TETHER.name, *(field.name for field in _declared(config))}
    mine |= {parameter.name for parameter in all_kind_topics()[robot.kind].GUARD_PARAMETERS}
    others = [parameter for parameter in guard_parameters() if parameter.name not in mine]
    for parameter in others:
        parameters.undeclare(parameter.name)
    given = [parameter.name for parameter in others if _is_given(parameter, parameters[parameter.name])]
    which = f"the guard of {robot.name}, a {robot.kind}, has none of that name"
    return f"Ignored parameters: {', '.join(given)} ({which})." if given else ""


class GuardLimits:
    """The limits of a guard as parameters: the values in force are shown, and those that are live may change.

    Args:
        guard: The guard, with the configuration from the parameters.
        parameters: Those of the guard node.
    """

    def __init__(self, guard: Any, parameters: ParameterSet) -> None:
        self._guard, self._limits = guard, LiveLimits(guard)
        for field in _declared(type(guard.config)):
            parameters.show(field.name, getattr(guard.config, field.name))
            if field.name not in guard.LIVE:
                parameters.fix(field.name)
        parameters.check = self._change

    def _change(self, changes: Mapping[str, Any]) -> str:
        """Apply changes of limits; return why they are refused, or an empty string."""
        wanted = {name: value for name, value in changes.items() if name in self._guard.LIVE}
        try:
            if wanted:
                self._limits.change(wanted)
        except UserError as error:
            return str(error).rstrip(".")
        return ""


def _declared(config: type[Any]) -> list[Field[Any]]:
    """Return the fields of a configuration that are parameters."""
    return [field for field in fields(config) if field.metadata.get("text")]


def _parameter(by_kind: dict[str, Field[Any]]) -> Parameter:
    """Return the parameter of a field, given by kind; NaN or empty where the kinds or the robot files differ."""
    field, *_ = declared = list(by_kind.values())
    unit, default = field.metadata["unit"], field.default
    text = field.metadata["text"] + (f", {unit}" if unit not in ("", "1") else "")
    if str(field.type).startswith("tuple"):
        return Parameter(field.name, (), f"{text}; from the robot file if not given.", each=float)
    if isinstance(default, bool):
        return Parameter(field.name, default, f"{text}.")
    least = min(_bound(entry, ("above", "at_least"), -math.inf) for entry in declared)
    most = max(_bound(entry, ("at_most",), math.inf) for entry in declared)
    if default is not MISSING and all(entry.default == default for entry in declared):
        return Parameter(field.name, default, f"{text}.", minimum=least, maximum=most)
    usual = {kind: entry.default for kind, entry in by_kind.items() if entry.default is not MISSING}
    source = [f"{number} ({kind})" for kind, number in usual.items()]
    source += ["from the robot file"] if len(usual) < len(by_kind) else []
    text = f"{text}; {', '.join(source)} if not given."
    return Parameter(field.name, math.nan, text, minimum=least, maximum=most, nan=True)


def _bound(field: Field[Any], names: Sequence[str], otherwise: float) -> float:
    return next((field.metadata[name] for name in names if field.metadata[name] is not None), otherwise)


def _is_given(parameter: Parameter, value: Any) -> bool:
    numbers = value if isinstance(value, tuple) else (value,)
    empty = all(isinstance(number, float) and math.isnan(number) for number in numbers)  # as for an empty list
    return not empty and value != parameter.default
