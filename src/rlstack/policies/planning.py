"""A policy that plans chunks, whose planning takes place in a thread while the robot carries out the chunk before.

Chunks are handed over as in real-time chunking (Black et al., arXiv 2506.07339): planning begins as many steps before
the chunk in hand ends as it takes, and of the new chunk those actions are left out that were carried out meanwhile.
"""

from __future__ import annotations

import hashlib
import math
import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from onnx import ModelProto, TensorProto, ValueInfoProto, helper

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.policies.contract import ACTION, NEXT_STATE_PREFIX, PLAN, STATE_PREFIX, Port
from rlstack.policies.graph_cut import cut
from rlstack.policies.inference import Policy, open_session
from rlstack.policies.output_error import PolicyOutputError
from rlstack.policies.serialization import unpack

_WAIT = 0.5
"""Share of a control period for which a step waits for a plan: one that is ready by then loses no step."""
_REMEMBERED = 8
"""Plans whose longest time says how early the next is begun."""


@dataclass(frozen=True)
class _Request:
    """A chunk that is to be planned: in which episode, after how many actions, and from which inputs and state."""

    episode: int
    taken: int
    inputs: Mapping[str, Array]


class ChunkQueue:
    """The actions in hand. An action passes when it is carried out: while there is none, the robot stays where it is.

    Args:
        steps: Length of a chunk.
    """

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self.clear()

    def clear(self) -> None:
        """Forget all actions."""
        self.taken = 0
        """Number of actions that were carried out, which whoever does so counts."""
        self._plan: Array | None = None
        self._begun = 0

    @property
    def left(self) -> int:
        """Number of actions in hand."""
        return 0 if self._plan is None else max(0, self._begun + self._steps - self.taken)

    def add(self, plan: Array, begun: int) -> None:
        """Take over a chunk (steps, axes), which was planned when ``begun`` actions had been carried out."""
        self._plan, self._begun = plan, begun

    @property
    def present(self) -> Array | None:
        """The action (axes,) that is due; None: there is none."""
        return None if self._plan is None or not self.left else np.asarray(self._plan[self.taken - self._begun])


def steps_ahead(seconds: float, period_s: float) -> int:
    """Return how many steps before the chunk in hand ends planning must begin, if it takes so many seconds."""
    return 0 if seconds <= _WAIT * period_s else math.ceil(seconds / period_s)


@dataclass
class PlanCounts:
    """What has happened since the start."""

    plans: int = 0
    late: int = 0
    """Steps in which the robot stayed where it was, because no plan was ready."""
    latency_ms: float = 0.0
    """Longest time of the last plans."""


class PlanningPolicy:
    """A policy file that plans chunks, with the interface of :class:`rlstack.policies.Policy` for one robot.

    Its graph is cut in two: planning, which takes long, and what makes a command of an action. A step waits for half a
    control period at most. A policy that plans within that gives the same commands as when it is stepped as a whole,
    and is run once for each chunk.

    Args:
        policy: The loaded policy.

    Raises:
        UserError: It does not plan chunks, its file was replaced since it was loaded, or its graph cannot be cut.
    """

    def __init__(self, policy: Policy) -> None:
        self.contract, self.path, self.sha256 = policy.contract, policy.path, policy.sha256
        if not policy.contract.chunk:
            raise UserError(f"{policy.path} does not plan chunks, so it cannot plan while it acts.")
        self._plan, self._act = halves(policy)
        self._plan_inputs, self._act_inputs = (
            [port.name for port in (*part.contract.inputs, *part.contract.optional)] for part in (self._plan, self._act)
        )
        self._queue = ChunkQueue(policy.contract.chunk[0])
        self._period_s = 1.0 / policy.contract.rate_hz
        self.counts = PlanCounts()
        self._times: deque[float] = deque(maxlen=_REMEMBERED)
        self._wake = threading.Condition()
        self._asked: _Request | None = None
        self._busy, self._ends = False, False
        self._made: tuple[_Request, Array | Exception] | None = None
        self._episode, self._rested = 0, 0
        self._thread = threading.Thread(target=self._run, name="planning", daemon=True)
        self._thread.start()

    @property
    def warning(self) -> str:
        """Why the robot had to wait in the last step, as a sentence; empty: it did not."""
        if not self._rested:
            return ""
        steps, ms = self.contract.chunk[0], 1000.0 * self._period_s
        return (
            f"no plan was ready, so the robot waits: planning takes {self.counts.latency_ms:.0f} ms, and {steps} steps"
            f" of {ms:.0f} ms are planned"
        )

    def close(self) -> None:
        """End the thread."""
        with self._wake:
            self._ends = True
            self._wake.notify_all()
        self._thread.join(timeout=5.0)

    def reset(self, batch: int = 1) -> None:
        """Set the recurrent state to zero and forget what is planned.

        Raises:
            ValueError: ``batch`` is not 1.
        """
        if batch != 1:
            raise ValueError(f"batch: {batch} is not allowed: one robot at a time.")
        self._act.reset()
        with self._wake:
            self._episode += 1
            self._asked = self._made = None
        self._queue.clear()
        self._rested = 0

    def step(self, inputs: Mapping[str, ArrayLike]) -> dict[str, Array]:
        """Return the command for the present action, or to stay where the robot is while there is none.

        Raises:
            ValueError: As of :meth:`rlstack.policies.Policy.step`.
            PolicyOutputError: As there; or no plan has been ready for the time that a whole chunk takes.
        """
        self._hand_over()
        if self._is_free and self._queue.left <= steps_ahead(1e-3 * self.counts.latency_ms, self._period_s):
            self._ask(inputs)
        if not self._queue.left:
            with self._wake:
                self._wake.wait_for(lambda: self._made is not None, _WAIT * self._period_s)
            self._hand_over()
        action = self._queue.present
        self._rested = 0 if action is not None else self._rested + 1
        self.counts.late += action is None
        if self._rested > self.contract.chunk[0]:
            raise PolicyOutputError(f"{self.path}: {self.warning}")
        present = np.zeros(self.contract.chunk[1]) if action is None else action
        given = {**inputs, ACTION: present}
        command = self._act.step({name: given[name] for name in self._act_inputs if name in given})
        self._queue.taken += action is not None
        return command

    @property
    def _is_free(self) -> bool:
        with self._wake:
            return self._asked is None and not self._busy and self._made is None

    def _ask(self, inputs: Mapping[str, ArrayLike]) -> None:
        state = {STATE_PREFIX + name: value[0] for name, value in self._act.state.items()}
        given = {**inputs, **state}
        seen = {name: np.array(given[name]) for name in self._plan_inputs if name in given}
        with self._wake:
            self._asked = _Request(self._episode, self._queue.taken, seen)
            self._wake.notify_all()

    def _hand_over(self) -> None:
        """Take over the chunk that was planned, if any.

        Raises:
            ValueError: An input was refused.
            PolicyOutputError: It is not finite.
        """
        with self._wake:
            made, self._made = self._made, None
        if made is None or made[0].episode != self._episode:
            return
        request, plan = made
        if isinstance(plan, Exception):
            raise plan
        self._queue.add(plan, request.taken)

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._ends or self._asked is not None)
                if self._ends:
                    return
                request, self._asked, self._busy = self._asked, None, True
            assert request is not None
            with suppress(AttributeError, OSError):  # it must not keep the node from sending commands
                os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
            begun = time.monotonic()
            try:
                plan: Array | Exception = self._plan.step(request.inputs)[PLAN]
            except Exception as error:  # whatever it is, it belongs to the step that takes the plan over
                plan = error
            taken_s = time.monotonic() - begun
            with self._wake:
                self._times.append(taken_s)
                self.counts.plans += 1
                self.counts.latency_ms = 1000.0 * max(self._times)
                self._busy, self._made = False, (request, plan)
                self._wake.notify_all()


