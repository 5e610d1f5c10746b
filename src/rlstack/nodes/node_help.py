"""What a node's ``--help`` prints: what it does, its topics and services, and its parameters; ROS need not run."""

from __future__ import annotations

import inspect
import math
import textwrap
from typing import Any

from rlstack.interfaces import topics
from rlstack.nodes.parameters import Parameter

_COMMANDS = f"{', '.join(topics.COMMANDS[:-1])} or {topics.COMMANDS[-1]}"
_POLICY_COMMANDS = f"{topics.POLICY_PREFIX}{_COMMANDS}"
TOPICS: dict[str, tuple[tuple[str, str], ...]] = {
    "robot": (
        ("subscribes", f"{_COMMANDS}, by the robot's kind; {topics.GOAL_PATH}, to show it"),
        ("subscribes", f"{topics.EXTERNAL_POSE}, if its backend does not measure the robot's position"),
        ("publishes", f"{topics.ODOM} or {topics.JOINT_STATES}, and the sensors of the robot file"),
        ("publishes", f"{topics.MARKERS}, {topics.ROBOT_DESCRIPTION}, {topics.TF}, {topics.TF_STATIC}, {topics.CLOCK}"),
        ("serves", topics.RESET),
    ),
    "guard": (
        ("subscribes", f"{_POLICY_COMMANDS}; {topics.ODOM} or {topics.JOINT_STATES}; {topics.SCAN} of a base"),
        ("subscribes", f"{topics.INSTRUCTION_ACTIVE}: it arms no policy that waits for an instruction"),
        ("publishes", f"{_COMMANDS}; {topics.GUARD_MODE}, {topics.GUARD_INTERVENTIONS}"),
        ("serves", f"{topics.ARM}, {topics.ESTOP}, {topics.CLEAR_ESTOP}"),
    ),
    "policy": (
        ("subscribes", "the topics of the policy file's inputs (rlstack show FILE)"),
        ("publishes", f"{_POLICY_COMMANDS}; {topics.LIVE_CHECK}; {topics.INSTRUCTION_ACTIVE}"),
        ("serves", f"{topics.POLICY_RESET}, if the policy keeps state"),
    ),
    "planner": (
        ("subscribes", f"{topics.ODOM}, {topics.SCAN}, {topics.GOAL}, {topics.PEOPLE}"),
        ("publishes", f"{topics.POLICY_PREFIX}{topics.TWIST_COMMAND}"),
    ),
    "nav2": (("subscribes", topics.GOAL),),
    "map": (("subscribes", f"{topics.ODOM}, {topics.SCAN}"), ("publishes", topics.MAP)),
    "odometry": (
        ("subscribes", f"{topics.IMU}; {topics.EXTERNAL_POSE}, or {topics.FLOW} and {topics.RANGE}"),
        ("publishes", topics.ODOM),
    ),
    "people": (("subscribes", f"{topics.ODOM}, {topics.SCAN}"), ("publishes", topics.PEOPLE)),
}
"""Topics and services by node name; all nodes publish diagnostics, too."""


def help_text(node: Any) -> str:
    """Return the help of a node's class, :class:`rlstack.nodes.runtime.ManagedNode`."""
    about = inspect.cleandoc(node.__doc__ or "").partition("\nArgs:")[0].strip()
    lines = [about, "", f"usage: ros2 run rlstack rlstack_{node.NAME} --ros-args [-p PARAMETER:=VALUE] [-r OLD:=NEW]"]
    lines += [f"   or: python -m {node.__module__} --ros-args ...", "", "topics and services:"]
    for what, which in (*TOPICS.get(node.NAME, ()), ("publishes", f"{topics.DIAGNOSTICS}, once a second")):
        lines.append(f"  {what:<11} {which}")
    lines += ["", "parameters:"]
    for parameter in node.PARAMETERS:
        lines.append(f"  {parameter.name} ({_facts(parameter)})")
        lines += textwrap.wrap(parameter.description, 100, initial_indent="      ", subsequent_indent="      ")
    lines += ["", "Types, frames and qualities of service: docs/topics.md."]
    return "\n".join(lines) + "\n"


def _facts(parameter: Parameter) -> str:
    default = parameter.default
    unset = default in ("", ()) or (isinstance(default, float) and math.isnan(default))
    unset = unset or (isinstance(default, tuple) and any(n != n for n in default))
    shown = "not set" if unset else str(default).lower() if isinstance(default, bool) else str(default)
    facts = [f"default {shown}"]
    if parameter.choices:
        facts.append(f"one of {', '.join(parameter.choices)}")
    low, high = parameter.minimum, parameter.maximum
    if math.isfinite(low) and math.isfinite(high):
        facts.append(f"{low:g} to {high:g}")
    elif math.isfinite(low):
        facts.append(f"from {low:g}")
    if parameter.live:
        facts.append("live")
    return ", ".join(facts)
