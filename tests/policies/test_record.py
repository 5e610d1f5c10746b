"""The record beside a policy: read once, and what of it is trusted."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlstack.files import write_json
from rlstack.policies.record import read_record
from rlstack.policies.released import released
from tests.support.records import write_record

FACTS = {"sha256": "ab" * 32, "passed": True}


def test_a_signed_record_is_proof_of_its_own_file_alone(tmp_path: Path) -> None:
    policy = tmp_path / "policy.onnx"
    write_record(policy, FACTS)
    record = read_record(policy)
    assert record.doubt == "" and record.proof_of("ab" * 32)["passed"] is True
    assert record.proof_of("cd" * 32) == {} and record.proof_of("") == {}
    write_json(tmp_path / "verify.json", FACTS)
    record = read_record(policy)
    assert record.doubt == "is unsigned" and record.data == FACTS and record.proof_of("ab" * 32) == {}


def test_a_released_record_needs_no_key_but_its_very_bytes(tmp_path: Path) -> None:
    one = released()[0]
    copy = tmp_path / "verify.json"
    copy.write_bytes((one.path.parent / "verify.json").read_bytes())
    assert read_record(tmp_path / "policy.onnx").doubt == ""
    copy.write_bytes(copy.read_bytes() + b"\n")
    assert read_record(tmp_path / "policy.onnx").doubt != ""


def test_where_there_is_none_it_is_empty(tmp_path: Path) -> None:
    record = read_record(tmp_path / "policy.onnx")
    assert (record.data, record.sha256, record.problem) == ({}, "", "") and record.doubt == "is missing"


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"a": ' + b"1" * 5000 + b"}", b"null"]
)
def test_what_is_no_record_is_no_traceback(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "verify.json").write_bytes(content)
    record = read_record(tmp_path / "policy.onnx")
    assert record.problem and record.doubt and record.data == {}
