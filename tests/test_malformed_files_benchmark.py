"""benchmarks/malformed_files.py, cut short: files of every kind are read or refused in a sentence."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlstack.errors import UserError
from tests.support.benchmarks import load_benchmark


@pytest.fixture(scope="module")
def benchmark() -> Any:
    return load_benchmark("malformed_files")


@pytest.mark.parametrize(
    ("kind", "inputs"),
    [
        ("policy", 40),
        ("robot", 15),
        ("urdf", 60),
        ("mjcf", 60),
        ("arm", 15),
        ("record", 60),
        ("device", 30),
        ("world", 15),
    ],
)
def test_no_file_is_worse_than_refused(kind: str, inputs: int, benchmark: Any, tmp_path: Path) -> None:
    one = benchmark.KINDS[kind]
    samples = one.samples()[:1] if kind == "policy" else one.samples()
    found = [benchmark.outcome(one, samples, seed, tmp_path) for seed in range(inputs)]
    assert [said for what, said in found if what.isupper()] == []
    assert sum(what == "refused" for what, _ in found) > inputs / 3
    assert all(0 < len(said) < 2500 for what, said in found if what == "refused")


def raising(error: Exception) -> Callable[..., None]:
    def load(*_: Any) -> None:
        raise error

    return load


def test_what_is_not_refused_in_a_sentence_is_a_failure(benchmark: Any, tmp_path: Path) -> None:
    kind = benchmark.KINDS["record"]
    for error, what in (
        (ValueError("x"), "EXCEPTION"),
        (MemoryError(), "MEMORY"),
        (benchmark.Accepted("x"), "ACCEPTED"),
        (UserError("x"), "refused"),
    ):
        assert benchmark.outcome(replace(kind, load=raising(error)), [b"{}"], 0, tmp_path)[0] == what


def test_an_edited_record_that_would_count_is_a_failure(benchmark: Any, tmp_path: Path) -> None:
    (good,) = benchmark.KINDS["record"].samples()
    path = tmp_path / "model.json"
    path.write_bytes(good)
    with pytest.raises(benchmark.Accepted, match="its content is not the signed one"):
        benchmark.load_one_record(path, b"{}", 0)


def test_a_worker_that_hangs_is_killed_and_counted(benchmark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    calls: list[int] = []

    def load(*_: Any) -> None:
        calls.append(0)
        time.sleep(0.0 if len(calls) == 1 else 60.0)  # the good file loads

    kind = benchmark.Kind(lambda: [b"x" * 10], benchmark.bytes_changed, load, ".x")
    monkeypatch.setattr(benchmark, "KINDS", {"slow": kind})
    counts, failures = benchmark.attack("slow", range(2), 0.3)
    assert counts == {"HANG": 2} and failures[0].startswith("slow 0: HANG")


def test_mutations_differ_from_the_file(benchmark: Any) -> None:
    for kind in benchmark.KINDS.values():
        sample = kind.samples()[0]
        made = [kind.mutate(sample, random.Random(seed)) for seed in range(30)]
        assert sum(data != sample for data in made) > 25
