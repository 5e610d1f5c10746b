"""Workers in another environment: what they answer, environments that are missing or wrong."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from rlstack.errors import UserError
from rlstack.foreign import workers
from rlstack.foreign.workers import Package, Workers

_PROGRAM = """
class Worker:
    def versions(self):
        return {"simulator": "1.2", "engine": "3.4"}

    def add(self, first, second):
        print("nobody reads this")
        return first + second
"""
VERSIONS = {"simulator": "1.2", "engine": "3.4"}


def package(folder: Path, **changed: Any) -> Package:
    program = folder / "program.py"
    program.write_text(_PROGRAM)
    made: dict[str, Any] = {"versions": VERSIONS, "why": "which falls otherwise", "program": program, **changed}
    return Package(title="Simulator", further=("more",), extra="all", **made)


def test_workers_answer_and_their_errors_are_told(tmp_path: Path) -> None:
    with Workers(package(tmp_path), Path(sys.executable), 2) as some:
        assert len(some) == 2 and some.versions == VERSIONS
        assert some.ask(1, "add", 2, 3) == 5
        with pytest.raises(UserError, match="TypeError: unsupported operand"):
            some.ask(1, "add", 2, "3")
        assert some.cpu_s() > 0.0


def test_other_versions_and_other_environments_are_refused_with_what_to_install(tmp_path: Path) -> None:
    newer = package(tmp_path, versions={**VERSIONS, "engine": "4.0"})
    said = r"has simulator 1.2 and engine 3.4, which falls otherwise; .*engine 4.0 are required: .*engine==4.0 more`"
    with pytest.raises(UserError, match=said):
        Workers(newer, Path(sys.executable))
    broken = package(tmp_path, program=tmp_path / "none.py")
    with pytest.raises(UserError, match=r"Simulator cannot be run by .*pip install simulator\[all\]==1.2 engine==3.4"):
        Workers(broken, Path(sys.executable))
    with pytest.raises(UserError, match=r"--python .*nowhere is not allowed: there is no interpreter"):
        Workers(broken, tmp_path / "nowhere")


def test_an_environment_that_cannot_be_made_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(workers.sys, "executable", "/bin/false")
    with pytest.raises(UserError, match=r"environment of Simulator cannot be made in .*Make one yourself"):
        package(tmp_path).own_python(tmp_path / "environment", said.append)
    assert said == [
        f"Installing simulator[all]==1.2, engine==3.4, more into {tmp_path / 'environment'}, an environment of its own."
    ]


def test_a_python_that_is_too_new_is_replaced_or_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = package(tmp_path, newest=(3, 10))
    monkeypatch.setattr(workers.sys, "version_info", (3, 11, 0))
    monkeypatch.setattr(workers.shutil, "which", lambda name: None)
    with pytest.raises(UserError, match=r"needs Python 3.10 to 3.10, and there is none"):
        old.own_python(tmp_path / "environment", lambda text: None)
    monkeypatch.setattr(workers.shutil, "which", lambda name: "/bin/false" if name == "python3.10" else None)
    with pytest.raises(UserError, match=r"Make one yourself"):
        old.own_python(tmp_path / "environment", lambda text: None)
