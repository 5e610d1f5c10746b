from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from rlstack.nodes.real_time import use_real_time_priority

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="SCHED_FIFO")


def test_a_system_that_does_not_permit_it_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse, raising=False)
    monkeypatch.setattr(os, "listdir", lambda path: ["1"])
    why = use_real_time_priority(60)
    assert "no real-time priority 60 (Operation not permitted)" in why and "limits.conf" in why


@needs_linux
def test_all_threads_get_it_and_those_started_later() -> None:
    """In a process of its own: this one is not to stay at a real-time priority."""
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=True)
    if "Operation not permitted" in done.stdout:
        pytest.skip("this system permits no real-time priority")
    assert done.stdout.split() == ["1", "7", "1", "7", "1", "7"]


def _report() -> None:
    end = threading.Event()
    early = threading.Thread(target=end.wait)
    early.start()
    why = use_real_time_priority(7)
    late = threading.Thread(target=end.wait)
    late.start()
    for thread in (threading.main_thread(), early, late):
        number = int(thread.native_id or 0)
        print(why or f"{os.sched_getscheduler(number)} {os.sched_getparam(number).sched_priority}")
    end.set()


if __name__ == "__main__":
    _report()
