"""Declared node parameters: one description each, which defines ROS descriptors, ranges and error messages."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rlstack.errors import UserError, unknown_name

_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
_BUILT_IN = ("use_sim_time", "start_type_description_service")


@dataclass(frozen=True)
class Parameter:
    """One parameter of a node.

    Args:
        name: As in ``--ros-args -p name:=value``.
        default: Its type is the parameter's type; a tuple is a list of numbers of that length; see also ``each``.
        description: One sentence with the unit.
        minimum: Smallest allowed number.
        maximum: Largest allowed number.
        choices: Allowed texts; empty for any.
        live: Whether it may change while the node runs.
        nan: Whether NaN is allowed and means "not set".
        each: The type of the elements of a list of any length; None: it is not such a list.
    """

    name: str
    default: bool | int | float | str | tuple[float, ...] | tuple[str, ...]
    description: str
    minimum: float = -math.inf
    maximum: float = math.inf
    choices: tuple[str, ...] = ()
    live: bool = False
    nan: bool = False
    each: type[float] | type[str] | None = None

    def checked(self, value: Any) -> Any:
        """Return ``value`` as this parameter's type.

        Raises:
            ValueError: Wrong type or out of range; the text says what is allowed.
        """
        if self.each is not None:
            if isinstance(value, (str, bytes)) or not hasattr(value, "__len__"):
                raise ValueError(f"{self.name}: {_show(value)} is not allowed: must be a list")
            return tuple(self._checked_scalar(item, self.each) for item in value)
        if isinstance(self.default, tuple):
            if isinstance(value, (str, bytes)) or not hasattr(value, "__len__") or len(value) != len(self.default):
                raise ValueError(f"{self.name}: {_show(value)} is not allowed: must be {len(self.default)} numbers")
            return tuple(self._checked_scalar(item, float) for item in value)
        return self._checked_scalar(value, type(self.default))

    def _checked_scalar(self, value: Any, kind: type) -> Any:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if kind is float and is_number:
            number = float(value)
            if math.isnan(number) and self.nan:
                return number
            if not math.isfinite(number):
                raise ValueError(f"{self.name}: {_show(value)} is not allowed: must be a finite number")
            self._check_range(number)
            return number
        if kind is int and is_number and float(value).is_integer():
            self._check_range(int(value))
            return int(value)
        if kind in (bool, str) and isinstance(value, kind):
            if self.choices and value not in self.choices:
                raise ValueError(
                    f"{self.name}: {_show(value)} is not allowed: must be one of {', '.join(self.choices)}"
                )
            return value
        raise ValueError(f"{self.name}: {_show(value)} is not allowed: must be {_KINDS[kind]}")

    def _check_range(self, number: float) -> None:
        if not self.minimum <= number <= self.maximum:
            if math.isinf(self.maximum):
                allowed = f"at least {self.minimum:g}"
            elif math.isinf(self.minimum):
                allowed = f"at most {self.maximum:g}"
            else:
                allowed = f"between {self.minimum:g} and {self.maximum:g}"
            raise ValueError(f"{self.name}: {_show(number)} is not allowed: must be {allowed}")


class ParameterSet:
    """The parameters of one node, declared with descriptors; an invalid live change is refused with a reason.

    Args:
        node: The rclpy node; its command-line overrides apply.
        parameters: Its parameters.
        overrides: Values from Python; the command line's take precedence.

    Unknown names from the command line or a parameter file are ignored, as in any ROS node, because files and launch
    groups set parameters for several nodes; each is warned of once.

    Raises:
        UserError: An initial value is not allowed, or ``overrides`` has an unknown name (nearest names listed).
    """

    def __init__(self, node: Any, parameters: Iterable[Parameter], overrides: dict[str, Any] | None = None) -> None:
        from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult

        self._known = {p.name: p for p in parameters}
        self._values: dict[str, Any] = {}
        self._result, self._showing = SetParametersResult, False
        self._node = node
        given = {n: p.value for n, p in getattr(node, "_parameter_overrides", {}).items()}
        where = f"The node '{node.get_name()}'"
        for name in overrides or {}:
            if name not in self._known:
                raise UserError(f"{where}: {unknown_name('parameter', name, self._known)}")
        for name in given:
            if name not in self._known and name not in _BUILT_IN and not name.startswith("qos_overrides."):
                node.get_logger().warning(f"The parameter '{name}' is ignored: {_nearest(name, self._known)}.")
        for parameter in self._known.values():
            value = given.get(parameter.name, (overrides or {}).get(parameter.name, parameter.default))
            try:
                self._values[parameter.name] = value = parameter.checked(value)
            except ValueError as error:
                raise UserError(f"{where}: {error}. {parameter.description}") from error
            # Dynamic typing leaves the type to `checked`, so that `rate:=1` is a number and every refusal has a reason.
            descriptor = ParameterDescriptor(
                description=parameter.description,
                read_only=not parameter.live,
                additional_constraints=f"one of {', '.join(parameter.choices)}" if parameter.choices else "",
                dynamic_typing=True,
            )
            # rcl checks ranges as doubles with a tolerance; these are for display, `checked` decides.
            if isinstance(parameter.default, float) and not parameter.nan and math.isfinite(parameter.minimum):
                top = parameter.maximum if math.isfinite(parameter.maximum) else 1e308
                descriptor.floating_point_range = [FloatingPointRange(from_value=parameter.minimum, to_value=top)]
            if type(parameter.default) is int and math.isfinite(parameter.minimum):
                top = parameter.maximum if math.isfinite(parameter.maximum) else 2**63 - 1
                descriptor.integer_range = [IntegerRange(from_value=int(parameter.minimum), to_value=int(top))]
            stored = list(value) if isinstance(value, tuple) else value
            node.declare_parameter(parameter.name, stored, descriptor, ignore_override=True)
        self.check: Callable[[Mapping[str, Any]], str] = lambda changes: ""
        """Called with the live changes of one request, which take effect if it returns no reason against them."""
        node.add_on_set_parameters_callback(self._on_set)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def show(self, name: str, value: Any) -> None:
        """Show ROS tools the value in force of a parameter whose own value only says where that comes from.

        Args:
            name: The parameter.
            value: A number, text or tuple, which may be outside of what the parameter allows.
        """
        from rclpy.parameter import Parameter as RosParameter

        stored = list(value) if isinstance(value, tuple) else value
        descriptor, self._showing = self._node.describe_parameter(name), True
        locked, descriptor.read_only = descriptor.read_only, False
        try:
            self._node.set_parameters([RosParameter(name, value=stored)])
        finally:
            descriptor.read_only, self._showing = locked, False

    def put(self, name: str, value: Any) -> None:
        """Set the value in force from within the node, and show it."""
        self._values[name] = value
        self.show(name, value)

    def fix(self, name: str) -> None:
        """Make a live parameter read-only from now on."""
        self._node.describe_parameter(name).read_only = True

    def undeclare(self, name: str) -> None:
        """Take a parameter, which does not apply here, from what ROS tools see; its value stays known."""
        if self._node.has_parameter(name):
            self._node.describe_parameter(name).read_only = False
            self._node.undeclare_parameter(name)

    def _on_set(self, changes: list[Any]) -> Any:
        accepted: dict[str, Any] = {}
        if self._showing:
            return self._result(successful=True)
        for change in changes:
            if change.name in self._known:
                try:
                    accepted[change.name] = self._known[change.name].checked(change.value)
                except ValueError as error:
                    return self._result(successful=False, reason=f"{error}.")
        if accepted and (why := self.check(accepted)):
            return self._result(successful=False, reason=f"{why}.")
        self._values.update(accepted)
        return self._result(successful=True)


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    return f"this node has none of that name. Nearest: {', '.join(near)}" if near else "this node has none of that name"


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
