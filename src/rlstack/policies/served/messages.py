"""The messages of LeRobot's service ``AsyncInference``: protocol buffers around pickles.

Its classes are not needed here. What is sent names them and is written opcode by opcode. What is received is read by
:func:`read_actions`, which admits nothing but lists of timed actions, and no code.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from rlstack.libraries import import_library

SERVICE = "transport.AsyncInference"
PART_BYTES = 2**21
"""Length of the parts that an observation is sent in: gRPC admits messages of 4 MiB."""
_BEGIN, _MIDDLE, _END = 1, 2, 3
_HELPERS = "lerobot.async_inference.helpers"


@cache
def message_classes() -> Mapping[str, Any]:
    """Return the classes of the messages by name; their schema is LeRobot's ``services.proto``."""
    descriptor = import_library("google.protobuf.descriptor_pb2", "lerobot")
    pools = import_library("google.protobuf.descriptor_pool", "lerobot")
    factory = import_library("google.protobuf.message_factory", "lerobot")
    file = descriptor.FileDescriptorProto(name="rlstack/async_inference.proto", package="transport", syntax="proto3")
    state = file.enum_type.add(name="TransferState")
    for number, name in enumerate(("UNKNOWN", "BEGIN", "MIDDLE", "END")):
        state.value.add(name=f"TRANSFER_{name}", number=number)
    field = descriptor.FieldDescriptorProto
    for name in ("Observation", "Actions", "PolicySetup", "Empty"):
        message = file.message_type.add(name=name)
        if name == "Observation":
            message.field.add(
                name="transfer_state",
                number=1,
                type=field.TYPE_ENUM,
                type_name=".transport.TransferState",
                label=field.LABEL_OPTIONAL,
            )
        if name != "Empty":
            number = 2 if name == "Observation" else 1
            message.field.add(name="data", number=number, type=field.TYPE_BYTES, label=field.LABEL_OPTIONAL)
    pool = pools.DescriptorPool()  # of its own: LeRobot registers the same names in the default one
    pool.Add(file)
    return {
        one.name: factory.GetMessageClass(pool.FindMessageTypeByName(f"transport.{one.name}"))
        for one in file.message_type
    }


def parts(data: bytes) -> Iterator[Any]:
    """Yield an observation's messages: at most :data:`PART_BYTES` each, the last marked."""
    kind = message_classes()["Observation"]
    for start in range(0, len(data), PART_BYTES):
        ends = start + PART_BYTES >= len(data)
        state = _END if ends else _MIDDLE if start else _BEGIN
        yield kind(transfer_state=state, data=data[start : start + PART_BYTES])


def observation(features: Mapping[str, Any], *, timestep: int, timestamp: float) -> bytes:
    """Return an observation that must be answered, as LeRobot's ``TimedObservation``.

    Args:
        features: Values by feature: floats, images (rows, columns, 3) uint8, and the text ``task``.
        timestep: The step that its first action is for.
        timestamp: Its time, s; the first action has it, too.
    """
    fields = {"timestamp": timestamp, "timestep": timestep, "observation": dict(features), "must_go": True}
    return _instance("TimedObservation", fields)


def instructions(
    policy_type: str, pretrained: str, features: Mapping[str, Any], actions_per_chunk: int, device: str
) -> bytes:
    """Return what a server is told to load, as LeRobot's ``RemotePolicyConfig``.

    Args:
        policy_type: LeRobot's name of the policy's class, such as ``act``.
        pretrained: Its folder or name, as the server finds it.
        features: The dataset features of the observations.
        actions_per_chunk: How many actions an answer has at most.
        device: Where the server runs it, such as ``cpu`` or ``cuda``.
    """
    fields = {
        "policy_type": policy_type,
        "pretrained_name_or_path": pretrained,
        "lerobot_features": dict(features),
        "actions_per_chunk": actions_per_chunk,
        "device": device,
        "rename_map": {},
    }
    return _instance("RemotePolicyConfig", fields)


def _instance(name: str, fields: Mapping[str, Any]) -> bytes:
    """Return a pickle of an instance of one of LeRobot's classes, which need not be installed."""
    state = pickle.dumps(dict(fields), protocol=3)
    made = pickle.GLOBAL + f"{_HELPERS}\n{name}\n".encode() + pickle.EMPTY_TUPLE + pickle.NEWOBJ
    protocol, contents = state[:2], state[2:-1]  # without the opcode that ends it
    return protocol + made + contents + pickle.BUILD + pickle.STOP
