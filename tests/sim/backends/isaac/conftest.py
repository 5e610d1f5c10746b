"""A process in which the stand-in for Isaac Sim is installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.isaacsim_standin import Kit
from tests.support.isaacsim_standin.process import standing_in


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Kit]:
    with standing_in(monkeypatch, tmp_path) as process:
        yield process
