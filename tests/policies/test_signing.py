"""Who signed a verification record, and that nobody changed it since."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlstack.errors import UserError
from rlstack.policies.signing import KEY_VARIABLE, doubt_of, key_path, signed, signing_key

RECORD: dict[str, Any] = {"sha256": "ab" * 32, "passed": False, "backends": {"batch": {"success": 0.1}}, "µ": [1, 2.5]}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user who has no key yet."""
    monkeypatch.delenv(KEY_VARIABLE)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def test_the_first_signature_creates_a_key_that_only_its_user_reads(home: Path) -> None:
    assert doubt_of(RECORD) == "is unsigned" and not key_path().exists(), "checking creates nothing"
    record = signed(RECORD)
    assert key_path() == home / "config" / "rlstack" / "verification.key"
    assert stat.S_IMODE(key_path().stat().st_mode) == 0o600
    assert stat.S_IMODE(key_path().parent.stat().st_mode) == 0o700
    assert [path.name for path in key_path().parent.iterdir()] == ["verification.key"]
    assert doubt_of(record) == "" and doubt_of(json.loads(json.dumps(record))) == ""
    assert signing_key() == signing_key() and len(signing_key()) == 32


def test_without_a_configuration_folder_of_its_own_the_key_is_in_the_home(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(home))
    assert key_path() == home / ".config" / "rlstack" / "verification.key"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_change_breaks_the_signature(data: st.DataObject) -> None:
    record = signed(RECORD)
    key = data.draw(st.sampled_from([*RECORD, "new"]))
    value = data.draw(st.none() | st.booleans() | st.floats(allow_nan=False) | st.text() | st.lists(st.integers()))
    changed = {**record, key: value}
    same = json.dumps(value) == json.dumps(RECORD.get(key, "missing"))
    assert doubt_of(changed) == ("" if same else "was changed after it was signed")
    without = {k: v for k, v in record.items() if k != key}
    assert doubt_of(without) == ("" if key == "new" else "was changed after it was signed")


@pytest.mark.parametrize("signature", [None, 3, "x", [], {}, {"algorithm": "none"}, {"algorithm": "hmac-sha256"}])
def test_what_is_no_signature_proves_nothing(signature: Any) -> None:
    assert "is unsigned" in doubt_of({**RECORD, "signature": signature}) or "of another kind" in doubt_of(
        {**RECORD, "signature": signature}
    )


def test_a_record_of_another_user_says_whose_key_is_needed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = signed(RECORD)
    theirs = record["signature"]["key"]
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "other"))
    assert doubt_of(record) == f"is signed with the key {theirs}, and there is no key at {key_path()}"
    mine = signed(RECORD)["signature"]["key"]
    assert doubt_of(record) == f"is signed with the key {theirs}, which is not yours ({key_path()}, {mine})"
    forged = {**record, "signature": {**record["signature"], "key": mine}}
    assert doubt_of(forged) == "was changed after it was signed"


def test_a_team_shares_a_key_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    team = home / "team.key"
    monkeypatch.setenv(KEY_VARIABLE, str(team))
    with pytest.raises(UserError, match=r"team.key that RLSTACK_VERIFICATION_KEY names does not exist. Create it with"):
        signing_key()
    assert not team.exists(), "nobody wants a team of one by a spelling mistake"
    team.write_text("c0ffee00" * 8 + "\n")
    team.chmod(0o640)  # readable by its group
    record = signed(RECORD)
    assert doubt_of(record) == ""


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o606])
def test_a_key_that_others_may_use_is_refused(home: Path, mode: int) -> None:
    record = signed(RECORD)
    key_path().chmod(mode)
    for act in (lambda: doubt_of(record), lambda: signed(RECORD)):
        with pytest.raises(UserError, match=rf"open to others \(mode {mode:o}\).*chmod 600"):
            act()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"0" * 63, b"zz" * 32, b"0" * 5000])
def test_a_file_that_is_no_key_is_refused(home: Path, content: bytes) -> None:
    signing_key()
    key_path().write_bytes(content)
    with pytest.raises(UserError, match="holds no key: 64 hexadecimal digits"):
        signing_key()


def test_where_no_key_can_be_written_that_is_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "file"))
    with pytest.raises(UserError, match=r"(Cannot create|Cannot read) the key .*RLSTACK_VERIFICATION_KEY"):
        signing_key()
    os.unlink(home / "file")
    assert signing_key()
