"""Export a trained actor to a policy file: one graph from named SI inputs to a command in SI units."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlstack.errors import UserError
from rlstack.interfaces import signals
from rlstack.interfaces.instruction import TextInput, encoded
from rlstack.policies import (
    Policy,
    PolicyOutputError,
    contract_for,
    contract_for_family,
    envelope_for,
    load_policy,
    write_policy,
)
from rlstack.policies.contract import ACTION, NEXT_STATE_PREFIX, NOISE, PLAN, STATE_PREFIX, Contract, Port
from rlstack.policies.family_contract import bind
from rlstack.policies.limits import ORDINARY
from rlstack.robots import RobotSpec, frames
from rlstack.tasks.core.onnx_tracing import trace_to_onnx
from rlstack.tasks.core.pipeline import Pipeline
from rlstack.training.algorithm import Actor, PlanningActor

TOLERANCE = 1e-5
"""Largest difference between the exported graph and the training policy in a step, see :func:`compare`."""

_ROUNDINGS = 3.0
"""Where the training policy rounds by more than that, the allowed difference as a multiple of this: two programs that
each are off what float64 gives by one such rounding, and then some, since its maximum is over samples."""

_MOST_ROUNDING = 1e-3
"""A difference as large as this is no rounding."""

_PIPELINE, _ACTOR = "pipeline.", "actor."

_CONSTANT_SHAPES = (
    "torch/nn/modules/rnn.py",  # number of axes
    "rlstack/control/inverse_kinematics.py",  # number of joints
    "rlstack/tasks/manipulator/camera_observations.py",  # length of the tool's track
    "rlstack/tasks/wheeled_base/exploration/pipeline.py",  # size of the local map
    "rlstack/training/language/checkpoints/transformer.py",  # numbers of tokens and heads, and their widths
)
"""Modules in which tracing makes constants of array sizes, which are the same for every input."""


LARGEST = 1e6
"""Inputs beyond this, in any unit, come from a broken sensor, and are limited to it: squares stay within float32."""

_LEAST_NORM = 1e-6
"""Shorter quaternions have no direction."""


def valid(name: str, value: Tensor) -> Tensor:
    """Return an input with finite values only and unit quaternions; valid values are unchanged.

    NaN becomes 0 (for a scan's ray: blocked), an infinity :data:`LARGEST`, and a quaternion of no length the identity.
    Nodes refuse such inputs; in the graph, this keeps commands and recurrent state finite.
    """
    value = torch.where(torch.isnan(value), 0.0, value).clamp(0.0 if name == "scan" else -LARGEST, LARGEST)
    if not name.endswith("orientation"):
        return value
    norm = value.norm(dim=-1, keepdim=True)
    level = torch.cat((torch.zeros_like(value[..., :3]), torch.ones_like(value[..., 3:])), dim=-1)
    # normalise, so that a rounded quaternion does not scale the rotation
    return torch.where(norm > _LEAST_NORM, value / norm, level)


def _is_finite(value: Tensor) -> Tensor:
    return value.abs() < float("inf")


class PolicyGraph(nn.Module):
    """The exported graph: pipeline, actor and action scaling as one function of named tensors.

    Its command and its next state are finite for any input; see :func:`valid`.

    Args:
        pipeline: The module that computed the training observation.
        actor: The trained network.
        inputs: Names of the inputs in the order of the arguments.
    """

    def __init__(self, pipeline: Pipeline, actor: Actor, inputs: Sequence[str]) -> None:
        super().__init__()
        self.pipeline, self.actor, self.inputs = pipeline.cpu(), actor.cpu(), tuple(inputs)

    @property
    def memory(self) -> dict[str, tuple[int, ...]]:
        """Shapes of all recurrent state by its name in the policy file."""
        return {
            **{_PIPELINE + name: shape for name, shape in self.pipeline.memory.items()},
            **{_ACTOR + name: shape for name, shape in self.actor.memory.items()},
        }

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Map inputs, state and, if given, noise, in order, to the command and the next state, in order."""
        named = dict(zip((*self.inputs, *self.memory, NOISE), tensors))
        state = {name: named.pop(name) for name in self.memory}
        command, after, chunk = self._run(named, state)
        return (command, *(after[name] for name in self.memory), *(chunk[name] for name in self.chunk))

    @property
    def chunk(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the tensors at which the graph may be cut by name: the plan and the present action of it, if any.

        They follow the command and the next state among what :meth:`forward` returns.
        """
        actor = self.actor
        if not (isinstance(actor, PlanningActor) and actor.chunk > 1 and self.pipeline.stays):
            return {}
        return {PLAN: (actor.chunk, actor.actions), ACTION: (actor.actions,)}

    @property
    def noise(self) -> tuple[int, ...]:
        """Shape of the noise that the actor's actions come from, if any."""
        return self.actor.noise if isinstance(self.actor, PlanningActor) else ()

    def step(self, inputs: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the command (batch, n) in SI units and the next state by name; ``inputs`` may hold the noise."""
        return self._run(inputs, state)[:2]

    def _run(
        self, inputs: Mapping[str, Tensor], state: Mapping[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
        memory = {n.removeprefix(_PIPELINE): t for n, t in state.items() if n.startswith(_PIPELINE)}
        hidden = {n.removeprefix(_ACTOR): t for n, t in state.items() if n.startswith(_ACTOR)}
        given = {name: valid(name, tensor) for name, tensor in inputs.items()}
        noise = given.pop(NOISE, None)
        prepared = self.pipeline.prepare(given, memory)
        observation, chunk = self.pipeline.observe(prepared, memory), {}
        if isinstance(self.actor, PlanningActor):
            chunk[PLAN] = self.actor.plan(observation, noise)
            action, hidden = self.actor.take(chunk[PLAN], hidden)
            chunk[ACTION] = action
        else:
            action, hidden = self.actor(observation, hidden)
        action = self.pipeline.clip(torch.where(torch.isnan(action), 0.0, action))
        after = {_PIPELINE + n: t for n, t in self.pipeline.remember(prepared, memory, action).items()}
        after.update({_ACTOR + n: t for n, t in hidden.items()})
        command = self.pipeline.command(action, prepared)
        command = torch.where(_is_finite(command), command, 0.0)
        return command, {n: torch.where(_is_finite(t), t, state[n]) for n, t in after.items()}, chunk


class TorchPolicy:
    """A torch policy with the interface of a loaded policy file, for evaluation during training.

    Args:
        graph: The graph to run.
        contract: Its contract.
        robot: The robot; for a policy of a family, the vehicle that it controls.
        dtype: What the graph computes in.
    """

    def __init__(
        self, graph: PolicyGraph, contract: Contract, robot: RobotSpec, dtype: torch.dtype = torch.float32
    ) -> None:
        self.graph, self.path, self.dtype = graph, Path("policy in training"), dtype
        self.contract, constants = bind(contract, robot, str(self.path)) if contract.needs_robot else (contract, {})
        # the graph's command is finite even then
        self._diverged = not all(torch.isfinite(weights).all() for weights in graph.actor.parameters())
        self._constants = {n: self._tensor(v) for n, v in constants.items()}
        self.reset()

    def reset(self, batch: int = 1) -> None:
        """Set the recurrent state to zero for ``batch`` robots."""
        self.state = {n: torch.zeros(batch, *shape, dtype=self.dtype) for n, shape in self.graph.memory.items()}
        """The recurrent state (batch, *shape) by name."""

    def step(self, inputs: Mapping[str, NDArray[np.floating]]) -> dict[str, NDArray[np.float64]]:
        """Return the command by name for inputs with a leading batch axis."""
        given = {name: self._tensor(array) for name, array in inputs.items()}
        batch = len(next(iter(given.values())))
        named = {**given, **{n: v.expand(batch, *v.shape) for n, v in self._constants.items()}}
        with torch.inference_mode():
            command, self.state = self.graph.step(named, self.state)
        if self._diverged or not torch.isfinite(command).all():
            raise PolicyOutputError(f"{self.path}: its weights are not finite.")
        return {self.contract.outputs[0].name: command.numpy().astype(np.float64)}

    def _tensor(self, array: Any) -> Tensor:
        return torch.from_numpy(np.asarray(array, dtype=np.float32)).to(self.dtype)


def make_contract(name: str, task_name: str, task: Any, robot: RobotSpec, graph: PolicyGraph, **facts: Any) -> Contract:
    """Return the contract of a task's policy for a robot; ``facts`` are its training and evaluation entries."""
    facts = {"name": name, "task": task_name, "rate_hz": task.rate_hz, "state": graph.memory, **facts}
    facts["chunk"], facts["noise"] = graph.chunk.get(PLAN, ()), graph.noise
    family = getattr(task, "family", None)
    if family:
        contract = contract_for_family(family, task.inputs, task.outputs, robot=robot.kind, **facts)
    else:
        text: TextInput | None = getattr(task, "text", None)
        if text is not None:
            text = replace(text, meanings=tuple(getattr(graph.actor, "meanings", {}).items()))
        contract = contract_for(robot, task.inputs, task.outputs, text=text, **facts)
    fitted = task.fitted(robot)
    envelope = envelope_for(
        robot,
        contract.inputs,
        contract.rate_hz,
        trained=fitted.trained_ranges(robot),
        noise=fitted.input_noise(robot),
        conditions=fitted.envelope(),
        rays_used=fitted.rays(robot) if hasattr(fitted, "rays") else (),
        for_family=bool(family),
    )
    return replace(contract, envelope=envelope)


def export_policy(graph: PolicyGraph, contract: Contract, robot: RobotSpec, path: Path) -> Contract:
    """Write the policy file after checking that it agrees with the training policy.

    Raises:
        UserError: The file would differ from the training policy by more than ``TOLERANCE`` and than float32 rounds
            its steps by, or cannot be written; an existing file at ``path`` stays unchanged.
    """
    model = to_onnx(graph, contract)
    with TemporaryDirectory() as folder:
        trial = Path(folder) / path.name
        write_policy(model, contract, trial)
        large = 4 * sum(weights.numel() for weights in graph.parameters()) > ORDINARY.file_bytes
        observations, allowed = 20 if large else 1000, TOLERANCE
        difference = compare(graph, contract, trial, robot, observations)
        if TOLERANCE < difference <= _MOST_ROUNDING:
            allowed = max(TOLERANCE, _ROUNDINGS * rounding(graph, contract, robot, observations))
    if not difference <= allowed:
        raise UserError(
            f"The exported policy differs from the training policy by {difference:.1e} of the range"
            f" (allowed: {allowed:.0e}), so {path} was not written. This is a bug in the export: please report it."
        )
    return write_policy(model, contract, path)


def compare(
    graph: PolicyGraph, contract: Contract, path: Path, robot: RobotSpec, observations: int = 1000, seed: int = 0
) -> float:
    """Return the largest difference between the file at ``path`` and ``graph``, as a share of the range.

    Both are fed ``observations`` random inputs of 10 robots in sequence, half of them with noise where there is any,
    and begin each step with the file's recurrent state: some memory, such as the joint targets of a stretched arm,
    doubles any difference at each step. Compared are the command, to its range, and the next state, to that of an
    action, -1 to 1, or to its own size if that is larger.
    """
    twin = TorchPolicy(graph, contract, robot)
    return _largest_difference(load_policy(path, robot=robot), twin, observations, seed)


def rounding(
    graph: PolicyGraph, contract: Contract, robot: RobotSpec, observations: int = 1000, seed: int = 0
) -> float:
    """Return the largest difference between ``graph`` and itself in float64, as in :func:`compare`."""
    exact = TorchPolicy(copy.deepcopy(graph).double(), contract, robot, torch.float64)
    return _largest_difference(TorchPolicy(graph, contract, robot), exact, observations, seed)


def _largest_difference(policy: Policy | TorchPolicy, twin: TorchPolicy, observations: int, seed: int) -> float:
    batch, rng = 10, np.random.default_rng(seed)
    policy.reset(batch)
    twin.reset(batch)
    port = policy.contract.outputs[0]
    span = np.array(port.maximum) - np.array(port.minimum)
    worst = 0.0
    for number in range(observations // batch):
        sizes = {n: least + int(rng.integers(0, 20)) for n, least in signals.DYNAMIC.items()}
        inputs = {p.name: _drawn(p, (batch, *p.sized(sizes)), rng) for p in policy.contract.inputs}
        inputs = {n: np.sort(a, axis=-1) if n in signals.INCREASING else a for n, a in inputs.items()}
        inputs = {n: frames.normalise(a) if n.endswith("orientation") else a for n, a in inputs.items()}
        if policy.contract.noise and number % 2:
            inputs[NOISE] = rng.normal(size=(batch, *policy.contract.noise))
        difference = np.abs(policy.step(inputs)[port.name] - twin.step(inputs)[port.name]) / span
        worst = max(worst, float(difference.max()))
        for name, state in policy.state.items():
            after = np.asarray(state)
            size = 2.0 * max(1.0, float(np.abs(after).max()))
            worst = max(worst, float(np.abs(after - twin.state[name].numpy()).max()) / size)
            twin.state[name] = torch.from_numpy(after.copy()).to(twin.dtype)
    return worst


def _drawn(port: Port, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw values for an input: images from 0 to 255, text among the policy's examples, all others around 0."""
    if port.text is not None:
        examples = np.array([encoded(example) for example in port.text.examples or port.text.words])
        return examples[rng.integers(0, len(examples), shape[0])].astype(float)
    return rng.integers(0, 256, shape).astype(float) if port.picture is not None else rng.normal(0.0, 0.5, shape)


def to_onnx(graph: PolicyGraph, contract: Contract) -> onnx.ModelProto:
    """Return the graph as ONNX.

    Raises:
        UserError: It makes a Python value of a tensor.
    """
    inputs = {port.name: port.shape for port in contract.inputs}
    inputs.update({STATE_PREFIX + name: shape for name, shape in graph.memory.items()})
    inputs.update({port.name: port.shape for port in contract.optional})
    outputs = {port.name: port.shape for port in contract.outputs}
    outputs.update({NEXT_STATE_PREFIX + name: shape for name, shape in graph.memory.items()})
    outputs.update(graph.chunk)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = trace_to_onnx(graph, inputs, outputs)
    for warning in caught:
        if warning.category is torch.jit.TracerWarning and not warning.filename.endswith(_CONSTANT_SHAPES):
            raise UserError(
                f"The policy cannot be exported: {warning.filename}, line {warning.lineno}, makes a Python value of a"
                f" tensor, which would be a constant in the file ({warning.message}). Compute it with tensors."
            )
    for value in [value for value in model.graph.output if value.name in graph.chunk]:
        model.graph.output.remove(value)  # it was one in order to be named
    for port in contract.optional:
        zeros = np.zeros((1, *port.sized({})), np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(zeros, port.name))  # the input's default
    return model