def halves(policy: Policy) -> tuple[Policy, Policy]:
    """Return what plans, and what makes a command of an action and keeps the rest of the recurrent state.

    The first gives :data:`PLAN` (batch, steps, axes) for inputs and recurrent state, named as in the graph; the second
    takes :data:`ACTION` (batch, axes).

    Raises:
        UserError: The file was replaced since it was loaded, or its graph cannot be cut.
    """
    contract, where = policy.contract, str(policy.path)
    try:
        data = policy.path.read_bytes()
    except OSError as error:
        raise UserError(f"Cannot read the policy {where}: {error.strerror}.") from error
    if hashlib.sha256(data).hexdigest() != policy.sha256:
        raise UserError(f"The policy file {where} was replaced since it was loaded. Start again.")
    model = unpack(data, where).model
    steps, axes = contract.chunk
    plan, action = _value(PLAN, (steps, axes)), _value(ACTION, (axes,))
    after = {value.name.removeprefix(NEXT_STATE_PREFIX): value for value in model.graph.output}
    command = [after[port.name] for port in contract.outputs]
    kept = [
        state
        for state in contract.state  # the rest of a chunk is in hand, and not among the state
        if not _takes(cut(model, [after[state.name]], [plan, action]), PLAN)
    ]
    ports = {port.name: port for port in contract.inputs}
    for state in contract.state:
        ports[STATE_PREFIX + state.name] = _port(STATE_PREFIX + state.name, state.shape)
    ports[ACTION] = _port(ACTION, (axes,))
    optional = {port.name: port for port in contract.optional}
    plans = cut(model, [plan])
    acts = cut(model, [*command, *(after[state.name] for state in kept)], [action])
    own = [STATE_PREFIX + state.name for state in kept]
    for part in (plans, acts):
        for name in (value.name for value in part.graph.input):
            if name not in {**ports, **optional} or (name.startswith(STATE_PREFIX) and name not in own):
                raise UserError(
                    f"{where}: what it plans or how it acts depends on '{name}', so its graph cannot be cut in two: set"
                    " the policy node's parameter asynchronous to false."
                )
    read = tuple(ports[value.name] for value in plans.graph.input if value.name in ports)
    sensed = tuple(ports[value.name] for value in acts.graph.input if value.name not in {*own, *optional})
    inner = replace(contract, inputs=read, outputs=(_port(PLAN, (steps, axes)),), state=())
    outer = replace(contract, inputs=sensed, state=tuple(kept), noise=())  # which is in the action
    opened = [open_session(part.SerializeToString(), where) for part in (plans, acts)]
    return Policy(inner, opened[0], policy.path), Policy(outer, opened[1], policy.path)


def _takes(part: ModelProto, name: str) -> bool:
    return any(value.name == name for value in part.graph.input)


def _value(name: str, shape: tuple[int, ...]) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", *shape])


def _port(name: str, shape: tuple[int, ...]) -> Port:
    """Return a tensor within the graph as a port; an action is -1 to 1."""
    size = math.prod(shape)
    return Port(
        name=name,
        shape=shape,
        unit="-",
        frame="",
        topic="-",
        type="",
        field="",
        minimum=(-1.0,) * size,
        maximum=(1.0,) * size,
    )
