"""The policy file: one ONNX graph that speaks SI units by name, with the contract that says what each name means.

Writing one::

    contract = contract_for(robot, ["position", "orientation"], ["rotor_speed"], name="hover", task="quadrotor_hover")
    write_policy(model, contract, "policy.onnx")

Running one::

    policy = load_policy("policy.onnx", robot=robot)
    policy.reset()
    command = policy.step({"position": position, "orientation": orientation})["rotor_speed"]
"""

from rlstack.policies.catalogue import command_range, contract_for
from rlstack.policies.contract import (
    METADATA_KEY,
    NEXT_STATE_PREFIX,
    SCHEMA_VERSION,
    STATE_PREFIX,
    Contract,
    Port,
    StatePort,
)
from rlstack.policies.file import MAX_BYTES, load_policy, write_policy
from rlstack.policies.runner import Policy, PolicyOutputError
from rlstack.policies.table import describe

__all__ = [
    "MAX_BYTES",
    "METADATA_KEY",
    "NEXT_STATE_PREFIX",
    "SCHEMA_VERSION",
    "STATE_PREFIX",
    "Contract",
    "Policy",
    "PolicyOutputError",
    "Port",
    "StatePort",
    "command_range",
    "contract_for",
    "describe",
    "load_policy",
    "write_policy",
]
