from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, external_data_helper, helper, numpy_helper

from rlstack.errors import UserError
from rlstack.policies import Contract, load_policy, write_policy
from tests.policies.graphs import (
    INPUTS,
    SIZES,
    gru_contract,
    gru_model,
    mlp_contract,
    mlp_model,
    model,
    put,
    random_inputs,
    sealed,
    weights,
)

SHAPES = {n: [SIZES[n]] for n in INPUTS}


def refused(
    folder: Path, bare: onnx.ModelProto, contract: Contract | None = None, *, writer_refuses: bool = True
) -> str:
    """The hash is right: only the graph is wrong. Writing must refuse it in the same words."""
    contract = contract or mlp_contract()
    with pytest.raises(UserError) as caught:
        load_policy(put(folder, sealed(bare, contract)))
    if writer_refuses:
        target = folder / "policy.onnx"
        target.unlink()
        with pytest.raises(UserError) as written:
            write_policy(bare, contract, target)
        assert str(written.value) == str(caught.value)
        assert list(folder.iterdir()) == []
    return str(caught.value)


def constant_model(value: list[float], **options: Any) -> onnx.ModelProto:
    """Outputs ``value`` whatever comes in, through a sum over the inputs times zero."""
    arrays = {"zero": np.zeros((13, 4), np.float32), "value": np.array(value, np.float32)}
    nodes = [
        helper.make_node("Concat", INPUTS, ["x"], axis=1),
        helper.make_node("Gemm", ["x", "zero", "value"], ["rotor_speed"]),
    ]
    return model(nodes, SHAPES, {"rotor_speed": [4]}, arrays, **options)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16])
def test_weights_that_are_not_finite(tmp_path: Path, bad: float, kind: type) -> None:
    bare = mlp_model()
    w1 = weights()["w1"].astype(kind)
    w1[3, 2] = bad
    bare.graph.initializer[0].CopyFrom(numpy_helper.from_array(w1, "w1"))
    message = refused(tmp_path, bare)
    assert "the weights 'w1' hold 1 values that are NaN or infinite" in message and "earlier checkpoint" in message


def test_a_lone_infinity_is_an_open_limit(tmp_path: Path) -> None:
    bare = mlp_model()
    bare.graph.node[3].output[0] = "g3"
    bare.graph.node.insert(4, helper.make_node("Clip", ["g3", "open", "wide"], ["g2"]))
    for name, limit in (("open", -np.inf), ("wide", np.inf)):
        bare.graph.initializer.append(numpy_helper.from_array(np.array(limit, np.float32), name))
    write_policy(bare, mlp_contract(), tmp_path / "policy.onnx")
    assert load_policy(tmp_path / "policy.onnx").contract.name == "mlp"


def test_weights_whose_bytes_are_missing(tmp_path: Path) -> None:
    bare = mlp_model()
    bare.graph.initializer[0].raw_data = bare.graph.initializer[0].raw_data[:-4]
    assert "the weights 'w1' cannot be read" in refused(tmp_path, bare)


