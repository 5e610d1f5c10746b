"""Policy files: an ONNX graph with named inputs and outputs in SI units, and a contract that defines them.

Writing one::

    contract = contract_for(robot, ["position", "orientation"], ["rotor_speed"], name="hover", task="quadrotor_hover")
    write_policy(model, contract, "policy.onnx")

Running one::

    policy = load_policy("policy.onnx", robot=robot)
    policy.reset()
    command = policy.step({"position": position, "orientation": orientation})["rotor_speed"]

A policy for a family of robots is written with :func:`contract_for_family` and run in the same way: loading it for a
robot fills in that robot's values.

What runs graphs is imported on first use: onnx and onnxruntime take longer to load than most nodes that only read
contracts or messages, such as the guard.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rlstack.interfaces.kind_signals import command_range
from rlstack.policies.contract import (
    METADATA_KEY,
    NEXT_STATE_PREFIX,
    SCHEMA_VERSION,
    STATE_PREFIX,
    Contract,
    Port,
    StatePort,
)
from rlstack.policies.contract_table import describe
from rlstack.policies.envelope import Envelope, ScanUse
from rlstack.policies.family_contract import contract_for_family, family_departures, robot_inputs, robot_name
from rlstack.policies.output_error import PolicyOutputError
from rlstack.policies.released import find_policy, released_policies
from rlstack.policies.robot_contract import contract_for
from rlstack.policies.robot_envelope import envelope_for

if TYPE_CHECKING:
    from rlstack.policies.inference import Policy
    from rlstack.policies.policy_file import load_policy, write_policy

_ON_FIRST_USE = {
    "Policy": "inference",
    "load_policy": "policy_file",
    "write_policy": "policy_file",
}

__all__ = [
    "METADATA_KEY",
    "NEXT_STATE_PREFIX",
    "SCHEMA_VERSION",
    "STATE_PREFIX",
    "Contract",
    "Envelope",
    "Policy",
    "PolicyOutputError",
    "Port",
    "ScanUse",
    "StatePort",
    "command_range",
    "contract_for",
    "contract_for_family",
    "describe",
    "envelope_for",
    "family_departures",
    "find_policy",
    "load_policy",
    "released_policies",
    "robot_inputs",
    "robot_name",
    "write_policy",
]


def __getattr__(name: str) -> Any:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f"{__name__}.{_ON_FIRST_USE[name]}"), name)
