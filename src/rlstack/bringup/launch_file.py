"""Render a System for ROS 2's launch, which is imported only where it is used."""

from __future__ import annotations

import math
import os
import runpy
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rlstack.bringup.node_process import Process, System, python_module
from rlstack.errors import UserError, unknown_name
from rlstack.processes import STARTED_BY
from rlstack.resources import find_resource

if TYPE_CHECKING:
    from launch import LaunchDescription

Convert = Callable[[str], Any]


@dataclass(frozen=True)
class Argument:
    """One argument of a launch file, as in ``name:=value``.

    Args:
        name: Name of the argument, and of ``build``'s parameter.
        description: For ``ros2 launch --show-args``.
        default: As text; None makes it required.
        convert: Reads the text; raises ValueError with what is allowed.
    """

    name: str
    description: str
    default: str | None = ""
    convert: Convert = str


@dataclass(frozen=True)
class LaunchFile:
    """A launch file: its arguments, and the function that builds a System from their values."""

    build: Callable[..., System]
    arguments: tuple[Argument, ...]

    def system(self, given: Mapping[str, str]) -> System:
        """Return the system for argument values given as text; missing ones take their defaults.

        Raises:
            UserError: An argument is unknown, missing or invalid, or ``build`` refuses it.
        """
        names = [argument.name for argument in self.arguments]
        for name in given:
            if name not in names:
                raise unknown_name("launch argument", name, names)
        values = {}
        for argument in self.arguments:
            text = given.get(argument.name, argument.default)
            if text is None:
                raise UserError(f"The launch argument {argument.name} is missing: give {argument.name}:=...")
            try:
                values[argument.name] = argument.convert(text)
            except ValueError as error:
                raise UserError(f"The launch argument {argument.name}: '{text}' is not allowed: {error}.") from error
        return self.build(**values)

    def description(self) -> LaunchDescription:
        """Return the result of ``generate_launch_description``."""
        from launch import LaunchDescription
        from launch.actions import DeclareLaunchArgument, OpaqueFunction
        from launch.substitutions import LaunchConfiguration

        def start(context: Any) -> list[Any]:
            given = {a.name: LaunchConfiguration(a.name).perform(context) for a in self.arguments}
            return launch_actions(self.system(given), absolute=given.get("namespace", "").startswith("/"))

        declared = [
            DeclareLaunchArgument(a.name, default_value=a.default, description=a.description) for a in self.arguments
        ]
        return LaunchDescription([*declared, OpaqueFunction(function=start)])


def shipped(name: str, **defaults: str) -> LaunchFile:
    """Return a launch file that ships with rlstack, for one of your own.

    Args:
        name: Its name, such as ``deploy``.
        defaults: Other defaults of its arguments, as text.

    Raises:
        UserError: It is not there, or has no such argument.
    """
    path = find_resource(f"launch/{name}.launch.py")
    if path is None:
        raise UserError(
            f"There is no launch file {name}.launch.py in rlstack: `rlstack doctor` checks the installation."
        )
    file: LaunchFile = runpy.run_path(str(path))["LAUNCH_FILE"]
    names = [argument.name for argument in file.arguments]
    if wrong := [one for one in defaults if one not in names]:
        raise unknown_name("launch argument", wrong[0], names)
    return replace(file, arguments=tuple(replace(a, default=defaults.get(a.name, a.default)) for a in file.arguments))


def launch_actions(system: System, absolute: bool = False) -> list[Any]:
    """Return the launch actions that start ``system`` and handle each process's end as described.

    Args:
        system: What to start.
        absolute: Its namespaces are not below one that an including launch file pushes (``PushRosNamespace``).
    """
    from launch.actions import OpaqueFunction

    scope = _Scope()
    nodes = [_node(process, system, absolute, scope) for process in system.processes]
    return [OpaqueFunction(function=scope.remember), *nodes]


