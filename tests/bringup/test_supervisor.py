"""The supervisor with real processes: small Python modules instead of nodes, so every way to end can be had."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from rlstack.bringup.node_process import Process, System
from rlstack.bringup.supervisor import Supervisor, child_environment
from rlstack.processes import AGAIN_S

pytestmark = pytest.mark.integration

MODULES = {
    "waits": """
        import signal, sys, time
        signal.signal(signal.SIGINT, lambda *_: (print("told to end", flush=True), sys.exit(0)))
        signal.signal(signal.SIGTERM, lambda *_: (print("terminated", flush=True), sys.exit(0)))
        print("ready", flush=True)
        while True: time.sleep(0.05)
    """,
    "fails": """
        import sys
        print("about to fail", flush=True)
        sys.exit(3)
    """,
    "succeeds": "print('done')",
    "deaf": """
        import signal, time
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("ready", flush=True)
        while True: time.sleep(0.05)
    """,
    "rests": """
        import signal, sys, time
        signal.signal(signal.SIGINT, lambda *_: print("resting", flush=True))
        signal.signal(signal.SIGQUIT, lambda *_: (print("at once", flush=True), sys.exit(0)))
        signal.signal(signal.SIGTERM, lambda *_: None)
        print("ready", flush=True)
        while True: time.sleep(0.05)
    """,
    "loads": """
        import time
        print("loading", flush=True)
        time.sleep(60.0)
    """,
    "parent": """
        import subprocess, sys, time
        child = subprocess.Popen([sys.executable, "-m", "deaf"], stdout=subprocess.DEVNULL)
        print("child", child.pid, flush=True)
        while True: time.sleep(0.05)
    """,
}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    for name, code in MODULES.items():
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(code))
    return {**child_environment(os.environ), "PYTHONPATH": str(tmp_path)}


def system(*modules: str, then: System | None = None, **first: Any) -> System:
    processes = [Process(name=f"{m}{i}", module=m, why="of the test") for i, m in enumerate(modules)]
    if first:
        processes[0] = Process(name=f"{modules[0]}0", module=modules[0], **first)
    return System(name="test", processes=tuple(processes), then=then)


def until(condition, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"did not happen within {seconds} s")
        time.sleep(0.02)


def running(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_failing_process_stops_the_rest_and_gives_its_status(environment):
    lines: list[str] = []
    supervisor = Supervisor(system("waits", "fails"), environment=environment, log=lines.append)
    outcome = supervisor.run()
    assert outcome.status == 3
    assert outcome.sentence == "fails1 ended with status 3, so everything was stopped: of the test"
    assert supervisor.alive() == []
    assert "[fails1] about to fail" in lines


def test_a_process_the_rest_can_do_without_does_not_stop_it(environment):
    lines: list[str] = []
    dispensable = system("fails", "waits", when_it_ends="let the rest go on", why="there is a fallback")
    supervisor = Supervisor(dispensable, environment=environment, log=lines.append)
    supervisor.start()
    until(lambda: (supervisor.poll(), any("the rest goes on" in line for line in lines))[1])
    until(lambda: "[waits1] ready" in lines)
    assert supervisor.alive() == ["waits1"]
    outcome = supervisor.close()
    assert (outcome.status, outcome.sentence) == (3, "fails0 ended with status 3")
    assert "[waits1] told to end" in lines


def test_deaf_processes_are_killed_after_the_grace_period(environment):
    lines: list[str] = []
    supervisor = Supervisor(system("deaf", grace_s=0.3), environment=environment, log=lines.append)
    supervisor.start()
    until(lambda: "[deaf0] ready" in lines)
    pid, before = supervisor.pid("deaf0"), time.monotonic()
    outcome = supervisor.close()
    assert 0.3 <= time.monotonic() - before < 3.0
    assert outcome.status == 137
    assert "deaf0 did not end in time and had to be killed" in outcome.sentence
    assert not running(pid)


def test_the_first_ctrl_c_lets_a_robot_come_to_rest_and_another_one_ends_it_at_once(environment):
    lines: list[str] = []
    supervisor = Supervisor(system("rests", grace_s=0.2, rest_s=30.0), environment=environment, log=lines.append)
    supervisor.start()
    until(lambda: "[rests0] ready" in lines)
    for _ in range(2):  # a terminal and a launcher above may both send it
        supervisor.interrupt(signal.SIGINT)
    until(lambda: "[rests0] resting" in lines)
    time.sleep(AGAIN_S)
    assert supervisor.poll() is None, "it may take longer than the time to end"
    supervisor.interrupt(signal.SIGINT)
    until(lambda: supervisor.poll() is not None)
    assert "[rests0] at once" in lines and supervisor.poll().status == 130


def test_who_closes_it_waits_for_no_robot(environment):
    lines: list[str] = []
    supervisor = Supervisor(system("rests", rest_s=30.0), environment=environment, log=lines.append)
    supervisor.start()
    until(lambda: "[rests0] ready" in lines)
    assert supervisor.close().status == 0
    assert "[rests0] at once" in lines and "[rests0] resting" not in lines


def test_a_process_that_is_still_loading_ends_at_once_and_without_a_traceback(environment):
    lines: list[str] = []
    supervisor = Supervisor(system("loads", "waits"), environment=environment, log=lines.append)
    supervisor.start()
    until(lambda: {"[loads0] loading", "[waits1] ready"} <= set(lines))
    before = time.monotonic()
    outcome = supervisor.close()
    assert time.monotonic() - before < 3.0
    assert (outcome.status, outcome.sentence) == (0, "test was stopped by SIGINT")
    assert sorted(lines) == ["[loads0] loading", "[waits1] ready", "[waits1] told to end"]


def test_what_a_process_leaves_in_its_group_is_killed_with_it(environment):
    lines: list[str] = []
    supervisor = Supervisor(system("parent", grace_s=1.0), environment=environment, log=lines.append)
    supervisor.start()
    until(lambda: any(line.startswith("[parent0] child") for line in lines))
    grandchild = int(lines[0].split()[-1])
    assert running(grandchild)
    supervisor.close()
    until(lambda: not running(grandchild))


def test_the_next_stage_starts_only_after_success(environment):
    after = System(name="after", processes=(Process(name="later", module="fails", why="of the test"),))
    good = system("succeeds", then=after, when_it_ends="start the next stage")
    assert Supervisor(good, environment=environment, log=lambda line: None).run().sentence.startswith("later ended")
    bad = system("fails", then=after, when_it_ends="start the next stage", why="no policy came of it")
    assert Supervisor(bad, environment=environment, log=lambda line: None).run().sentence.startswith("fails0 ended")


def test_a_tick_that_returns_false_ends_the_system_well(environment):
    ticks: list[float] = []

    def tick() -> bool:
        ticks.append(time.monotonic())
        time.sleep(0.02)
        return len(ticks) < 40

    outcome = Supervisor(system("waits"), environment=environment, log=lambda line: None).run(tick)
    assert (outcome.status, len(ticks)) == (0, 40)


RUN = """
import sys
from rlstack.bringup.supervisor import Supervisor
from rlstack.bringup.node_process import Process, System
processes = tuple(Process(name=m, module=m) for m in sys.argv[1:])
outcome = Supervisor(System(name="test", processes=processes)).run()
print(outcome.sentence, flush=True)
sys.exit(outcome.status)
"""


@pytest.mark.parametrize(
    ("number", "status", "said"), [(signal.SIGINT, 130, "told to end"), (signal.SIGTERM, 143, "terminated")]
)
def test_signals_are_passed_on(environment, number, status, said):
    own = subprocess.Popen([sys.executable, "-c", RUN, "waits"], env=environment, stdout=subprocess.PIPE, text=True)
    assert own.stdout is not None
    assert own.stdout.readline() == "[waits] ready\n"
    own.send_signal(number)
    rest, _ = own.communicate(timeout=10)
    assert rest.splitlines() == [f"[waits] {said}", f"test was stopped by {number.name}"]
    assert own.returncode == status


def test_nothing_outlives_a_supervisor_that_is_killed(environment):
    own = subprocess.Popen([sys.executable, "-c", RUN, "waits"], env=environment, stdout=subprocess.PIPE, text=True)
    assert own.stdout is not None
    assert own.stdout.readline() == "[waits] ready\n"
    children = Path(f"/proc/{own.pid}/task/{own.pid}/children").read_text().split()
    assert len(children) == 1
    own.kill()
    own.wait()
    until(lambda: not running(int(children[0])), 5.0)
    own.stdout.close()


def test_the_wheels_mark_is_not_inherited_without_its_path():
    mark = "_ROS_WHEELS_BOOTSTRAP_COMPLETE"
    assert mark not in child_environment({mark: "1", "HOME": "/h"})
    kept = child_environment({mark: "1", "LD_LIBRARY_PATH": "/lib", "HOME": "/h"})
    assert kept[mark] == "1"
    assert "HOME" in child_environment({})
