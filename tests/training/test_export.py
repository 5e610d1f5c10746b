"""The exported graph against the training policy: rsl_rl's own network on the environment's own observations."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.policies import STATE_PREFIX, PolicyOutputError, load_policy, write_policy
from rlstack.robots import load_robot
from rlstack.tasks import TASKS
from rlstack.training import export, run
from rlstack.training.export import (
    LARGEST,
    TOLERANCE,
    PolicyGraph,
    TorchPolicy,
    compare,
    export_policy,
    make_contract,
    valid,
)
from rlstack.training.run_folder import load_checkpoint, recipe_of
from tests.support.learning import sensed
from tests.training.conftest import Trained

ROBOT = load_quadrotor("crazyflie")


class Linear(nn.Module):
    memory: ClassVar[dict[str, tuple[int, ...]]] = {}

    def __init__(self, size: int, actions: int) -> None:
        super().__init__()
        self.layer = nn.Linear(size, actions)

    def forward(self, observation: Tensor, hidden: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        return self.layer(observation), hidden


def loaded(trained: Trained) -> run._Run:
    made = run._Run(recipe_of(trained.folder), trained.folder)
    made.load(load_checkpoint(trained.folder))
    return made


def test_the_file_equals_the_training_policy_on_recorded_observations(trained: Trained) -> None:
    """1,024 observations of 64 robots in sequence, with resets; the file senses what the environment sensed."""
    made = loaded(trained)
    env, learner = made.environment, made.algorithm.learner  # type: ignore[attr-defined]
    policy = load_policy(trained.result.policy, robot=ROBOT)
    names = [port.name for port in policy.contract.inputs]
    policy.reset(env.count)
    best = learner.get_policy()
    weights = {
        k.replace("normaliser", "obs_normalizer").replace("rnn.", "rnn.rnn."): v for k, v in made.best["actor"].items()
    }
    assert not best.load_state_dict(weights, strict=False).unexpected_keys
    best.eval()
    env.reset_all()
    best.reset()
    made.algorithm._observations = made.algorithm._grouped(*env.observe())  # type: ignore[attr-defined]
    span = ROBOT.rotor_model.speed_max_rad_s - ROBOT.rotor_model.speed_min_rad_s
    worst, resets = 0.0, 0
    rng = torch.Generator().manual_seed(0)
    with torch.inference_mode():
        for _ in range(16):
            inputs = {name: array for name, array in sensed(env).items() if name in names}
            action = best(made.algorithm._observations)  # type: ignore[attr-defined]
            expected = env.pipeline.command(env.pipeline.clip(action), {}).numpy()
            found = policy.step(inputs)["rotor_speed"]
            worst = max(worst, float(np.abs(found - expected).max()) / span)
            if torch.rand((), generator=rng) < 0.2:
                env.age[:10] = env.max_steps  # some end, so that memory is cleared on both sides
            result = env.step(action)
            resets += int(result.done.sum())
            policy.reset_where(result.done.numpy())
            best.reset(result.done)
            made.algorithm._observations = made.algorithm._grouped(result.actor, result.critic)  # type: ignore[attr-defined]
    assert worst < 1e-5
    assert resets > 10


def test_the_file_carries_all_memory_by_name(trained: Trained) -> None:
    state = {s.name: s.shape for s in load_policy(trained.result.policy).contract.state}
    pipeline = recipe_of(trained.folder).task_settings.pipeline(ROBOT)
    expected = {f"pipeline.{name}": shape for name, shape in pipeline.memory.items()}
    if recipe_of(trained.folder).algorithm_settings.network == "gru":
        expected["actor.hidden"] = (8,)
    assert state == expected


def test_the_recurrent_state_matters_and_clears(trained: Trained) -> None:
    policy = load_policy(trained.result.policy)
    rest = {p.name: np.zeros(p.shape) for p in policy.contract.inputs}
    rest["orientation"] = rest["goal_orientation"] = np.array([0.0, 0.0, 0.0, 1.0])
    first = policy.step(rest)["rotor_speed"]
    second = policy.step(rest)["rotor_speed"]
    assert not np.array_equal(first, second)
    policy.reset()
    np.testing.assert_array_equal(policy.step(rest)["rotor_speed"], first)


def test_the_command_stays_in_range_whatever_is_sensed(trained: Trained) -> None:
    policy = load_policy(trained.result.policy)
    policy.reset(500)
    rng = np.random.default_rng(0)
    inputs = {p.name: rng.normal(0.0, 100.0, (500, *p.shape)) for p in policy.contract.inputs}
    for _ in range(3):
        command = policy.step(inputs)["rotor_speed"]
        assert (command >= 0.0).all() and (command <= ROBOT.rotor_model.speed_max_rad_s).all()


def test_a_rounded_quaternion_does_not_scale_the_observation(trained: Trained) -> None:
    policy = load_policy(trained.result.policy)
    inputs = {p.name: np.full(p.shape, 0.2) for p in policy.contract.inputs}
    inputs["orientation"] = np.array([0.1, -0.2, 0.3, 0.9])
    first = policy.step(inputs)["rotor_speed"]
    policy.reset()
    inputs["orientation"] = inputs["orientation"] * 1.3
    np.testing.assert_allclose(policy.step(inputs)["rotor_speed"], first, rtol=1e-5)


def test_exporting_again_gives_the_same_policy(mlp: Trained, tmp_path: Path) -> None:
    again = run.export(mlp.folder, tmp_path / "again.onnx")
    one, other = load_policy(again), load_policy(mlp.result.policy)
    assert one.contract.training == other.contract.training
    assert one.contract.evaluation == other.contract.evaluation
    inputs = {p.name: np.full(p.shape, 0.3) for p in one.contract.inputs}
    np.testing.assert_array_equal(one.step(inputs)["rotor_speed"], other.step(inputs)["rotor_speed"])


def test_a_graph_that_differs_is_not_kept_and_leaves_what_was_there(
    mlp: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights change between the conversion and the comparison, as a wrong conversion would have them differ."""
    made = loaded(mlp)
    graph = made._graph(made.algorithm.actor())
    contract, path = made._contract(graph), tmp_path / "policy.onnx"
    path.write_bytes(b"an older policy")
    file = mlp.result.policy
    assert (
        compare(graph, contract, file, ROBOT) > 1e-5 or made.best["step"] == made._steps()
    )  # the last is not the best

    def converted(*_: object) -> object:
        import onnx

        model = onnx.load(file)
        with torch.no_grad():
            graph.actor.mlp[-1].bias[0] += 0.01  # type: ignore[index, operator, union-attr]
        return model

    monkeypatch.setattr(export, "to_onnx", converted)
    with pytest.raises(UserError, match=r"differs from the training policy by .* was not written"):
        export_policy(graph, contract, ROBOT, path)
    assert path.read_bytes() == b"an older policy"


