"""A peer of LeRobot's policy server: its service over real gRPC, with its pickles, written from its description.

It shares no code with rlstack: the messages come from their schema, and the pickles are PyTorch's and those of classes
with LeRobot's names. Its policy is a function.
"""

from __future__ import annotations

import pickle
import queue
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np
import torch

HELPERS = "lerobot.async_inference.helpers"


@dataclass
class TimedAction:
    timestamp: float
    timestep: int
    action: torch.Tensor


@dataclass
class TimedObservation:
    timestamp: float
    timestep: int
    observation: dict[str, Any]
    must_go: bool = False


@dataclass
class RemotePolicyConfig:
    policy_type: str
    pretrained_name_or_path: str
    lerobot_features: dict[str, Any]
    actions_per_chunk: int
    device: str = "cpu"
    rename_map: dict[str, str] = field(default_factory=dict)


_naming = threading.Lock()


@contextmanager
def _lerobots_names() -> Iterator[None]:
    """Give the classes LeRobot's names, as they have in its process."""
    with _naming:
        yield from _named()


def _named() -> Iterator[None]:
    module = types.ModuleType(HELPERS)
    packages = {name: types.ModuleType(name) for name in ("lerobot", "lerobot.async_inference")}
    before = {name: sys.modules.get(name) for name in (*packages, HELPERS)}
    for kind in (TimedAction, TimedObservation, RemotePolicyConfig):
        kind.__module__ = HELPERS
        setattr(module, kind.__name__, kind)
    sys.modules.update({**packages, HELPERS: module})
    try:
        yield
    finally:
        for name, known in before.items():
            if known is None:
                del sys.modules[name]
            else:
                sys.modules[name] = known


def dumped(
    actions: np.ndarray, timestep: int, timestamp: float, dtype: torch.dtype = torch.float32, *, every: int = 1
) -> bytes:
    """Return a chunk (steps, actions) as the server sends it, of every step or of each second, third, ... one."""
    with _lerobots_names():
        rows = list(torch.tensor(actions, dtype=dtype))
        return pickle.dumps([TimedAction(timestamp + k / 30, timestep + k * every, row) for k, row in enumerate(rows)])


def loaded(data: bytes) -> Any:
    """Return what a client has sent."""
    with _lerobots_names():
        return pickle.loads(data)


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def _fields(message: bytes) -> dict[int, Any]:
    """Return a message's fields by number: protocol buffers' wire format."""
    found: dict[int, Any] = {}
    place = 0

    def number() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte, place = message[place], place + 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while place < len(message):
        key = number()
        if key & 7 == 0:
            found[key >> 3] = number()
        else:
            length = number()
            found[key >> 3], place = message[place : place + length], place + length
    return found


class PolicyServer:
    """See the module.

    Args:
        policy: Returns a chunk (steps, actions) for an observation.
        port: 0: a free one.
    """

    def __init__(self, policy: Callable[[dict[str, Any]], np.ndarray], port: int = 0) -> None:
        self.policy = policy
        self.delay_s, self.answer = 0.0, b""
        """What is sent instead of actions."""
        self.configs: list[RemotePolicyConfig] = []
        self.observations: list[TimedObservation] = []
        self._next: queue.Queue[TimedObservation] = queue.Queue(maxsize=1)
        self._loaded = False
        self._server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
        handlers = {
            "Ready": grpc.unary_unary_rpc_method_handler(self._ready),
            "SendPolicyInstructions": grpc.unary_unary_rpc_method_handler(self._instruct),
            "SendObservations": grpc.stream_unary_rpc_method_handler(self._observe),
            "GetActions": grpc.unary_unary_rpc_method_handler(self._act),
        }
        service = grpc.method_handlers_generic_handler("transport.AsyncInference", handlers)
        self._server.add_generic_rpc_handlers((service,))
        self.port = self._server.add_insecure_port(f"127.0.0.1:{port}")
        self._server.start()

    def stop(self) -> None:
        """End at once."""
        self._server.stop(0).wait()

    def _ready(self, request: bytes, context: Any) -> bytes:
        assert request == b""
        return b""

    def _instruct(self, request: bytes, context: Any) -> bytes:
        config = loaded(_fields(request)[1])
        assert type(config) is RemotePolicyConfig
        self.configs.append(config)
        self._loaded = True
        return b""

    def _observe(self, requests: Iterator[bytes], context: Any) -> bytes:
        data, ended = b"", False
        for request in requests:
            assert len(request) < 4 * 2**20 and not ended
            fields = _fields(request)
            assert fields[1] in ((1, 3) if not data else (2, 3))
            data, ended = data + fields[2], fields[1] == 3
        assert ended
        observation = loaded(data)
        assert type(observation) is TimedObservation and observation.must_go
        self.observations.append(observation)
        if self._next.full():
            self._next.get_nowait()
        self._next.put(observation)
        return b""

    def _act(self, request: bytes, context: Any) -> bytes:
        try:
            seen = self._next.get(timeout=2.0)
        except queue.Empty:
            return b""
        time.sleep(self.delay_s)
        if not self._loaded:
            return b""
        data = self.answer or dumped(self.policy(seen.observation), seen.timestep, seen.timestamp)
        return b"\x0a" + _varint(len(data)) + data
