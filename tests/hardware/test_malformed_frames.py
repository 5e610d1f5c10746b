"""Each protocol's parser takes nothing that is no frame, as its benchmark counts it."""

from __future__ import annotations

import pytest

from tests.support.benchmarks import FOLDER, load_benchmark

PROTOCOLS = sorted(path.stem for path in (FOLDER / "malformed_frames").glob("[!_]*.py"))


@pytest.mark.parametrize("name", PROTOCOLS)
def test_broken_frames_are_not_taken(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    benchmark = load_benchmark("malformed_frames")
    try:
        assert benchmark.fed(name, 1000, 1), capsys.readouterr().out
    except ImportError as error:
        pytest.skip(str(error))
