"""The mapping file: which signals make a network's observation, and what its actions mean on the robot."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from pathlib import Path

from rlstack.errors import UserError, unknown_name
from rlstack.interfaces import signals
from rlstack.interfaces.kind_signals import command_range
from rlstack.policies.contract import Port
from rlstack.policies.robot_contract import output_port, port_for
from rlstack.robots import RobotSpec
from rlstack.schema import load, value
from rlstack.yaml_files import read_yaml

PREVIOUS_ACTION, CONSTANT = "previous_action", "constant"
"""Terms that are no signal: what the network answered last, after ``clip`` (zeros at the start), and fixed numbers."""

FORMS = {"quaternion_xyzw": 4, "quaternion_wxyz": 4, "matrix": 9, "rpy": 3, "yaw": 1, "gravity": 3}
"""Forms of an orientation and how many numbers each has; ``matrix`` is row by row, ``gravity`` the unit vector of
gravity in ``base_link``."""

_WORLD, _BODY = "odom", "base_link"

Numbers = float | tuple[float, ...] | dict[str, float]
"""One number for all elements, one for each in order, or one for each by its name."""


@dataclass(frozen=True, kw_only=True)
class Term:
    """One part of the observation: ``(form(frame(signal - relative_to))[elements] - minus) * scale``, then clipped."""

    signal: str
    relative_to: str = ""
    """A signal of the same unit that is subtracted; of an orientation, the rotation from it to ``signal``."""
    frame: str = value("", one_of=("", _WORLD, _BODY), text="frame that a vector is turned into")
    form: str = value("", one_of=("", *FORMS), text="form of an orientation; default: quaternion_xyzw")
    names: tuple[str, ...] = ()
    """Joints or rotors in the network's order, needed for signals that have one number for each."""
    elements: tuple[int, ...] = ()
    """Indices that are taken, in this order, from 0; default: all."""
    minus: Numbers = 0.0
    scale: Numbers = 1.0
    clip: tuple[float, float] | None = None
    values: tuple[float, ...] = ()
    """Of ``constant``: the numbers."""
    input: str = ""
    """Of a network with several inputs: the one that this term is a part of."""


@dataclass(frozen=True, kw_only=True)
class Action:
    """What the network's actions mean: ``relative_to + offset + scale * clip(action)``, within the robot's limits."""

    signal: str
    names: tuple[str, ...] = ()
    """Joints or rotors in the order of the action vector."""
    clip: tuple[float, float] | None = None
    scale: Numbers = 1.0
    offset: Numbers = 0.0
    relative_to: str = ""
    """A sensed signal of the same elements that is added, such as ``joint_position``."""
    to_limits: bool = False
    """-1 to 1 is the robot's whole range, instead of ``scale`` and ``offset``."""
    hold: dict[str, float] = field(default_factory=dict)
    """Commands in SI units of the joints that the network does not move, by name."""


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """What a source's file does not say of its network."""

    activation: str = ""
    """Of the hidden layers, such as elu: where the file has weights only."""
    output_activation: str = ""
    """After the last layer, such as tanh: skrl's file does not have it; default: none."""
    statistics: str = ""
    """A file with the observation's statistics, relative to the mapping: stable-baselines3's vecnormalize.pkl."""
    output: str = ""
    """Of a graph with several outputs: the actions."""
    states: dict[str, str] = field(default_factory=dict)
    """Of an ONNX graph: recurrent inputs, each with the output that feeds it in the next step."""


@dataclass(frozen=True, kw_only=True)
class Mapping:
    """A mapping file. See docs/import.md."""

    task: str
    rate_hz: float = value(unit="Hz", above=0.0)
    observation: tuple[Term, ...]
    action: Action
    network: NetworkSettings = field(default_factory=NetworkSettings)


@dataclass(frozen=True)
class ResolvedTerm:
    """A term with one number for each element."""

    term: Term
    order: tuple[int, ...]
    """Indices into what the form gives."""
    names: tuple[str, ...]
    """Of the elements, or nothing."""
    minus: tuple[float, ...]
    scale: tuple[float, ...]
    turn: str = ""
    """``to_body``, ``to_world`` or nothing."""


@dataclass(frozen=True)
class ResolvedAction:
    """The action with one number for each element of the command, in the robot's order."""

    signal: str
    relative_to: str
    order: tuple[int, ...]
    """For each element of the command: the index of its action, or -1 where ``offset`` holds it."""
    scale: tuple[float, ...]
    offset: tuple[float, ...]
    clip: tuple[float, float] | None
    minimum: tuple[float, ...]
    maximum: tuple[float, ...]

    @property
    def size(self) -> int:
        """Number of actions."""
        return max(self.order) + 1


