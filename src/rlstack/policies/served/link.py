"""The connection to a policy server: one thread sends observations and receives their actions, one at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlstack.libraries import import_library
from rlstack.policies.served.actions import LARGEST_BYTES, NoActions, TimedAction, read_actions
from rlstack.policies.served.messages import SERVICE, instructions, message_classes, observation, parts
from rlstack.policies.served.settings import ServerSettings

_LOAD_S = 300.0
"""Time limit for the server to load the policy."""
_AGAIN_S = 1.0
"""Pause before the next attempt to connect."""
_STARTS_S = 10.0
"""Time limit for a policy's first answer, which prepares much that later ones find ready."""


@dataclass(frozen=True)
class Request:
    """An observation that needs actions.

    Args:
        episode: The episode that it belongs to.
        step: The step of its first action.
        features: Values by feature.
        at_s: Monotonic time of the observation.
    """

    episode: int
    step: int
    features: Mapping[str, Any]
    at_s: float


@dataclass
class Counts:
    """What has happened since the start."""

    chunks: int = 0
    late: int = 0
    refused: int = 0
    lost: int = 0
    latency_ms: float = 0.0
    """Of the last chunk: from its observation to its actions."""
    last_refusal: str = field(default="none")


class ServerLink:
    """Connects, has the policy loaded, answers requests, and connects anew when the server is lost.

    Args:
        settings: Server and policy.
        features: The dataset features of the observations.
        size: Number of elements of an action.
        on_chunk: Called with a request and its actions, in this link's thread.
        on_lost: Called with the reason when requests are not answered any more.
    """

    def __init__(
        self,
        settings: ServerSettings,
        features: Mapping[str, Any],
        size: int,
        on_chunk: Callable[[Request, Sequence[TimedAction]], None],
        on_lost: Callable[[str], None],
    ) -> None:
        self._grpc = import_library("grpc", "lerobot")
        self._settings, self._features, self._size = settings, dict(features), size
        self._on_chunk, self._on_lost = on_chunk, on_lost
        self.counts = Counts()
        self.why_not = f"the policy server {settings.address} has not answered yet"
        """Why no request is taken; empty: it is ready."""
        self._request: Request | None = None
        self._wake, self._ends, self._busy = threading.Condition(), False, False
        self._thread = threading.Thread(target=self._run, name="policy server", daemon=True)

    def start(self) -> None:
        """Begin to connect."""
        self._thread.start()

    def close(self) -> None:
        """End the connection; nothing is called afterwards."""
        with self._wake:
            self._ends = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)

    @property
    def is_free(self) -> bool:
        """Whether a request would be sent at once."""
        return not self.why_not and not self._busy and self._request is None

    def ask(self, request: Request) -> None:
        """Send a request as soon as the one before is answered; it replaces one that waits."""
        with self._wake:
            self._request = request
            self._wake.notify()

    def _run(self) -> None:
        while not self._ends:
            channel = self._grpc.insecure_channel(
                self._settings.address, [("grpc.max_receive_message_length", LARGEST_BYTES)]
            )
            try:
                self._serve(_Calls(channel, self._grpc))
            except Exception as error:  # an error of any kind costs the connection, and never goes unseen
                self._lose(_reason(error))
            finally:
                channel.close()
            with self._wake:
                self._wake.wait_for(lambda: self._ends, _AGAIN_S)

    def _lose(self, why: str) -> None:
        self._busy = False
        if self._ends:
            return
        self.counts.lost += not self.why_not
        self.why_not = f"the policy server {self._settings.address} does not serve ({why})"
        with self._wake:
            self._request = None
        self._on_lost(self.why_not)

    def _serve(self, calls: _Calls) -> None:
        given = self._settings
        calls.ready(timeout=5.0)
        self.why_not = f"the policy server {given.address} is loading {given.pretrained}"
        calls.instruct(
            instructions(given.type, given.pretrained, self._features, given.actions, given.device), timeout=_LOAD_S
        )
        self.why_not, limit_s = "", _STARTS_S
        while not self._ends:
            with self._wake:
                self._wake.wait_for(lambda: self._ends or self._request is not None)
                request, self._request = self._request, None
                self._busy = request is not None
            if request is not None:
                self._answer(calls, request, limit_s)
                limit_s = given.timeout_s
            self._busy = False

    def _answer(self, calls: _Calls, request: Request, limit_s: float) -> None:
        """Have one request answered; late or refused answers are counted, other errors cost the connection."""
        sent = time.time()
        try:
            chunk = self._chunk(calls, request, sent, limit_s)
        except NoActions as error:
            self.counts.refused += 1
            self.counts.last_refusal = str(error)
            self._on_lost(f"what the policy server {self._settings.address} sent was refused: {error}")
            return
        except self._grpc.RpcError as error:
            if error.code() is not self._grpc.StatusCode.DEADLINE_EXCEEDED:
                raise
            chunk = None
        self.counts.latency_ms = 1e3 * (time.monotonic() - request.at_s)
        if chunk is None or self.counts.latency_ms > 1e3 * limit_s:
            self.counts.late += 1
            return
        self.counts.chunks += 1
        self._on_chunk(request, chunk)

    def _chunk(self, calls: _Calls, request: Request, sent: float, limit_s: float) -> list[TimedAction] | None:
        """Return a request's actions; None: its time is over."""

        def left_s() -> float:
            return limit_s - (time.monotonic() - request.at_s)

        if left_s() <= 0.0:
            return None
        data = observation(request.features, timestep=request.step, timestamp=sent)
        calls.observe(data, timeout=max(left_s(), 0.001))
        while not self._ends and left_s() > 0.0:
            answer = calls.act(timeout=left_s())
            if not answer:
                raise ConnectionError("it has sent no actions: its own log says why")
            chunk = read_actions(answer, self._size, self._settings.actions)
            if (chunk[0].timestep, chunk[0].timestamp) == (request.step, sent):
                return chunk
            # otherwise it answers an earlier observation, late
        return None


class _Calls:
    """The four calls of the service, on one channel."""

    def __init__(self, channel: Any, grpc: Any) -> None:
        self._kinds = message_classes()

        def call(name: str, sent: str, received: str, kind: str = "unary_unary") -> Any:
            return getattr(channel, kind)(
                f"/{SERVICE}/{name}",
                request_serializer=self._kinds[sent].SerializeToString,
                response_deserializer=self._kinds[received].FromString,
            )

        self._ready = call("Ready", "Empty", "Empty")
        self._instruct = call("SendPolicyInstructions", "PolicySetup", "Empty")
        self._observe = call("SendObservations", "Observation", "Empty", "stream_unary")
        self._act = call("GetActions", "Empty", "Actions")

    def ready(self, timeout: float) -> None:
        self._ready(self._kinds["Empty"](), timeout=timeout)

    def instruct(self, data: bytes, timeout: float) -> None:
        self._instruct(self._kinds["PolicySetup"](data=data), timeout=timeout)

    def observe(self, data: bytes, timeout: float) -> None:
        self._observe(parts(data), timeout=timeout)

    def act(self, timeout: float) -> bytes:
        return bytes(self._act(self._kinds["Empty"](), timeout=timeout).data)


def _reason(error: Exception) -> str:
    """Return what went wrong, in one line."""
    details, code = getattr(error, "details", None), getattr(error, "code", None)
    if callable(details) and callable(code):
        return f"{code().name.lower().replace('_', ' ')}: {' '.join(str(details()).split())[:200]}"
    return str(error) or type(error).__name__
