"""What a recording tells beside its messages: parameters, robot files, policies' contracts, versions."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import yaml

from rlstack.data.bags.bag_writer import BagWriter
from rlstack.errors import UserError
from rlstack.interfaces.recorded import Selection
from rlstack.nodes.runtime import ManagedNode
from rlstack.nodes.service_call import ServiceCall
from rlstack.policies.released import find_policy
from rlstack.robots.spec import robot_files

PARAMETERS = "parameters.yaml"
"""Attachment with the nodes' parameters, as a parameters file."""
ROBOT = "robot.yaml"
"""Attachment with the robot file, below a robot's namespace."""
CONTRACT = "policy.json"
"""Attachment with the policy's contract, likewise."""

_VERSIONS = ("rlstack", "mcap", "numpy", "onnxruntime", "mujoco")
_FIELDS = (
    *("", "bool_value", "integer_value", "double_value", "string_value"),
    *("byte_array_value", "bool_array_value", "integer_array_value", "double_array_value", "string_array_value"),
)
"""The field of ``rcl_interfaces/ParameterValue`` for each type of a parameter."""


def versions() -> dict[str, str]:
    """Return the versions of what runs here, and when that is."""
    from rclpy.utilities import get_rmw_implementation_identifier

    found = {"started": datetime.now(timezone.utc).isoformat(timespec="seconds")}
    for name in _VERSIONS:
        try:
            found[f"version of {name}"] = version(name)
        except PackageNotFoundError:
            continue
    found["version of Python"] = platform.python_version()
    found["version of ROS"] = os.environ.get("ROS_DISTRO", "jazzy")
    found["middleware"] = get_rmw_implementation_identifier()
    return found


class RecordedFacts:
    """Asks the robots' nodes for their parameters, once each, and reads the files that those name.

    Args:
        node: The node that asks.
        selection: Says whose nodes those are.
        tell: Called with what the bag is to be told.
    """

    def __init__(
        self, node: ManagedNode, selection: Selection, tell: Callable[[Callable[[BagWriter], None]], None]
    ) -> None:
        self._node, self._selection, self._tell = node, selection, tell
        self._asked: dict[str, ServiceCall] = {}
        self._wanted: dict[str, tuple[list[str], ServiceCall]] = {}
        self._known: dict[str, dict[str, Any]] = {}
        self._hashes: dict[str, str] = {}
        self._contracts: dict[str, str] = {}

    def look(self, nodes: list[tuple[str, str]]) -> None:
        """Ask nodes that are new, and take answers.

        Args:
            nodes: Name and namespace of all of the graph.
        """
        from rcl_interfaces.srv import GetParameters, ListParameters

        for name, space in nodes:
            full = f"{space.rstrip('/')}/{name}"
            if full in self._asked or name.startswith("_") or not self._selection.has(full):
                continue
            if full == self._node.get_fully_qualified_name():
                continue
            client = self._node.client(ListParameters, f"{full}/list_parameters")
            self._asked[full] = ServiceCall(client, ListParameters.Request())
        for full, call in self._asked.items():
            if full not in self._wanted and call.poll():
                names = list(call.response.result.names)
                client = self._node.client(GetParameters, f"{full}/get_parameters")
                self._wanted[full] = names, ServiceCall(client, GetParameters.Request(names=names))
        before = len(self._known)
        for full, (names, call) in self._wanted.items():
            if full not in self._known and call.poll():
                self._known[full] = {name: _plain(value) for name, value in zip(names, call.response.values)}
                self._read(full)
        if len(self._known) > before:
            told = {full: {"ros__parameters": values} for full, values in sorted(self._known.items())}
            self._attach(PARAMETERS, "application/yaml", yaml.safe_dump(told, sort_keys=False))

    def heard(self, diagnostics: bytes) -> None:
        """Take the policies' hashes from a message on /diagnostics: they are of the bytes that are run."""
        if b"sha256" not in diagnostics:
            return
        from diagnostic_msgs.msg import DiagnosticArray
        from rclpy.serialization import deserialize_message

        for status in deserialize_message(diagnostics, DiagnosticArray).status:
            values = {value.key: value.value for value in status.values}
            full = f"/{status.name.strip('/')}"
            if "sha256" not in values or full in self._hashes or not self._selection.has(full):
                continue  # another file that takes its place is told on policy/file
            self._hashes[full] = values["sha256"]
            space = full.rpartition("/")[0]
            facts = {f"{space}/policy": values.get("policy", ""), f"{space}/policy_sha256": values["sha256"]}
            self._tell(lambda bag, facts=facts: bag.note(facts))  # type: ignore[misc]
            self._read(full)

    def _read(self, full: str) -> None:
        """Read the files that a node's parameters name."""
        space, values = full.rpartition("/")[0], self._known.get(full, {})
        robot, policy = values.get("robot"), values.get("policy")
        if isinstance(robot, str) and robot:
            path = robot_files().get(robot, Path(robot))
            if (data := _content(path)) is not None:
                self._attach(f"{space}/{ROBOT}", "application/yaml", data)
                self._tell(lambda bag: bag.note({f"{space}/robot": robot}))
        checked = self._hashes.get(full)
        if not (isinstance(policy, str) and policy and checked) or self._contracts.get(full) == checked:
            return
        self._contracts[full] = checked
        contract = _contract(find_policy(policy), checked)
        if contract is None:
            reason = f"not attached: {policy} cannot be read here, or is another file by now"
            self._tell(lambda bag: bag.note({f"{space}/policy_contract": reason}))
        else:
            self._attach(f"{space}/{CONTRACT}", "application/json", contract)

    def _attach(self, name: str, media_type: str, content: str | bytes) -> None:
        data = content.encode() if isinstance(content, str) else content
        self._tell(lambda bag: bag.attach(name, media_type, data))


def _contract(path: Path, sha256: str) -> str | None:
    """Return a policy's contract as JSON; None if the file is not there, or not the one with that SHA-256."""
    from rlstack.policies.serialization import unpack

    data = _content(path)
    if data is None or hashlib.sha256(data).hexdigest() != sha256:
        return None
    try:
        return json.dumps(unpack(data, str(path)).data, indent=2)
    except UserError:
        return None


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _plain(value: Any) -> Any:
    """Return the value of a ``rcl_interfaces/ParameterValue``."""
    if not 0 < value.type < len(_FIELDS):
        return None
    found = getattr(value, _FIELDS[value.type])
    return found if isinstance(found, (bool, int, float, str)) else [_bare(one) for one in found]


def _bare(one: Any) -> Any:
    return int.from_bytes(one, "little") if isinstance(one, bytes) else one.item() if hasattr(one, "item") else one
