"""LEAPP bundles as Isaac Lab's exporter makes them: named inputs, recurrent states with initial values."""

from __future__ import annotations

from pathlib import Path

import leapp
import torch
from leapp import annotate
from leapp.utils.tensor_description import GraphConfigs, TensorSemantics
from torch import nn

from rlstack.kinds.quadrotor.spec import Quadrotor
from tests.support.pilot import HIDDEN as PILOT
from tests.support.pilot import SIZE, fill_pilot

HIDDEN = 6


def write_bundle(folder: Path, names: list[str]) -> Path:
    """Trace two nodes with random weights, which turn ``motion``, ``goal`` and ``last`` into ``action``.

    One is exported with the tracing exporter, and one, as Isaac Lab does, with the newer one.
    """
    torch.manual_seed(0)
    cell, policy = nn.GRUCell(10, HIDDEN), nn.Sequential(nn.Linear(3 + HIDDEN + 4, 16), nn.ELU(), nn.Linear(16, 4))
    where = str(folder / "bundle")
    leapp.start(name=where)
    try:
        motion = annotate.input_tensors("estimator", {"motion": torch.randn(1, 10)})
        hidden = annotate.state_tensors("estimator", {"hidden": torch.full((1, HIDDEN), 0.5)})
        after = cell(motion.reshape(-1, 10), hidden)
        annotate.update_state("estimator", {"hidden": after})
        feature = (2.0 * after).view(1, HIDDEN)
        annotate.output_tensors("estimator", {"feature": feature}, export_with="onnx-torchscript")
        feature = annotate.input_tensors("policy", {"feature": feature})
        goal = annotate.input_tensors("policy", {"goal": torch.randn(1, 3)})
        last = TensorSemantics(name="last", ref=torch.randn(1, 4), element_names=[names])
        last = annotate.input_tensors("policy", last)
        action = policy(torch.cat((goal, feature, last), dim=-1))
        given = TensorSemantics(
            name="action",
            ref=action,
            kind="target/joint/velocity",
            element_names=[names],
            extra={"isaaclab_connection": "write:robot:set_joint_velocity_target"},
        )
        stiffness = TensorSemantics(name="stiffness", ref=action * 0.0 + 20.0, kind="kp")
        annotate.output_tensors("policy", [given, stiffness], export_with="onnx-dynamo")
    finally:
        leapp.stop()
    leapp.compile_graph(visualize=False, graph_configs=GraphConfigs(frequency=100.0))
    return folder / "bundle" / "bundle.yaml"


def write_pilot(folder: Path, robot: Quadrotor, rotors: list[str]) -> Path:
    """Trace a policy that flies, as Isaac Lab does with its managers in it: raw signals in, rad/s out."""
    gru, head = nn.GRUCell(SIZE, PILOT), nn.Sequential(nn.Linear(PILOT, 8), nn.ELU(), nn.Linear(8, 4))
    start = fill_pilot(gru, [head[0], head[2]], robot, rotors)
    low, high = robot.rotor_model.speed_min_rad_s, robot.rotor_model.speed_max_rad_s
    leapp.start(name=str(folder / "pilot"))
    try:
        seen = {}
        sizes = {"goal_position": 3, "position": 3, "orientation": 4, "linear_velocity": 3, "angular_velocity": 3}
        for name, size in sizes.items():
            example = TensorSemantics(name=f"robot_{name}", ref=torch.randn(1, size))
            seen[name] = annotate.input_tensors("hover", example)
        hidden = annotate.state_tensors("hover", {"hidden": start[None]})
        w, x, y, z = seen["orientation"].unbind(dim=-1)
        rows = (
            torch.stack((1 - 2 * (y * y + z * z), 2 * (x * y + z * w), 2 * (x * z - y * w)), dim=-1),
            torch.stack((2 * (x * y - z * w), 1 - 2 * (x * x + z * z), 2 * (y * z + x * w)), dim=-1),
            torch.stack((2 * (x * z + y * w), 2 * (y * z - x * w), 1 - 2 * (x * x + y * y)), dim=-1),
        )  # of the rotation from the world to the body
        away = seen["goal_position"] - seen["position"]
        away = torch.stack([(row * away).sum(dim=-1) for row in rows], dim=-1).clamp(-0.5, 0.5)
        gravity = -torch.stack((rows[0][:, 2], rows[1][:, 2]), dim=-1)
        observation = torch.cat((away, gravity, seen["linear_velocity"], seen["angular_velocity"]), dim=-1)
        after = gru(observation, hidden)
        annotate.update_state("hover", {"hidden": after})
        speed = low + 0.5 * (high - low) * (head(after).clamp(-1.0, 1.0) + 1.0)
        given = TensorSemantics(name="rotor_speed", ref=speed, kind="target/joint/velocity", element_names=[rotors])
        annotate.output_tensors("hover", given, export_with="onnx-torchscript")
    finally:
        leapp.stop()
    leapp.compile_graph(visualize=False, graph_configs=GraphConfigs(frequency=100.0))
    return folder / "pilot" / "pilot.yaml"
