"""Descriptions of node processes and of systems of them, which `rlstack up` and launch files start."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:  # reading policy files takes a second, and every verb imports this module
    from rlstack.policies import Contract
    from rlstack.policies.record import Record

Parameter = bool | int | float | str | tuple[float, ...] | tuple[str, ...]
"""Types of ROS parameters used here."""

WhenItEnds = Literal["stop the rest", "let the rest go on", "start the next stage"]


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process, of a node or of another program, described by the module that it runs.

    It is started as ``python -m module`` with the current interpreter, which can import rlstack whatever ``PATH`` says
    (a virtual environment that is not activated, a colcon workspace, a pip install).

    Args:
        name: Its name in logs.
        module: The module with the node's ``main``.
        parameters: ROS parameters by name.
        namespace: Absolute namespace, such as ``/cf1``.
        remappings: Pairs of topic names, from and to.
        when_it_ends: Effect of its end on the others.
        why: The reason for ``when_it_ends``, as reported to the user.
        grace_s: Time between the request to end and the kill.
        rest_s: Time that it may take before that to bring a robot to rest, if it need not end at once.
        node: The node's name; empty: ``name``.
        params_file: A parameters file for the node, which overrides ``parameters``; empty: none.
        arguments: Command line of a program that is not a node, and takes nothing of ROS; None: it is a node.
    """

    name: str
    module: str
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    namespace: str = "/"
    remappings: tuple[tuple[str, str], ...] = ()
    when_it_ends: WhenItEnds = "stop the rest"
    why: str = ""
    grace_s: float = 5.0
    rest_s: float = 0.0
    node: str = ""
    params_file: str = ""
    arguments: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))

    @property
    def node_name(self) -> str:
        """The node's name."""
        return self.node or self.name

    def command(self) -> list[str]:
        """Return the command line that starts it without launch."""
        if self.arguments is not None:
            return [*python_module(self.module), *self.arguments]
        ros = ["-r", f"__node:={self.node_name}", "-r", f"__ns:={self.namespace}"]
        for source, target in self.remappings:
            ros += ["-r", f"{source}:={target}"]
        for name, value in self.parameters.items():
            ros += ["-p", f"{name}:={_as_yaml(value)}"]
        if self.params_file:
            ros += ["--params-file", self.params_file]
        return [*python_module(self.module), "--ros-args", *ros]


@dataclass(frozen=True, kw_only=True)
class System:
    """Processes that run together, and the stage that follows them.

    Args:
        name: Its name in logs.
        processes: In starting order; the first to fail gives the exit status.
        then: Started when a process with ``start the next stage`` has ended with status 0.
        contract: The contract of its policy file, if any.
        policy_sha256: SHA-256 of the bytes that the contract is of; its nodes load no others.
        record: The verification record beside the policy file, as it was read.
        pursues_goals: Whether its policy or planner goes to goals.
        robot_sha256: Digest of the robot file's content and its model; the nodes that command take no others.
        at_start: Describes it anew when it is started, from the files that an earlier stage has made; None: it is as
            described.
    """

    name: str
    processes: tuple[Process, ...]
    then: System | None = None
    contract: Contract | None = None
    policy_sha256: str = ""
    record: Record | None = None
    pursues_goals: bool = False
    robot_sha256: str = ""
    at_start: Callable[[], System] | None = field(default=None, compare=False)

    def starting(self) -> System:
        """Return the system to start now.

        Raises:
            UserError: What an earlier stage has made does not allow it.
        """
        return self if self.at_start is None else self.at_start()

    def __post_init__(self) -> None:
        names = [process.name for process in self.processes]
        if len(set(names)) != len(names):
            raise ValueError(f"Process names must differ: {names}.")


def on_simulated_time(system: System) -> System:
    """Return ``system`` with ``use_sim_time`` in all of its nodes: their clocks follow ``/clock``."""
    processes = []
    for process in system.processes:
        sim_time: dict[str, Parameter] = {} if process.arguments is not None else {"use_sim_time": True}
        processes.append(replace(process, parameters={**process.parameters, **sim_time}))
    return replace(system, processes=tuple(processes))


def with_parameters(system: System, node: str, **parameters: Parameter) -> System:
    """Return ``system`` with more parameters in its nodes of a name."""
    processes = (
        replace(one, parameters={**one.parameters, **parameters}) if one.node_name == node else one
        for one in system.processes
    )
    return replace(system, processes=tuple(processes))


REAL_TIME_PRIORITIES = {"robot": 60, "guard": 60, "policy": 50, "planner": 50}
"""SCHED_FIFO priorities of the nodes that commands pass through: a policy never delays robot and guard."""


def with_real_time_priority(system: System) -> System:
    """Return ``system`` with real-time priority for the nodes that commands pass through, where the system permits it.

    As on a robot's computer, so that other programs do not delay commands.
    """
    processes = []
    for process in system.processes:
        priority = REAL_TIME_PRIORITIES.get(process.module.rpartition(".")[2])
        own: dict[str, Parameter] = {} if priority is None else {"real_time_priority": priority}
        processes.append(replace(process, parameters={**own, **process.parameters}))
    return replace(system, processes=tuple(processes))


def python_module(module: str) -> list[str]:
    """Return the command that runs ``module``, unbuffered, so that its log lines appear at once."""
    return [sys.executable, "-u", "-m", module]


def _as_yaml(value: Parameter) -> str:
    """Return ``value`` as rcl reads it after ``:=`` (YAML, of which JSON is a part)."""
    plain: Any = list(value) if isinstance(value, tuple) else value
    return json.dumps(plain, ensure_ascii=False)  # JSON's escapes beyond 16 bits are not YAML's
