"""Where a recorded run left what its policy was trained on, by the ranges and the statistics in the policy file."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from rlstack.arrays import Array
from rlstack.bringup.explain.events import Event, joined
from rlstack.bringup.explain.recorded_run import RecordedRun
from rlstack.bringup.explain.rerun import Taken
from rlstack.policies import Contract, Policy
from rlstack.policies.contract import STATE_PREFIX
from rlstack.policies.graph_cut import cut
from rlstack.policies.inference import open_session
from rlstack.policies.serialization import unpack

FAR_SIGMA = 5.0
"""Standard deviations from training's mean from which an observation is outside: of a normal distribution, 1 in 2
million; training's are not normal, but bounded."""
_APART_S = 0.3
_AXES = "xyz"
_LIMITS = (
    ("linear_velocity", "linear_velocity_m_s", "m/s"),
    ("angular_velocity", "angular_velocity_rad_s", "rad/s"),
)
Value = Callable[[Mapping[str, Array]], float]
"""Returns a quantity from a step's inputs."""


@dataclass(frozen=True)
class Bound:
    """A range that the policy file states.

    Args:
        quantity: What it is of, such as ``goal_position x``.
        low: Its lowest value.
        high: Its highest.
        unit: Of both.
        source: Where the range comes from.
        value: Returns the quantity from a step's inputs.
    """

    quantity: str
    low: float
    high: float
    unit: str
    source: str
    value: Value = lambda seen: math.nan


@dataclass
class Outside:
    """How long a quantity was outside of its range.

    Args:
        bound: The range.
        share: Share of the steps outside.
        least: Lowest recorded value.
        most: Highest.
        events: When it was outside.
    """

    bound: Bound
    share: float
    least: float
    most: float
    events: list[Event]

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        limits = {name: getattr(self.bound, name) for name in ("quantity", "low", "high", "unit", "source")}
        figures = {"share_outside": self.share, "least": self.least, "most": self.most}
        return {**limits, **figures, "events": [asdict(event) for event in self.events]}


def bounds_of(contract: Contract) -> list[Bound]:
    """Return the ranges of inputs that a policy file states."""
    names = {port.name for port in contract.inputs}
    return [bound for bound in _all_bounds(contract) if bound.quantity.split()[0] in names]


def _all_bounds(contract: Contract) -> Iterator[Bound]:
    conditions, robot = contract.envelope.conditions, contract.envelope.robot
    names = {port.name for port in contract.inputs}
    for key in conditions:
        if found := re.fullmatch(r"goal_([xyz])_min_m", key):
            low, high = float(conditions[key]), float(conditions[f"goal_{found[1]}_max_m"])
            place = _element("goal_position", _AXES.index(found[1]))
            yield Bound(f"goal_position {found[1]}", low, high, "m", "goals of training", place)
    lost = "an episode of training ended there"
    if "lost_m" in conditions and "goal_position" in names:
        yield Bound("position from goal_position", 0.0, float(conditions["lost_m"]), "m", lost, _away)
    if "lost_rad_s" in conditions:
        most = float(conditions["lost_rad_s"])
        yield Bound("angular_velocity", 0.0, most, "rad/s", lost, _length("angular_velocity"))
    limits = robot.get("limits") or {}
    for name, key, unit in _LIMITS:
        if limits.get(key) is not None and not (name == "angular_velocity" and "lost_rad_s" in conditions):
            yield Bound(name, 0.0, float(limits[key]), unit, "limit of the robot", _length(name))
    for number, joint in enumerate(robot.get("joints") or ()):
        name, speed = joint["name"], float(joint["velocity_max"])
        low, high = float(joint["lower"]), float(joint["upper"])
        value = _element("joint_position", number)
        yield Bound(f"joint_position {name}", low, high, "rad or m", "range of the joint", value)
        value = _element("joint_velocity", number)
        yield Bound(f"joint_velocity {name}", -speed, speed, "rad/s or m/s", "limit of the joint", value)


def _element(name: str, number: int) -> Value:
    return lambda seen: float(seen[name][number])


def _length(name: str) -> Value:
    return lambda seen: float(np.linalg.norm(seen[name]))


def _away(seen: Mapping[str, Array]) -> float:
    return float(np.linalg.norm(seen["position"] - seen["goal_position"]))


