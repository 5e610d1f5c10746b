"""Ctrl-C that waits: real signals to this very process."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from rlstack.training.interrupt import deferred_interrupt


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_is_a_request_and_the_second_is_an_interrupt(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), deferred_interrupt() as stop:
        assert not stop.is_set()
        interrupt()
        assert stop.is_set()
        assert "Ctrl-C again stops at once" in capsys.readouterr().err
        interrupt()
    assert signal.getsignal(signal.SIGINT) is before


def test_afterwards_ctrl_c_is_what_it_was() -> None:
    with deferred_interrupt():
        pass
    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with deferred_interrupt() as stop:
            interrupt()
            assert not stop.is_set()
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_changes_nothing() -> None:
    before, seen = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with deferred_interrupt() as stop:
            seen.append((stop.is_set(), signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(False, before)]
