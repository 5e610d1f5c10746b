"""Write an imported policy, if the file answers as the original does."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.importers.graph import Commander, Observer, policy_model, uses_previous_action
from rlstack.importers.mapping import PREVIOUS_ACTION, Plan, as_data
from rlstack.importers.network import MAX_BYTES, Network
from rlstack.policies import contract_for, envelope_for, load_policy, write_policy
from rlstack.policies.contract import Contract
from rlstack.progress import OnStage
from rlstack.robots import RobotSpec, frames
from rlstack.yaml_files import read_bytes

TOLERANCE = 1e-5
"""Largest difference between the file's command and the original's, as a share of the command's range."""

RECORDED_TOLERANCE = 1e-4
"""The same between the mapping's observation and a recorded one, absolute below 1 and relative above: what another
program computed in float32 in another order."""

STEPS = 1000
"""Steps of the comparison without a recording."""


@dataclass(frozen=True)
class Parity:
    """What the comparison found."""

    steps: int
    difference: float
    """Largest, as a share of the command's range."""
    recorded: bool
    """Whether the inputs were recorded ones."""
    observation: float | None = None
    """Largest difference to recorded observations."""
    action: float | None = None
    """Largest difference to recorded actions."""


def import_policy(
    plan: Plan,
    network: Network,
    robot: RobotSpec,
    source: Path,
    origin: str,
    path: Path,
    recorded: Path | None = None,
    on_stage: OnStage | None = None,
) -> tuple[Contract, Parity]:
    """Write the policy file after comparing it with the original.

    Args:
        plan: The mapping, checked against ``robot`` and ``network``.
        network: The original.
        robot: The robot.
        source: The original's file.
        origin: Name of the source, such as ``rsl_rl``.
        path: The policy file.
        recorded: Recorded inputs of one episode, see :func:`read_recording`.
        on_stage: Called with the progress of the comparison.

    Raises:
        UserError: The file would be refused, or it answers otherwise than the original; then nothing is
            written.
    """
    state = {PREVIOUS_ACTION: (network.action_size,)} if uses_previous_action(plan) else {}
    contract = contract_for(
        robot,
        plan.inputs,
        [plan.action.signal],
        name=path.stem,
        task=plan.mapping.task,
        rate_hz=plan.mapping.rate_hz,
        state={**network.state, **state},
    )
    contract = replace(contract, envelope=envelope_for(robot, contract.inputs, contract.rate_hz))
    model = policy_model(plan, contract, network)
    recording = None if recorded is None else read_recording(recorded, contract, plan, network)
    with TemporaryDirectory() as folder:
        trial = Path(folder) / "policy.onnx"
        write_policy(model, contract, trial)
        parity = compare(trial, contract, plan, network, robot, recording, on_stage=on_stage)
    _judge(parity, path, recorded)
    facts = {
        "imported_from": origin,
        "source": source.name,
        "source_sha256": hashlib.sha256(read_bytes(source, "the source", MAX_BYTES)).hexdigest()
        if source.is_file()
        else "",
        "parity_steps": parity.steps,
        "parity_difference": parity.difference,
        "parity_recorded_observations": parity.observation is not None,
        "mapping": as_data(plan.mapping),
        **network.facts,
    }
    return write_policy(model, replace(contract, training=facts), path), parity


def _judge(parity: Parity, path: Path, recorded: Path | None) -> None:
    if not parity.difference <= TOLERANCE:
        raise UserError(
            f"The policy file would differ from the original by {parity.difference:.1e} of the command's range in"
            f" {parity.steps} steps (allowed: {TOLERANCE:.0e}), so {path} was not written."
        )
    if parity.action is not None and not parity.action <= RECORDED_TOLERANCE:
        raise UserError(
            f"{recorded}: the network answers the recorded observations with actions that differ by"
            f" {parity.action:.1e} from the recorded ones (allowed: {RECORDED_TOLERANCE:.0e}), so {path} was not"
            " written. Check network.activation and network.statistics in the mapping."
        )


