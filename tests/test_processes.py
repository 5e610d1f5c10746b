from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlstack.processes import STARTED_BY
from tests.support.checkout import ROOT

CHILD = """
import os, signal, sys, time
from rlstack.processes import die_with_starter
signal.signal(signal.SIGTERM, lambda *_: (print("asked to end", flush=True), sys.exit()))
die_with_starter()
print(os.getpid(), "RLSTACK_STARTED_BY" in os.environ, flush=True)
time.sleep(60)
"""

STARTER = """
import os, subprocess, sys, time
environment = {**os.environ, "RLSTACK_STARTED_BY": str(os.getpid())}
subprocess.Popen([sys.executable, "-c", sys.argv[1]], env=environment, start_new_session=True)
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_process_is_asked_to_end_when_its_starter_dies(number: int) -> None:
    starter = subprocess.Popen([sys.executable, "-c", STARTER, CHILD], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    pid, inherits = starter.stdout.readline().split()
    assert inherits == "False"
    starter.send_signal(number)
    assert starter.stdout.readline() == "asked to end\n"
    starter.wait()
    end = time.monotonic() + 10.0
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists()


def test_a_process_whose_starter_is_gone_ends_at_once() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    environment = {**os.environ, STARTED_BY: str(gone.pid)}
    child = subprocess.run([sys.executable, "-c", CHILD], env=environment, capture_output=True, text=True, timeout=30)
    assert (child.returncode, child.stdout) == (1, "")


@pytest.mark.parametrize("program", sorted(ROOT.glob("resource/executables/*")), ids=lambda path: path.name)
def test_programs_for_ros2_run_name_their_starter(program: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib" / "rlstack").mkdir(parents=True)
    python = tmp_path / "bin" / "python3"
    python.write_text(f"#!/bin/sh\necho ${STARTED_BY} $*\n")
    python.chmod(0o755)
    installed = tmp_path / "lib" / "rlstack" / program.name
    installed.write_text(program.read_text())
    said = subprocess.run(["sh", str(installed), "word"], capture_output=True, text=True, check=True).stdout.split()
    assert said[0] == str(os.getpid())
    assert said[-2].startswith("rlstack") and said[-1] == "word"


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's scheduling")
def test_what_gives_way_has_the_least_share_and_wakes_up_without_interrupting_others() -> None:
    code = "import os; from rlstack.processes import give_way; give_way(); print(os.nice(0), os.sched_getscheduler(0))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == ["19", str(os.SCHED_BATCH)]
