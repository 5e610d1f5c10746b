"""What the tests of processes and commands share."""

from __future__ import annotations

import pytest

from rlstack.verification.report import Replay


@pytest.fixture(autouse=True)
def _no_films(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verify without films, which take seconds each, where a test is not about them."""
    if "films" not in request.fixturenames:
        monkeypatch.setattr("rlstack.bringup.verify.make_replay", lambda *_: Replay())


@pytest.fixture
def films() -> None:
    """Let verifications make films."""