class _Scope:
    """What applies to actions where they are: namespace, parameters, remappings and environment of their groups.

    launch runs the actions that follow the end of a process outside of all groups.
    """

    def remember(self, context: Any) -> None:
        """Remember what applies here."""
        self._configurations, self._environment = dict(context.launch_configurations), dict(context.environment)

    def again(self, actions: list[Any]) -> list[Any]:
        """Return actions to which the same applies."""
        from launch import actions as launch

        return [
            launch.PushLaunchConfigurations(),
            launch.PushEnvironment(),
            launch.OpaqueFunction(function=self._restore),
            *actions,
            launch.PopEnvironment(),
            launch.PopLaunchConfigurations(),
        ]

    def _restore(self, context: Any) -> None:
        context.launch_configurations.update(self._configurations)
        context.environment.update(self._environment)


def _node(process: Process, system: System, absolute: bool, scope: _Scope) -> Any:
    from launch.actions import ExecuteProcess, LogInfo, Shutdown
    from launch_ros.actions import Node
    from launch_ros.parameter_descriptions import ParameterValue

    def on_exit(event: Any, context: Any) -> list[Any]:
        how = f"{process.name} ended with status {event.returncode}"
        if context.is_shutdown:
            return []
        if process.when_it_ends == "let the rest go on":
            return [LogInfo(msg=f"{how}: the rest goes on ({process.why})")]
        if process.when_it_ends == "start the next stage" and event.returncode == 0 and system.then is not None:
            try:
                then = system.then.starting()
            except UserError as error:
                return [LogInfo(msg=str(error)), Shutdown(reason=str(error))]
            following = scope.again(launch_actions(then, absolute))
            return [LogInfo(msg=f"{how}: starting {system.then.name}"), *following]
        sentence = f"{how}, so everything was stopped: {process.why}"
        return [LogInfo(msg=sentence), Shutdown(reason=sentence)]

    how_to_run: dict[str, Any] = {
        "additional_env": {STARTED_BY: str(os.getpid())},
        "output": "screen",
        "emulate_tty": sys.stdout.isatty(),
        "sigterm_timeout": str(process.grace_s + process.rest_s),
        "sigkill_timeout": str(process.grace_s + process.rest_s),  # only SIGTERM may have reached it
        "on_exit": on_exit,
    }
    if process.arguments is not None:
        return ExecuteProcess(cmd=process.command(), name=process.name, **how_to_run)
    parameters: dict[str, Any] = {}
    for name, value in process.parameters.items():
        # launch reads plain text as YAML, in which "1" is a number
        parameters[name] = ParameterValue(value, value_type=str) if isinstance(value, str) else value
    given = {n: list(v) if isinstance(v, tuple) else v for n, v in parameters.items()}
    executable, *arguments = python_module(process.module)
    return Node(
        executable=executable,
        arguments=arguments,
        exec_name=process.name,
        name=process.node_name,
        namespace=process.namespace if absolute else process.namespace.lstrip("/"),
        parameters=[*([given] if given else []), *([process.params_file] if process.params_file else [])] or None,
        remappings=list(process.remappings),
        **how_to_run,
    )


def boolean(text: str) -> bool:
    """Read ``true`` or ``false``, in any case."""
    if text.lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.lower() == "true"


def recording(text: str) -> str | None:
    """Read a recording's folder; ``true`` is one by the time (empty), and ``false`` or nothing is none."""
    if text.strip().lower() in ("", "false"):
        return None
    return "" if text.strip().lower() == "true" else text


def optional(convert: Convert) -> Convert:
    """Return a reader that maps empty text to None and reads other text with ``convert``."""
    return lambda text: convert(text) if text.strip() else None


def number(text: str) -> float:
    """Read a finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


def integer(text: str) -> int:
    """Read a whole number."""
    try:
        return int(text)
    except ValueError:
        raise ValueError("must be a whole number") from None


def numbers(text: str) -> tuple[float, ...]:
    """Read finite numbers separated by spaces or commas, with or without brackets."""
    return tuple(number(part) for part in text.strip("[]() ").replace(",", " ").split())


def words(text: str) -> tuple[str, ...]:
    """Read words separated by spaces."""
    return tuple(text.split())
