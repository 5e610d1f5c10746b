from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack import schema
from rlstack.errors import UserError
from rlstack.policies import METADATA_KEY, SCHEMA_VERSION, load_policy, write_policy
from rlstack.policies.contract import OLDEST_VERSION
from tests.policies.graphs import (
    gru_contract,
    gru_model,
    mlp_contract,
    mlp_model,
    put,
    sealed,
    weights,
    with_text,
)

GOOD = sealed(gru_model(), gru_contract())
DATA = schema.to_data(mlp_contract())


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


def refused(folder: Path, data: bytes) -> str:
    with pytest.raises(UserError) as caught:
        load_policy(put(folder, data))
    return str(caught.value)


def test_the_file_is_the_documented_bytes(tmp_path: Path) -> None:
    path = tmp_path / "policy.onnx"
    written = write_policy(mlp_model(), mlp_contract(), path)
    bare = mlp_model()
    assert path.read_bytes() == sealed(bare, mlp_contract())
    model = onnx.load(path)
    assert [p.key for p in model.metadata_props] == [METADATA_KEY]
    assert json.loads(model.metadata_props[0].value)["sha256"] == written.sha256
    assert load_policy(path).contract == written


def test_saving_the_model_again_with_onnx_keeps_it_valid(tmp_path: Path) -> None:
    path = put(tmp_path, GOOD)
    onnx.save(onnx.load(path), path)
    assert load_policy(path).contract.name == "gru"


def test_numbers_of_training_code_are_kept_exactly(tmp_path: Path) -> None:
    evaluation = {"success": np.float32(0.1), "error_m": 0.1234567890123456789, "seeds": np.arange(3), "n": np.int64(7)}
    contract = mlp_contract(evaluation=evaluation, training={"out": Path("runs/a")})
    write_policy(mlp_model(), contract, tmp_path / "policy.onnx")
    found = load_policy(tmp_path / "policy.onnx").contract
    assert found.evaluation == {
        "success": float(np.float32(0.1)),
        "error_m": 0.1234567890123456789,
        "seeds": [0, 1, 2],
        "n": 7,
    }
    assert found.training == {"out": "runs/a"}


@pytest.mark.parametrize(
    ("value", "message"),
    [(float("nan"), "evaluation.figures.worst: nan"), (object(), "evaluation.figures.worst: a object")],
)
def test_what_json_cannot_carry_is_refused_by_key(tmp_path: Path, value: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        write_policy(mlp_model(), mlp_contract(evaluation={"figures": {"worst": value}}), tmp_path / "policy.onnx")


@pytest.mark.parametrize(
    "data", [b"schema: 1\n", b'{"a": 1}', b"version https://git-lfs\n", b"PK\x03\x04", b"\xff" * 64]
)
def test_not_onnx(tmp_path: Path, data: bytes) -> None:
    assert "is not an ONNX file" in refused(tmp_path, data)


def test_empty(tmp_path: Path) -> None:
    assert "is empty. Copy it again." in refused(tmp_path, b"")


@pytest.mark.parametrize("kept", [1, 20, len(GOOD) // 2, len(GOOD) - 1])
def test_truncated(tmp_path: Path, kept: int) -> None:
    message = refused(tmp_path, GOOD[:kept])
    assert "is cut short" in message and "Copy it again." in message


def test_damaged_inside(tmp_path: Path) -> None:
    bare = mlp_model().SerializeToString()
    assert "is damaged" in refused(tmp_path, bare + b"\x7f\x01\x02")


def test_onnx_from_elsewhere(tmp_path: Path) -> None:
    message = refused(tmp_path, mlp_model().SerializeToString())
    assert "without rlstack's contract" in message and "write_policy" in message


def test_two_contracts(tmp_path: Path) -> None:
    text = json.dumps(DATA)
    assert "holds 2 contracts" in refused(tmp_path, with_text(mlp_model(), text, text))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "Expecting"),
        ("", "Expecting value"),
        ('{"rate_hz": NaN}', "NaN is not a number"),
        ('{"rate_hz": 1e999}', "Out of range"),
        ('{"name": "a", "name": "b"}', "a key comes twice"),
        ("[" * 100_000, "recursion"),
    ],
)
def test_bad_json(tmp_path: Path, text: str, reason: str) -> None:
    message = refused(tmp_path, with_text(mlp_model(), text))
    assert "is not valid JSON" in message and reason in message


def test_json_that_is_no_object(tmp_path: Path) -> None:
    assert "must be a JSON object, not list" in refused(tmp_path, with_text(mlp_model(), "[]"))


def test_older_and_newer_schema(tmp_path: Path) -> None:
    older = refused(tmp_path, sealed(mlp_model(), {**DATA, "schema_version": OLDEST_VERSION - 1}))
    assert (
        "older than the oldest that this rlstack reads" in older
        and "Export the policy again with this rlstack" in older
    )
    newer = refused(tmp_path, sealed(mlp_model(), {**DATA, "schema_version": SCHEMA_VERSION + 1, "new_key": 1}))
    assert "newer than this rlstack's" in newer and "Install a newer rlstack" in newer