@dataclass(frozen=True)
class Plan:
    """A mapping checked against a robot."""

    mapping: Mapping
    inputs: tuple[str, ...]
    terms: tuple[ResolvedTerm, ...]
    action: ResolvedAction

    @property
    def observation_size(self) -> int:
        """Number of the observation's elements."""
        return sum(len(term.scale) for term in self.terms)

    @property
    def sizes(self) -> str:
        """The terms and their sizes, as words."""
        return ", ".join(f"{term.term.signal} {len(term.scale)}" for term in self.terms)

    def name_of(self, index: int) -> str:
        """Return the term, and the number within it, of an element of the observation."""
        for term in self.terms:
            if index < len(term.scale):
                return f"{term.term.signal}[{index}]"
            index -= len(term.scale)
        raise IndexError(index)


def read_mapping(path: Path) -> Mapping:
    """Return a mapping file's content.

    Raises:
        UserError: It cannot be read, or a key or value in it is wrong.
    """
    data = read_yaml(path, "the mapping")
    if isinstance(data, dict) and isinstance(data.get("observation"), list):
        data = {**data, "observation": [{"signal": t} if isinstance(t, str) else t for t in data["observation"]]}
    return load(Mapping, data, str(path))


def resolve(mapping: Mapping, robot: RobotSpec, where: str) -> Plan:
    """Return the mapping for a robot, with every name looked up.

    Raises:
        UserError: A signal, joint or size does not fit; the message has both values.
    """
    if not mapping.observation:
        raise UserError(f"{where}: observation is empty: list the signals that the network sees, in its order.")
    action = _action(mapping.action, robot, f"{where}: action")
    inputs: list[str] = []
    terms = []
    for index, term in enumerate(mapping.observation):
        at = f"{where}: observation[{index}] ({term.signal})"
        terms.append(_term(term, action.size, robot, at))
        inputs += [n for n in (term.signal, term.relative_to) if n in signals.SENSED]
        inputs += ["orientation"] if terms[-1].turn else []
    inputs += [action.relative_to] if action.relative_to else []
    return Plan(mapping, tuple(dict.fromkeys(inputs)), tuple(terms), action)


def _port(name: str, robot: RobotSpec, at: str) -> Port:
    if name not in signals.SENSED:
        raise UserError(f"{at}: {unknown_name('signal', name, [*signals.SENSED, PREVIOUS_ACTION, CONSTANT])}")
    port = port_for(signals.SENSED[name], robot)
    if port.dynamic or len(port.shape) != 1 or port.picture is not None:
        raise UserError(f"{at}: {name} is not a vector of fixed length ({list(port.shape)}), as an observation needs.")
    return port


def _term(term: Term, actions: int, robot: RobotSpec, at: str) -> ResolvedTerm:
    names: tuple[str, ...] = ()
    turn = ""
    if term.signal in (PREVIOUS_ACTION, CONSTANT):
        odd = [n for n in ("relative_to", "frame", "form", "names") if getattr(term, n)]
        if odd or bool(term.values) != (term.signal == CONSTANT):
            raise UserError(
                f"{at}: {odd[0] if odd else 'values'} {'is for signals only' if odd else f'belongs to {CONSTANT}'}."
            )
        order = tuple(range(len(term.values) or actions))
    else:
        port = _port(term.signal, robot, at)
        order, names = _order(port.element_names, term.names, port.sized({})[0], robot, at)
        if term.values:
            raise UserError(f"{at}: values belongs to {CONSTANT}.")
        if term.relative_to:
            other = _port(term.relative_to, robot, at)
            if (other.shape, other.unit, other.frame) != (port.shape, port.unit, port.frame):
                raise UserError(
                    f"{at}: relative_to: {other.name} has {other.shape[0]} numbers in {other.unit} {other.frame}, but"
                    f" {port.name} {port.shape[0]} in {port.unit} {port.frame}."
                )
        rotates = port.unit.startswith("quaternion")
        if term.form and not rotates:
            raise UserError(f"{at}: form {term.form} is for orientations, and {port.name} is in {port.unit}.")
        if rotates:
            order = tuple(range(FORMS[term.form or "quaternion_xyzw"]))
        if term.frame:
            if rotates or port.frame not in (_WORLD, _BODY) or port.shape != (3,):
                raise UserError(f"{at}: frame {term.frame}: only vectors in {_WORLD} or {_BODY} can be turned into it.")
            turn = "" if port.frame == term.frame else "to_body" if term.frame == _BODY else "to_world"
    if term.elements:
        for index in term.elements:
            if not 0 <= index < len(order):
                raise UserError(f"{at}: elements: {index} is not one of 0 to {len(order) - 1}.")
        order = tuple(order[i] for i in term.elements)
        names = tuple(names[i] for i in term.elements) if names else ()
    if term.clip and not term.clip[0] < term.clip[1]:
        raise UserError(f"{at}: clip {list(term.clip)}: the lower end must come first.")
    minus, scale = (_each(getattr(term, n), names, len(order), f"{at}: {n}") for n in ("minus", "scale"))
    return ResolvedTerm(term, order, names, minus, scale, turn)


