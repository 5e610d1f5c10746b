"""A process with the stand-in installed, started and ended, for fixtures."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rlstack.sim.backends.isaac import application, installation
from tests.support.isaacsim_standin.installing import installed
from tests.support.isaacsim_standin.kit import Kit


@contextmanager
def standing_in(monkeypatch: pytest.MonkeyPatch, folder: Path, version: str = "5.1.0-rc.19") -> Iterator[Kit]:
    """Let rlstack find the stand-in as an Isaac Sim that is installed in ``folder``, with its environment set.

    Skips the test where usd-core, whose ``pxr`` it needs, is not installed.
    """
    pytest.importorskip("pxr", reason="the Isaac Sim stand-in reads real USD stages: pip install usd-core")
    monkeypatch.setenv("ISAAC_PATH", str(folder))
    monkeypatch.setenv("OMNI_KIT_ACCEPT_EULA", "YES")
    monkeypatch.setattr(installation, "PYTHON", sys.version_info[:2])
    monkeypatch.setattr(application, "_application", None)
    monkeypatch.setattr(application, "_tenant", None)
    handler = signal.getsignal(signal.SIGINT)
    try:
        with installed(folder, version) as kit:
            yield kit
    finally:
        signal.signal(signal.SIGINT, handler)