class Ranges:
    """Collects the quantities of a recording's steps.

    Args:
        run: The recording.
    """

    def __init__(self, run: RecordedRun) -> None:
        self._run = run
        self._bounds = bounds_of(run.policy.contract)
        self._normaliser = Normaliser(run.policy)
        self._times: list[float] = []
        self._values: list[list[float]] = []
        self._far: list[dict[str, float]] = []

    @property
    def normalised(self) -> bool:
        """Whether the policy file has the statistics of training's observations."""
        return self._normaliser.exists

    def add(self, taken: Taken) -> None:
        """Add a step."""
        self._times.append(self._run.seconds(taken.step.at_ns))
        self._values.append([bound.value(taken.inputs) for bound in self._bounds])
        if self._normaliser.exists:
            self._far.append(self._normaliser.distances(taken))

    def outside(self) -> list[Outside]:
        """Return how long each quantity was outside of its range."""
        times, found = np.array(self._times), list[Outside]()
        if not len(times):
            return found
        for bound, values in zip(self._bounds, np.array(self._values).reshape(len(times), -1).T):
            found.append(_outside(bound, times, values))
        for term in self._far[0] if self._far else ():
            source = "statistics of training's observations"
            bound = Bound(f"{term} (observation)", 0.0, FAR_SIGMA, "standard deviations from the mean", source)
            found.append(_outside(bound, times, np.array([far[term] for far in self._far])))
        return found


def _outside(bound: Bound, times_s: Array, values: Array) -> Outside:
    slack = 1e-6 * max(abs(bound.low), abs(bound.high))
    beyond = (values < bound.low - slack) | (values > bound.high + slack)
    allowed = f"outside of {bound.low:.4g} to {bound.high:.4g} ({bound.source})"
    events = [
        Event("range", time_s, time_s, bound.quantity, f"{bound.quantity} is {value:.4g} {bound.unit}, {allowed}")
        for time_s, value in zip(times_s[beyond].tolist(), values[beyond].tolist())
    ]
    return Outside(bound, float(beyond.mean()), float(values.min()), float(values.max()), joined(events, _APART_S))


class Normaliser:
    """The normalisation in a policy's graph, where it has one: how far observations are from training's.

    Args:
        policy: The policy.
    """

    def __init__(self, policy: Policy) -> None:
        self._session: Any = None
        data = policy.path.read_bytes()
        model = unpack(data, str(policy.path)).model
        found = _normalisation(model)
        self._fixed = dict(policy.constants)
        if found is None:
            return
        name, self._mean, self._std = found
        columns = len(self._mean)
        part = cut(model, [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, columns])])
        self._session, self._name = open_session(part.SerializeToString(), str(policy.path)), name
        self._needs = {one.name for one in self._session.get_inputs()}
        self.terms = _terms(policy.contract, columns)

    @property
    def exists(self) -> bool:
        """Whether the graph has one."""
        return self._session is not None

    def distances(self, taken: Taken) -> dict[str, float]:
        """Return, by term of the observation, its largest distance from training's mean in standard deviations."""
        fed = {**taken.inputs, **{STATE_PREFIX + name: state for name, state in taken.before.items()}, **self._fixed}
        given = {name: np.asarray(value, np.float32)[None] for name, value in fed.items() if name in self._needs}
        (row,) = self._session.run([self._name], given)
        far = np.abs((row.ravel() - self._mean) / self._std)
        return {term: float(far[first : last + 1].max()) for term, first, last in self.terms}


def _normalisation(model: onnx.ModelProto) -> tuple[str, Array, Array] | None:
    """Return the observation's tensor, and its mean and standard deviation in training; None: none is in the graph."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type != "Sub" or len(node.input) != 2 or not node.input[1].endswith("mean"):
            continue
        mean = constants.get(node.input[1])
        users = [one for one in model.graph.node if node.output[0] in one.input and one.op_type in ("Div", "Mul")]
        if mean is None or not users:
            continue
        (scale_name,) = (name for name in users[0].input if name != node.output[0])
        if scale_name not in constants:
            continue
        centre = numpy_helper.to_array(mean).astype(float).ravel()
        scale = numpy_helper.to_array(constants[scale_name]).astype(float).ravel()
        std = scale if users[0].op_type == "Div" else 1.0 / scale
        if len(centre) > 1 and std.shape == centre.shape:
            return node.input[0], centre, std
    return None


def _terms(contract: Contract, columns: int) -> list[tuple[str, int, int]]:
    """Return the terms of the observation with their first and last column, as the contract lists them."""
    found = []
    for line in contract.training.get("observation", ()):
        match = re.match(r"(\w+): columns? (\d+)(?: to (\d+))?", str(line))
        if match:
            found.append((match[1], int(match[2]), int(match[3] or match[2])))
    whole = [("observation", 0, columns - 1)]
    return found if found and found[-1][2] == columns - 1 else whole
