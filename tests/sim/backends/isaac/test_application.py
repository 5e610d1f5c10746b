"""One application in a process, its arguments and Ctrl-C left to us; one world at a time."""

from __future__ import annotations

import signal
import sys
import threading

import pytest

from rlstack.errors import UserError
from rlstack.sim.backends.isaac import api_5, application
from tests.support.isaacsim_standin import Kit


def test_it_starts_once_without_our_arguments_and_leaves_ctrl_c(kit: Kit, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "argv", ["rlstack", "robot", "--help"])
    before = signal.getsignal(signal.SIGINT)
    first = application.start(api_5.construct)
    assert application.start(api_5.construct) is first
    assert kit.argv == ["rlstack"]
    assert sys.argv == ["rlstack", "robot", "--help"]
    assert signal.getsignal(signal.SIGINT) is before
    assert application._application is not None


def test_it_ends_without_ending_the_process_and_does_not_start_again(kit: Kit):
    running = application.start(api_5.construct)
    assert running.config["fast_shutdown"] is False  # else close() ends the process with status 0
    application.stop()
    application.stop()
    assert kit.named("SimulationApp.close") == [{}]
    assert application._application is None


def test_another_thread_is_refused_before_anything_starts(kit: Kit):
    refusals: list[BaseException] = []

    def start() -> None:
        try:
            application.start(api_5.construct)
        except UserError as error:
            refusals.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert "main thread" in str(refusals[0])
    assert kit.application is None


def test_what_fails_to_start_leaves_arguments_and_ctrl_c(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(application, "_application", None)
    arguments, before = sys.argv, signal.getsignal(signal.SIGINT)

    def fail() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise RuntimeError("no GPU")

    with pytest.raises(RuntimeError, match="no GPU"):
        application.start(fail)
    assert (sys.argv, signal.getsignal(signal.SIGINT), application._application) == (arguments, before, None)


def test_the_world_is_one_tenants_until_it_moves_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(application, "_tenant", None)
    first, second = object(), object()
    application.occupy(first)
    application.occupy(first)
    with pytest.raises(UserError, match="one world in a process"):
        application.occupy(second)
    application.vacate(second)
    with pytest.raises(UserError, match="one world in a process"):
        application.occupy(second)
    application.vacate(first)
    application.occupy(second)