@pytest.mark.parametrize("key", ["schema_version", "robot", "rate_hz", "inputs", "code_version"])
def test_missing_key(tmp_path: Path, key: str) -> None:
    message = refused(tmp_path, sealed(mlp_model(), {k: v for k, v in DATA.items() if k != key}))
    assert f"the key '{key}' is missing" in message and "Export the policy again" in message


def test_unknown_key(tmp_path: Path) -> None:
    assert "Unknown key 'rate_herz'. Nearest: rate_hz" in refused(
        tmp_path, sealed(mlp_model(), {**DATA, "rate_herz": 1})
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("schema_version", "one"),
        ("schema_version", True),
        ("robot", 3),
        ("rate_hz", -1),
        ("rate_hz", "fast"),
        ("inputs", "position"),
        ("inputs", [3]),
        ("envelope", {"conditions": {"tilt_rad": "steep"}}),
        ("training", []),
    ],
)
def test_wrong_type(tmp_path: Path, key: str, value: Any) -> None:
    message = refused(tmp_path, sealed(mlp_model(), {**DATA, key: value}))
    assert key in message and ("not allowed" in message or "must be a mapping" in message)


def test_number_beyond_floats(tmp_path: Path) -> None:
    assert "must be a finite number" in refused(tmp_path, sealed(mlp_model(), {**DATA, "rate_hz": 10**400}))


def test_changed_weights(tmp_path: Path) -> None:
    model = onnx.ModelProto.FromString(sealed(mlp_model(), mlp_contract()))
    changed = mlp_model({"b2": weights()["b2"] + 1.0})
    changed.metadata_props.extend(model.metadata_props)
    assert "was changed or damaged after it was written" in refused(tmp_path, changed.SerializeToString())


def test_changed_contract(tmp_path: Path) -> None:
    text = onnx.ModelProto.FromString(sealed(mlp_model(), mlp_contract())).metadata_props[0].value
    data = with_text(mlp_model(), text.replace('"rate_hz":100.0', '"rate_hz":200.0'))
    assert "was changed or damaged after it was written" in refused(tmp_path, data)


def test_no_hash(tmp_path: Path) -> None:
    data = with_text(mlp_model(), json.dumps({k: v for k, v in DATA.items() if k != "sha256"}))
    assert "was changed or damaged after it was written" in refused(tmp_path, data)


def test_a_problem_in_a_changed_file_is_told_with_the_change(tmp_path: Path) -> None:
    text = onnx.ModelProto.FromString(sealed(mlp_model(), mlp_contract())).metadata_props[0].value
    message = refused(tmp_path, with_text(mlp_model({"b2": np.full(4, np.nan, np.float32)}), text))
    assert "NaN or infinite" in message and "its hash is wrong" in message


@settings(deadline=None, max_examples=60)
@given(kept=st.integers(0, len(GOOD) - 1))
def test_every_truncation_is_refused(scratch: Path, kept: int) -> None:
    refused(scratch, GOOD[:kept])


@settings(deadline=None, max_examples=200)
@given(flips=st.dictionaries(st.integers(0, len(GOOD) - 1), st.integers(1, 255), min_size=1, max_size=4))
def test_every_flipped_byte_is_refused(scratch: Path, flips: dict[int, int]) -> None:
    data = bytearray(GOOD)
    for at, change in flips.items():
        data[at] ^= change
    refused(scratch, bytes(data))


@settings(deadline=None, max_examples=100)
@given(data=st.binary(max_size=300))
def test_any_bytes_are_refused(scratch: Path, data: bytes) -> None:
    refused(scratch, data)


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_a_damaged_graph_under_a_right_hash_is_refused_or_runs(scratch: Path, data: st.DataObject) -> None:
    """Nothing but UserError comes out even when onnx and onnxruntime see the damage."""
    body = bytearray(gru_model().SerializeToString(deterministic=True))
    body[data.draw(st.integers(0, len(body) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        model = onnx.ModelProto.FromString(bytes(body))
    except DecodeError:
        return
    with contextlib.suppress(UserError):
        load_policy(put(scratch, sealed(model, gru_contract())))


def test_a_file_of_version_1_loads_without_an_envelope(tmp_path: Path) -> None:
    old = {**DATA, "schema_version": 1, "envelope": {"tilt_rad": 1.5}}
    path = put(tmp_path, sealed(mlp_model(), old))
    contract = load_policy(path).contract
    assert not contract.envelope and contract.envelope.conditions == {"tilt_rad": 1.5}
    assert "not proven for delay" in contract.envelope.unproven
    again = write_policy(mlp_model(), contract, tmp_path / "again.onnx")  # written in today's version
    assert again.schema_version == SCHEMA_VERSION and load_policy(tmp_path / "again.onnx").contract == again
