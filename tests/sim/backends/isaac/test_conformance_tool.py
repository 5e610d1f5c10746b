"""The script for a machine with Isaac Sim: what it says where there is none, and how it reads the results."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from rlstack.sim.backends.isaac.installation import installed_version

TOOL = Path(__file__).resolve().parents[4] / "tools" / "isaac_conformance"

RESULTS = """<testsuites><testsuite>
  <testcase classname="a.b" name="flies[isaac]"/>
  <testcase classname="a.b" name="falls[isaac]"><failure message="no"/></testcase>
  <testcase classname="a.b" name="starts[isaac]"><error message="no"/></testcase>
  <testcase classname="a.b" name="two[isaac]"><skipped message="one"/></testcase>
</testsuite></testsuites>"""


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("isaac_conformance", str(TOOL))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.mark.skipif(installed_version() is not None, reason="Isaac Sim is installed")
def test_without_isaac_sim_it_says_how_to_get_it_and_runs_nothing(tmp_path: Path):
    report = tmp_path / "report.json"
    done = subprocess.run(
        [sys.executable, str(TOOL), "--report", str(report)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "isaacsim[all,extscache]==5.1.0" in done.stderr
    assert "Traceback" not in done.stderr
    assert not report.exists()


def test_results_are_read_from_the_report(tool: ModuleType, tmp_path: Path):
    file = tmp_path / "results.xml"
    assert tool.read(file) == {}
    file.write_text(RESULTS)
    assert tool.read(file) == {
        "a.b.flies[isaac]": "passed",
        "a.b.falls[isaac]": "failed",
        "a.b.starts[isaac]": "failed",
        "a.b.two[isaac]": "skipped",
    }


@pytest.mark.parametrize(
    ("results", "status", "said"), [("", 1, "nothing passed"), (RESULTS, 1, "1 passed, 2 failed, 1 skipped")]
)
def test_the_status_is_the_reports_and_not_the_processs(
    tool: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    results: str,
    status: int,
    said: str,
):
    def ended(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        for argument in command:
            if argument.startswith("--junitxml=") and results:
                Path(argument.removeprefix("--junitxml=")).write_text(results)
        return subprocess.CompletedProcess(command, 0, stdout="a GPU")  # as where Isaac Sim ended it

    monkeypatch.setattr(tool, "ready", lambda: "5.1.0")
    monkeypatch.setattr(tool.subprocess, "run", ended)
    monkeypatch.setattr(sys, "argv", [str(TOOL), "--report", str(tmp_path / "report.json")])
    assert tool.main() == status
    printed = capsys.readouterr()
    assert said in printed.out + printed.err
    assert json.loads((tmp_path / "report.json").read_text())["isaacsim"] == "5.1.0"


def test_it_says_what_is_not_installed_in_this_python(tool: ModuleType, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tool, "NEEDED", ("pytest", "no_such_module"))
    with pytest.raises(tool.NotReady, match=r"no_such_module is not installed.*pip install"):
        tool.ready()