def _order(
    has: tuple[str, ...], given: tuple[str, ...], size: int, robot: RobotSpec, at: str
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the robot's index of each given name, and the names."""
    if not has:
        if given:
            raise UserError(f"{at}: names: its {size} numbers have no names; use elements.")
        return tuple(range(size)), ()
    if not given:
        raise UserError(
            f"{at}: names is missing: give the network's order of {robot.name}'s {len(has)}: {', '.join(has)}."
        )
    for name in given:
        if name not in has:
            raise UserError(f"{at}: names: {unknown_name(f'element of {robot.name}', name, has)}")
        if given.count(name) > 1:
            raise UserError(f"{at}: names: {name} is there {given.count(name)} times, and may be once.")
    return tuple(has.index(name) for name in given), given


def _each(numbers: Numbers, names: tuple[str, ...], size: int, at: str) -> tuple[float, ...]:
    if isinstance(numbers, dict):
        for name in numbers:
            if name not in names:
                raise UserError(f"{at}: {unknown_name('name', name, names)}")
        if len(numbers) != len(names):
            missing = [n for n in names if n not in numbers]
            raise UserError(f"{at}: {len(numbers)} numbers for {len(names)} names: {', '.join(missing)} is missing.")
        found = tuple(float(numbers[n]) for n in names)
    elif isinstance(numbers, tuple):
        if len(numbers) != size:
            raise UserError(f"{at}: it has {len(numbers)} numbers, but the term has {size}.")
        found = tuple(map(float, numbers))
    else:
        found = (float(numbers),) * size
    if not all(map(math.isfinite, found)):
        raise UserError(f"{at}: every number must be finite.")
    return found


def _action(action: Action, robot: RobotSpec, at: str) -> ResolvedAction:
    if action.signal not in signals.COMMANDED:
        raise UserError(f"{at}: {unknown_name('command', action.signal, signals.COMMANDED)}")
    low, high = command_range(robot, action.signal)
    port = output_port(signals.COMMANDED[action.signal], robot)
    index, names = _order(port.element_names, action.names, len(low), robot, at)
    names = names or tuple(map(str, range(len(low))))
    has = port.element_names or names
    held = [name for name in has if name not in names]
    if set(held) != set(action.hold):
        wrong = sorted(set(held) ^ set(action.hold))
        raise UserError(
            f"{at}: the action moves {len(names)} of the {len(has)} elements of {robot.name} and hold has"
            f" {len(action.hold)}: each must be in names or in hold, not in both: {', '.join(wrong)}."
        )
    if action.clip and not action.clip[0] < action.clip[1]:
        raise UserError(f"{at}: clip {list(action.clip)}: the lower end must come first.")
    if action.to_limits:
        if (action.scale, action.offset, action.relative_to) != (1.0, 0.0, ""):
            raise UserError(f"{at}: to_limits stands instead of scale, offset and relative_to. Leave these out.")
        if not all(map(math.isfinite, (*low, *high))):
            raise UserError(f"{at}: to_limits: {robot.name} has an element without limits. Give scale and offset.")
        scale = tuple(0.5 * (high[i] - low[i]) for i in index)
        offset = tuple(0.5 * (high[i] + low[i]) for i in index)
    else:
        scale = _each(action.scale, names, len(names), f"{at}: scale")
        offset = _each(action.offset, names, len(names), f"{at}: offset")
    if action.relative_to:
        if held:
            raise UserError(f"{at}: relative_to and hold exclude each other.")
        other = _port(action.relative_to, robot, f"{at}: relative_to")
        if (other.unit, other.element_names) != (port.unit, port.element_names):
            raise UserError(f"{at}: relative_to: {other.name} is in {other.unit}, but {port.name} in {port.unit}.")
    place = {robot_index: place for place, robot_index in enumerate(index)}
    for name, number in action.hold.items():
        if not low[has.index(name)] <= number <= high[has.index(name)]:
            raise UserError(
                f"{at}: hold: {name} at {number:g} is beyond its limits,"
                f" {low[has.index(name)]:g} to {high[has.index(name)]:g}."
            )
    return ResolvedAction(
        action.signal,
        action.relative_to,
        tuple(place.get(i, -1) for i in range(len(low))),
        tuple(scale[place[i]] if i in place else 0.0 for i in range(len(low))),
        tuple(offset[place[i]] if i in place else action.hold[has[i]] for i in range(len(low))),
        (-1.0, 1.0) if action.to_limits and not action.clip else action.clip,
        low,
        high,
    )


def as_data(mapping: Mapping) -> dict[str, object]:
    """Return a mapping as plain data, without what is left at its default."""

    def kept(item: object) -> object:
        if isinstance(item, tuple):
            return [kept(part) for part in item]
        if not dataclasses.is_dataclass(item):
            return item
        fields = {f.name: (f, getattr(item, f.name)) for f in dataclasses.fields(item)}
        return {
            name: kept(found)
            for name, (f, found) in fields.items()
            if found != f.default and found not in ((), {}, NetworkSettings())
        }

    found = kept(mapping)
    assert isinstance(found, dict)
    return found
