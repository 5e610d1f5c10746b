"""Names of nodes as ROS tells them, with namespaces and of the endpoints of a topic."""

from __future__ import annotations

from typing import Any

_UNKNOWN = "_NODE_NAME_UNKNOWN_"


def full_name(namespace: str, node: str) -> str:
    """Return a node's name with its namespace, such as ``/cf1/guard``."""
    return f"{namespace.rstrip('/')}/{node}"


def name_of(endpoint: Any) -> str:
    """Return the full name of an endpoint's node; empty while ROS does not state it."""
    return "" if endpoint.node_name in ("", _UNKNOWN) else full_name(endpoint.node_namespace, endpoint.node_name)