def read_recording(path: Path, contract: Contract, plan: Plan, network: Network) -> dict[str, Array]:
    """Return a recording: arrays (steps, size) of every input by its name, and maybe ``observation`` and ``action``.

    The file is .npz without pickled objects, of one episode from its start.

    Raises:
        UserError: It cannot be read, lacks an input, or has arrays of another shape.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            found = {name: np.asarray(file[name], dtype=float) for name in file.files}
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"Cannot read the recording {path}: {' '.join(str(error).split())[:200]}.") from error
    wanted = {port.name: port.sized({}) for port in contract.inputs}
    extra = {"observation": (plan.observation_size,), "action": (network.action_size,)}
    missing = [name for name in wanted if name not in found]
    if missing:
        raise UserError(f"{path}: {', '.join(missing)} is missing; it has {', '.join(found) or 'nothing'}.")
    kept = {name: found[name] for name in (*wanted, *extra) if name in found}
    steps = len(kept[contract.inputs[0].name])
    for name, array in kept.items():
        shape = (steps, *{**wanted, **extra}[name])
        if array.shape != shape or not steps:
            raise UserError(f"{path}: {name} has the shape {list(array.shape)}, and must have {list(shape)}.")
        if not np.isfinite(array).all():
            raise UserError(f"{path}: {name} has values that are not finite.")
    return kept


def compare(
    path: Path,
    contract: Contract,
    plan: Plan,
    network: Network,
    robot: RobotSpec,
    recording: dict[str, Array] | None = None,
    seed: int = 0,
    on_stage: OnStage | None = None,
) -> Parity:
    """Return how far the file at ``path`` is from the original network with the mapping around it.

    Without a recording, ten robots get random inputs for :data:`STEPS` steps in all, each with its own state.

    Raises:
        UserError: The mapping makes another observation than the recording has; names the element.
    """
    robots = 10 if recording is None else 1
    steps = STEPS // robots if recording is None else len(recording[contract.inputs[0].name])
    rng = np.random.default_rng(seed)
    policy = load_policy(path, robot=robot)
    policy.reset(robots)
    observer, commander = Observer(plan), Commander(plan)
    steppers = [network.start() for _ in range(robots)]
    span = np.array(plan.action.maximum) - np.array(plan.action.minimum)
    span = np.where(np.isfinite(span), span, 1.0)
    previous = torch.zeros(robots, network.action_size)
    worst, seen, answered = 0.0, 0.0, 0.0
    for step in range(steps):
        if on_stage is not None:
            on_stage("comparing", step, steps)
        inputs = {}
        for port in contract.inputs:
            drawn = rng.normal(0.0, 0.5, (robots, *port.sized({}))) if recording is None else recording[port.name]
            value = drawn if recording is None else drawn[step : step + 1]
            inputs[port.name] = frames.normalise(value) if port.name.endswith("orientation") else value
        command = policy.step(inputs)[plan.action.signal]
        with torch.inference_mode():
            fed = [torch.tensor(inputs[name], dtype=torch.float32) for name in plan.inputs]
            observation, base = observer(*fed, previous)
            shown = observation.numpy().astype(float)
            if recording is not None and "observation" in recording:
                seen = max(seen, _observation_error(recording["observation"][step], shown[0], plan, step))
            actions = np.stack([stepper(row) for stepper, row in zip(steppers, shown)])
            if recording is not None and "action" in recording:
                given = recording["action"][step]
                answered = max(answered, float(np.max(np.abs(actions[0] - given) / np.maximum(1.0, np.abs(given)))))
            wanted, previous = commander(torch.tensor(actions, dtype=torch.float32), base)
        worst = max(worst, float(np.max(np.abs(command - wanted.numpy()) / span)))
    has = recording or {}
    return Parity(
        steps * robots,
        worst,
        recording is not None,
        seen if "observation" in has else None,
        answered if "action" in has else None,
    )


def _observation_error(recorded: Array, made: Array, plan: Plan, step: int) -> float:
    error = np.abs(recorded - made) / np.maximum(1.0, np.abs(recorded))
    index = int(np.argmax(error))
    if not error[index] <= RECORDED_TOLERANCE:
        raise UserError(
            f"The mapping does not make the recorded observation: in step {step}, element {index}"
            f" ({plan.name_of(index)}) is {made[index]:.6g}, but {recorded[index]:.6g} was recorded. Correct this term"
            " in the mapping; nothing was written."
        )
    return float(error[index])
