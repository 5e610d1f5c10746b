"""tests/slow.txt names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent


def test_each_line_of_the_list_of_slow_tests_is_one() -> None:
    lines = [line for line in (HERE / "slow.txt").read_text().splitlines() if not line.startswith("#")]
    assert lines == sorted(set(lines)), "in alphabetical order"
    for line in lines:
        file, name = line.split("::")
        text = (HERE.parent / file).read_text()
        assert re.search(rf"^def {name.partition('[')[0]}\(", text, re.MULTILINE), line