def test_external_data(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    source = tmp_path / "elsewhere" / "model.onnx"
    bare = mlp_model()
    external_data_helper.convert_model_to_external_data(bare, location="model.data", size_threshold=0)
    onnx.save(bare, source)
    bare = onnx.load(source, load_external_data=False)
    (tmp_path / "policy").mkdir()
    message = refused(tmp_path / "policy", bare)
    assert "the weights 'w1' are outside the file" in message and "external_data=False" in message


@pytest.mark.parametrize("domain", ["com.microsoft", "my.company", "ai.onnx.ml"])
def test_operator_outside_the_standard_domains(tmp_path: Path, domain: str) -> None:
    bare = mlp_model()
    bare.graph.node[2].domain = domain
    bare.graph.node[2].name = "activation"
    bare.opset_import.append(helper.make_opsetid(domain, 1))
    message = refused(tmp_path, bare)
    assert f"the operator 'Tanh' of node 'activation' is from the domain '{domain}'" in message
    assert "standard ONNX operators only" in message


def with_function() -> onnx.ModelProto:
    opset = helper.make_opsetid("", 18)
    function = helper.make_function(
        "local", "Squash", ["a"], ["b"], [helper.make_node("Tanh", ["a"], ["b"])], opset_imports=[opset]
    )
    bare = mlp_model()
    bare.graph.node[2].op_type, bare.graph.node[2].domain = "Squash", "local"
    bare.opset_import.append(helper.make_opsetid("local", 1))
    bare.functions.append(function)
    return bare


def test_local_functions_are_refused_in_a_file_and_inlined_by_the_writer(tmp_path: Path) -> None:
    message = refused(tmp_path, with_function(), writer_refuses=False)
    assert "defines functions of its own ('Squash')" in message and "Inline them" in message
    write_policy(with_function(), mlp_contract(), tmp_path / "policy.onnx")
    write_policy(mlp_model(), mlp_contract(), tmp_path / "plain.onnx")
    inputs = random_inputs(0)
    found = load_policy(tmp_path / "policy.onnx").step(inputs)["rotor_speed"]
    np.testing.assert_array_equal(found, load_policy(tmp_path / "plain.onnx").step(inputs)["rotor_speed"])


def test_unknown_standard_operator(tmp_path: Path) -> None:
    bare = mlp_model()
    bare.graph.node[2].op_type = "Tanhh"
    message = refused(tmp_path, bare)
    assert "the operator 'Tanhh'" in message and "not one of those that a policy may have" in message


def test_opset_of_the_future(tmp_path: Path) -> None:
    assert "opset" in refused(tmp_path, constant_model([0.0] * 4, opsets=[("", 900)]))


def test_missing_and_surplus_graph_inputs(tmp_path: Path) -> None:
    fewer = replace(mlp_contract(), inputs=mlp_contract().inputs[:3])
    assert "has the input 'angular_velocity' that the contract does not name" in refused(tmp_path, mlp_model(), fewer)
    bare = mlp_model()
    bare.graph.input[0].name = bare.graph.node[0].input[0] = "pos"
    assert "the graph has no input 'position' that the contract names (it has pos, orientation" in refused(
        tmp_path, bare
    )


def test_missing_and_surplus_graph_outputs(tmp_path: Path) -> None:
    bare = mlp_model()
    bare.graph.output.append(helper.make_tensor_value_info("h", TensorProto.FLOAT, ["batch", 8]))
    assert "has the output 'h' that the contract does not name" in refused(tmp_path, bare)
    del bare.graph.output[0]
    assert "the graph has no output 'rotor_speed'" in refused(tmp_path, bare)


def test_states_must_be_in_the_graph(tmp_path: Path) -> None:
    assert "no input 'state.hidden' that the contract names" in refused(tmp_path, mlp_model(), gru_contract())
    message = refused(tmp_path, gru_model(), mlp_contract())
    assert "has the input 'state.hidden' that the contract does not name" in message
    bare = gru_model()
    del bare.graph.output[1]
    assert "no output 'next_state.hidden'" in refused(tmp_path, bare, gru_contract())


@pytest.mark.parametrize("chunk", [(4, 3), (4,)])
def test_a_plan_must_be_in_the_graph(tmp_path: Path, chunk: tuple[int, ...]) -> None:
    said = refused(tmp_path, mlp_model(), mlp_contract(chunk=chunk))
    assert "plans chunks" in said and "name the tensors 'chunk.plan' and 'chunk.action'" in said


def test_shapes_must_agree(tmp_path: Path) -> None:
    bare = mlp_model()
    bare.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 4
    assert "'position' has the shape [batch, 4], but by the contract it is [batch, 3]" in refused(tmp_path, bare)
    bare = mlp_model()
    bare.graph.output[0].type.tensor_type.ClearField("shape")
    assert "'rotor_speed' has the shape []" in refused(tmp_path, bare)
    state = gru_contract(state={"hidden": (9,)})
    assert "'state.hidden' has the shape [batch, 8], but by the contract it is [batch, 9]" in refused(
        tmp_path, gru_model(), state
    )


def test_batch_axis_must_be_dynamic(tmp_path: Path) -> None:
    message = refused(tmp_path, constant_model([0.0] * 4, batch=1))
    assert "'position' has a first axis of fixed size 1" in message and "dynamic batch axis" in message


def test_only_float32(tmp_path: Path) -> None:
    assert "'position' is not a float32 tensor" in refused(tmp_path, constant_model([0.0] * 4, kind=TensorProto.DOUBLE))


def test_graph_that_declares_a_batch_but_fixes_it_inside(tmp_path: Path) -> None:
    bare = mlp_model()
    bare.graph.node[4].output[0] = "clipped"
    bare.graph.node.append(helper.make_node("Reshape", ["clipped", "shape"], ["rotor_speed"]))
    bare.graph.initializer.append(numpy_helper.from_array(np.array([1, 4], np.int64), "shape"))
    assert "batch" in refused(tmp_path, bare)


def test_outputs_outside_the_promised_range(tmp_path: Path) -> None:
    message = refused(tmp_path, constant_model([0.0, 0.0, 0.0, 2273.0]))
    assert "outside the range that its contract promises (0 to 2272.6 rad/s)" in message and "Clip" in message
    write_policy(constant_model([0.0, 0.0, 0.0, 2272.6]), mlp_contract(), tmp_path / "policy.onnx")


def test_outputs_that_are_not_finite_at_rest(tmp_path: Path) -> None:
    bare = constant_model([0.0] * 4)
    bare.graph.node[1].output[0] = "zeros"
    bare.graph.node.append(helper.make_node("Div", ["zeros", "zeros"], ["rotor_speed"]))
    assert "rotor_speed that is not finite for a robot at rest" in refused(tmp_path, bare)


def test_exporters_notes_are_left_out(tmp_path: Path) -> None:
    bare = mlp_model()
    for part in (bare, bare.graph, bare.graph.node[0], bare.graph.input[0], bare.graph.initializer[0]):
        part.doc_string = "File /home/somebody/secret.py"
        part.metadata_props.add(key="pkg.torch.onnx.stack_trace", value="File /home/somebody/secret.py")
    write_policy(bare, mlp_contract(), tmp_path / "policy.onnx")
    assert b"secret" not in (tmp_path / "policy.onnx").read_bytes()
    assert b"secret" in bare.SerializeToString(), "the caller's model must stay as it was"
