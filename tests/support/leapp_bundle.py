"""A LEAPP bundle as Isaac Lab's exporter makes one: named inputs, a recurrent estimator, a policy, initial values."""

from __future__ import annotations

from pathlib import Path

import leapp
import torch
from leapp import annotate
from leapp.utils.tensor_description import GraphConfigs, TensorSemantics
from torch import nn

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
