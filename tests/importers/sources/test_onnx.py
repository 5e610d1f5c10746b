"""Plain ONNX graphs, written by PyTorch's exporters, become policy files that answer as they do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from rlstack.errors import UserError
from rlstack.importers import SOURCES
from rlstack.importers.mapping import NetworkSettings
from tests.support.imported import OBSERVATION, SIZE, fly


class Recurrent(nn.Module):
    """An LSTM as rsl_rl exports it, states (layers, batch, size), and a second input."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lstm, self.head = nn.LSTM(SIZE, 12, 2), nn.Sequential(nn.Linear(12, 8), nn.ELU(), nn.Linear(8, 4))

    def forward(self, goal: Tensor, rest: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        out, (h, c) = self.lstm(torch.cat((goal, rest), dim=1)[None], (h, c))
        return self.head(out[0]).reshape(goal.shape[0], 4), h, c, out.mean()


def written(folder: Path, free: bool) -> Path:
    """Write the graph with a free batch axis, or for one robot with its sizes in the graph."""
    names = ["goal", "rest", "h_in", "c_in"], ["actions", "h_out", "c_out", "mean"]
    states = (torch.zeros(2, 1, 12), torch.zeros(2, 1, 12))
    axes = {"goal": {0: "n"}, "rest": {0: "n"}, "actions": {0: "n"}, **{n: {1: "n"} for n in ("h_in", "c_in")}}
    torch.onnx.export(
        Recurrent(),
        (torch.zeros(1, 3), torch.zeros(1, SIZE - 3), *states),
        str(folder / "net.onnx"),
        input_names=names[0],
        output_names=names[1],
        dynamic_axes=axes if free else None,
        opset_version=17,
        dynamo=False,
    )
    return folder / "net.onnx"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("free", [True, False])
def test_a_recurrent_graph_with_several_inputs(tmp_path: Path, free: bool) -> None:
    file = written(tmp_path, free)
    session = onnxruntime.InferenceSession(file)
    held = {name: np.zeros((2, 1, 12), np.float32) for name in ("h_in", "c_in")}

    def own(observation: np.ndarray) -> np.ndarray:
        seen = observation[None].astype(np.float32)
        actions, held["h_in"], held["c_in"], _ = session.run(None, {"goal": seen[:, :3], "rest": seen[:, 3:], **held})
        return np.asarray(actions[0], float)

    terms = [t if isinstance(t, dict) else {"signal": t} for t in OBSERVATION]
    terms = [{**term, "input": "rest" if number else "goal"} for number, term in enumerate(terms)]
    network = {"states": {"h_in": "h_out", "c_in": "c_out"}, "output": "actions"}
    fly(tmp_path, "onnx", file, own, observation=terms, network=network)


def graph(folder: Path, nodes: list[onnx.NodeProto], inputs: Any, outputs: Any) -> Path:
    """Write a graph by hand."""
    info = onnx.helper.make_tensor_value_info
    kinds = [[info(n, onnx.TensorProto.FLOAT, shape) for n, shape in group.items()] for group in (inputs, outputs)]
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", *kinds))
    model.opset_import[0].version, model.ir_version = 17, 8
    onnx.save(model, folder / "net.onnx")
    return folder / "net.onnx"


NODE = onnx.helper.make_node


@pytest.mark.parametrize(
    ("nodes", "inputs", "outputs", "settings", "said"),
    [
        ([NODE("Relu", ["o"], ["a"])], {"o": [4]}, {"a": [4]}, {}, r"input o has the shape \[4\]"),
        ([NODE("Relu", ["o"], ["a"])], {"o": [5, 4]}, {"a": [5, 4]}, {}, "batch of 1"),
        ([NODE("Relu", ["o"], ["a"])], {"o": [1, 4]}, {"a": [1, 4]}, {"states": {"x": "a"}}, "'x'"),
        ([NODE("Relu", ["o"], ["a"])], {"o": [1, 4]}, {"a": [1, 4]}, {"output": "b"}, "'b'"),
        ([NODE("Relu", ["o"], ["a"])], {"o": [1, 4]}, {"a": [1, 4]}, {"activation": "elu"}, "activation is not for"),
        (
            [NODE("Relu", ["o"], ["a"]), NODE("Relu", ["h"], ["k"])],
            {"o": [1, 4], "h": [1, 4]},
            {"a": [1, 4], "k": [1, 4]},
            {},
            "inputs o, h and the outputs a, k. Name the actions",
        ),
        ([NODE("RandomNormalLike", ["o"], ["a"])], {"o": [1, 4]}, {"a": [1, 4]}, {}, "RandomNormalLike"),
        # the sum over the batch: right for one robot, wrong for several
        ([NODE("CumSum", ["o", "zero"], ["a"])], {"o": [1, 4]}, {"a": [1, 4]}, {}, "one robot at a time"),
        (
            [NODE("Relu", ["o"], ["a"]), NODE("Relu", ["h"], ["k"])],
            {"o": [1, 4], "h": [3, 4]},
            {"a": [1, 4], "k": [3, 4]},
            {"states": {"h": "k"}},
            "an axis of the batch",
        ),
    ],
)
def test_what_is_not_read_is_refused(
    tmp_path: Path, nodes: Any, inputs: Any, outputs: Any, settings: Any, said: str
) -> None:
    if any("zero" in node.input for node in nodes):
        zero = onnx.numpy_helper.from_array(np.array(0, np.int64))
        nodes = [NODE("Constant", [], ["zero"], value=zero), *nodes]
    with pytest.raises(UserError, match=said):
        SOURCES.load("onnx")(graph(tmp_path, nodes, inputs, outputs), NetworkSettings(**settings), tmp_path)


def test_what_is_no_onnx_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"no graph at all")
    with pytest.raises(UserError, match="is no ONNX file"):
        SOURCES.load("onnx")(tmp_path / "net.onnx", NetworkSettings(), tmp_path)