def test_a_difference_is_allowed_as_far_as_the_training_policy_itself_rounds(
    mlp: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = loaded(mlp)
    graph = made._graph(made.algorithm.actor())
    contract = made._contract(graph)
    assert 0.0 < export.rounding(graph, contract, ROBOT, 20) < TOLERANCE
    monkeypatch.setattr(export, "TOLERANCE", 1e-12)  # as of a network so steep that it rounds by more than that
    export_policy(graph, contract, ROBOT, tmp_path / "policy.onnx")
    monkeypatch.setattr(export, "rounding", lambda *_: 1e-13)
    with pytest.raises(UserError, match=r"differs from the training policy by .* \(allowed: 1e-12\)"):
        export_policy(graph, contract, ROBOT, tmp_path / "policy.onnx")


def test_a_policy_in_training_that_gives_nan_says_so(mlp: Trained) -> None:
    made = loaded(mlp)
    actor = made.algorithm.actor()
    with torch.no_grad():
        actor.mlp[-1].bias[0] = float("nan")  # type: ignore[index]
    graph = made._graph(actor)
    policy = TorchPolicy(graph, made._contract(graph), ROBOT)
    with pytest.raises(PolicyOutputError, match="not finite"):
        policy.step({p.name: np.ones((1, *p.shape)) for p in policy.contract.inputs})


BROKEN = (np.nan, np.inf, -np.inf, 3e38, 0.0)


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("quadrotor_hover", "crazyflie"),
        ("quadrotor_tracking", "crazyflie"),
        ("base_navigation", "turtlebot3_burger"),
        ("base_crowd", "turtlebot3_burger"),
        ("arm_reach", "panda"),
        ("arm_push", "panda"),
        ("quadruped_stand", "go1"),
    ],
)
def test_the_graph_answers_anything_with_a_finite_command(task: str, name: str, tmp_path: Path) -> None:
    """Each input broken in turn, in onnxruntime alone; 0 makes a quaternion without length."""
    chosen = TASKS.load(task)()
    robot = chosen.reference(load_robot(name))
    pipeline = chosen.pipeline(robot)
    graph = PolicyGraph(pipeline, Linear(pipeline.size, pipeline.action_size), chosen.inputs)
    path = tmp_path / "policy.onnx"
    contract = make_contract("straight", task, chosen, robot, graph)
    contract = write_policy(export.to_onnx(graph, contract), contract, path)
    assert contract.envelope.max_age_s and contract.envelope.robot_sha256 == robot.sha256
    session = onnxruntime.InferenceSession(path)
    usual = {port.name: at_rest(port.shape, port.name) for port in contract.inputs}
    usual.update({STATE_PREFIX + s.name: np.zeros((1, *s.shape), np.float32) for s in contract.state})
    low, high = contract.outputs[0].limits
    slack = 1e-4 * (high - low)
    for port in contract.inputs:
        for value in BROKEN:
            broken = usual[port.name].copy()
            broken[..., :1] = value
            if value == 0.0:
                broken[:] = 0.0
            command, *after = session.run(None, {**usual, port.name: broken})
            assert ((command >= low - slack) & (command <= high + slack)).all(), (port.name, value, command)
            assert all(np.isfinite(state).all() for state in after), (port.name, value)


def at_rest(shape: tuple[int | str, ...], name: str) -> np.ndarray:
    value = np.full((1, *(4 if isinstance(size, str) else size for size in shape)), 0.1, np.float32)
    if name.endswith("orientation"):
        value[:] = (0.0, 0.0, 0.0, 1.0)
    return value + np.arange(value.shape[-1], dtype=np.float32) if name == "path_time" else value


def test_valid_inputs_are_unchanged_by_the_graph_s_protection() -> None:
    numbers = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(valid("position", numbers), numbers)
    assert torch.equal(valid("orientation", numbers), numbers / numbers.norm(dim=-1, keepdim=True))
    assert valid("scan", torch.tensor([[torch.nan, torch.inf, -torch.inf]])).tolist() == [[0.0, LARGEST, 0.0]]
