"""The doctor on this very environment, and on parts that are missing or broken."""

from __future__ import annotations

import json

import pytest

from rlstack.bringup.doctor import PARTS, Diagnosis, Part, diagnose
from rlstack.bringup.doctor import _heavy as heavy
from rlstack.bringup.doctor import _package as package
from rlstack.bringup.doctor import _program as program
from rlstack.sim.backends.isaac import installation


def found(name, look, core=False):
    return Part(name, "testing", "install it", look, core).find()


@pytest.mark.integration
def test_this_environment_is_well():
    diagnosis = diagnose()
    states = {finding.part: finding.state for finding in diagnosis.findings}
    assert diagnosis.status == 0
    assert {name: states[name] for name in ("python", "numpy", "onnxruntime", "tyro", "robot files")} == dict.fromkeys(
        ("python", "numpy", "onnxruntime", "tyro", "robot files"), "ok"
    )
    assert set(states) == {part.name for part in PARTS}
    data = json.loads(json.dumps(diagnosis.as_data()))
    assert data["ok"] is True
    assert data["parts"]["numpy"]["state"] == "ok"


def test_every_missing_part_is_said_with_its_purpose_and_its_command():
    for part in PARTS:
        missing = Part(part.name, part.purpose, part.install, lambda: ("missing", ""), part.core).find()
        table = Diagnosis((missing,)).table()
        assert part.purpose in table
        assert part.install in table


def test_a_missing_core_part_is_a_failure_and_another_is_not():
    assert Diagnosis((found("numpy", package("no_such_module", "none"), core=True),)).status == 1
    assert Diagnosis((found("extra", package("no_such_module", "none")),)).status == 0


def test_an_rclpy_that_does_not_load_is_a_failure():
    assert Diagnosis((found("rclpy", heavy("json", "none", "raise ImportError('no library')")),)).status == 1
    assert Diagnosis((found("rclpy", package("no_such_module", "none")),)).status == 0


def test_a_part_that_ends_the_process_is_only_a_finding():
    finding = found("crasher", heavy("json", "none", "import os; os.abort()"))
    assert finding.state == "broken"


@pytest.mark.parametrize(("version", "state"), [(None, "missing"), ("5.1.0", "ok"), ("6.0.1", "broken")])
def test_isaac_sim_is_said_to_be_untried_whatever_is_installed(monkeypatch, version, state):
    monkeypatch.setattr(installation, "installed_version", lambda: version)
    monkeypatch.setattr(installation.require_supported, "__defaults__", ((3, 11),))
    (part,) = (part for part in PARTS if part.name == "isaacsim")
    finding = part.find()
    assert finding.state == state
    assert "not yet run on Isaac Sim" in finding.detail
    assert (version or "") in finding.detail
    assert "docs/isaac.md" in finding.install


def test_a_part_that_raises_is_broken_with_its_reason():
    finding = found("odd", lambda: [][1])
    assert (finding.state, finding.detail) == ("broken", "IndexError: list index out of range")


def test_programs_of_an_environment_that_is_not_activated_are_found(monkeypatch, tmp_path):
    for name in ("python", "builder"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", "/nowhere")
    assert found("builder", program("builder")).state == "missing"
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    assert (found("builder", program("builder")).state, found("x", program("x")).state) == ("ok", "missing")
