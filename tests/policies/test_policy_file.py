from __future__ import annotations

import hashlib
import os
import resource
import stat
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from rlstack.errors import UserError
from rlstack.policies import load_policy, write_policy
from tests.policies.graphs import crazyflie, gru_contract, gru_model, mlp_contract, mlp_model


def test_write_then_load(tmp_path: Path) -> None:
    path = tmp_path / "policy.onnx"
    contract = gru_contract(envelope={"tilt_rad": 1.5}, training={"seed": 3}, evaluation={"success": 0.97})
    written = write_policy(gru_model(), contract, path)
    policy = load_policy(str(path), robot=crazyflie())
    assert policy.path == path
    assert policy.contract == written == replace(contract, sha256=written.sha256)
    assert len(written.sha256) == 64
    assert [p.name for p in tmp_path.iterdir()] == ["policy.onnx"], "one file, nothing left beside it"


def test_writing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    first = write_policy(mlp_model(), mlp_contract(), tmp_path / "a.onnx")
    again = write_policy(mlp_model(), first, tmp_path / "b.onnx")
    assert first == again
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_a_written_file_can_be_written_again(tmp_path: Path) -> None:
    write_policy(mlp_model(), mlp_contract(), tmp_path / "a.onnx")
    changed = write_policy(onnx.load(tmp_path / "a.onnx"), mlp_contract(name="renamed"), tmp_path / "b.onnx")
    assert load_policy(tmp_path / "b.onnx").contract == changed


def test_a_file_is_as_readable_as_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_policy(mlp_model(), mlp_contract(), tmp_path / "policy.onnx")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "policy.onnx").stat().st_mode) == 0o644


def test_a_refused_model_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "policy.onnx"
    old = write_policy(mlp_model(), mlp_contract(), path)
    with pytest.raises(UserError, match=r"no input 'state.hidden'"):
        write_policy(mlp_model(), gru_contract(), path)
    assert load_policy(path).contract == old
    assert len(list(tmp_path.iterdir())) == 1


def test_a_write_that_fails_half_way_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "policy.onnx"
    old = write_policy(mlp_model(), mlp_contract(), path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # as a full disk: the kernel refuses byte 1001
    try:
        with pytest.raises(UserError, match=r"Cannot write the policy .*File too large.*Check that its folder"):
            write_policy(gru_model(), gru_contract(), path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert load_policy(path).contract == old
    assert len(list(tmp_path.iterdir())) == 1


def test_writing_into_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"Check that its folder exists"):
        write_policy(mlp_model(), mlp_contract(), tmp_path / "none" / "policy.onnx")


def test_writing_onto_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"it is a folder\. Give the name of a file in it"):
        write_policy(mlp_model(), mlp_contract(), tmp_path)


def test_only_the_bytes_that_were_checked_are_loaded(tmp_path: Path) -> None:
    path = tmp_path / "policy.onnx"
    write_policy(mlp_model(), mlp_contract(), path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert load_policy(path, sha256=digest).sha256 == digest == load_policy(path).sha256
    write_policy(mlp_model(), mlp_contract(name="another"), path)
    with pytest.raises(UserError, match=rf"not the one that was checked: .* checked file {digest[:16]}...: it was rep"):
        load_policy(path, sha256=digest)


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.onnx does not exist\. Train one with `rlstack train`"):
        load_policy(tmp_path / "none.onnx")


def test_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"it is a folder\. Give the file in it, such as policy\.onnx"):
        load_policy(tmp_path)


def test_not_a_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "policy.onnx")
    with pytest.raises(UserError, match=r"it is not a regular file"):
        load_policy(tmp_path / "policy.onnx")


def test_name_that_no_file_can_have(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"File name too long"):
        load_policy(tmp_path / ("a" * 5000))


def test_over_the_size_limit(tmp_path: Path) -> None:
    path = tmp_path / "policy.onnx"
    write_policy(mlp_model(), mlp_contract(), path)
    size = path.stat().st_size
    load_policy(path, max_bytes=size)
    with pytest.raises(UserError, match=r"more than the limit of .* MiB for a policy\. Check that it"):
        load_policy(path, max_bytes=size - 1)


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "policy.onnx"
    with path.open("wb") as file:
        file.truncate(2**38)  # sparse: 256 GiB that take no disk, and that would not fit into memory
    with pytest.raises(UserError, match=r"262144\.0 MiB, more than the limit of 64 MiB"):
        load_policy(path)
