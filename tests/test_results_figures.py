"""The figures of the results page are those of its tables and of the released policies' records."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.checkout import ROOT


def test_the_figures_are_up_to_date(tmp_path: Path) -> None:
    """Where this fails: python tools/draw_results."""
    subprocess.run([sys.executable, str(ROOT / "tools" / "draw_results"), "--out", str(tmp_path)], check=True)
    drawn = sorted(tmp_path.iterdir())
    assert [path.name for path in drawn] == [f"results_{name}.svg" for name in ("learning", "margins", "success")]
    for path in drawn:
        assert path.read_text() == (ROOT / "docs" / "images" / path.name).read_text(), path.name
