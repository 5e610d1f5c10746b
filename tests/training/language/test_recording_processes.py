"""Demonstrations that two processes record side by side, and a run that learns from them in two processes."""

from __future__ import annotations

from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest

from rlstack import schema
from rlstack.data.replay import ReplayReader
from rlstack.errors import UserError
from rlstack.training import run
from rlstack.training.algorithms.vla_dagger import shown_by
from rlstack.training.algorithms.vla_sft import VLASFT, share_of
from rlstack.training.elsewhere import robots_of
from rlstack.training.language import recording_processes
from rlstack.training.language.demonstrations import weights_of
from rlstack.training.language.network_settings import NetworkSettings
from rlstack.training.recipe import recipe_from_data
from rlstack.training.run_files import WORKERS

LOOKS = NetworkSettings(channels=(8, 8), points=3, looks=3, width=16, heads=2, layers=0, decoder_layers=0)


def recipe(**settings: Any) -> Any:
    made = {"network": schema.to_data(LOOKS), "demonstrations": 3, "stills": 9, "batch": 8, "told": 1, "told_batch": 8}
    return recipe_from_data(
        {
            "name": "shares",
            "task": "table_suite",
            "robot": "panda",
            "algorithm": "vla_sft",
            "envs": 4,
            "steps": 320,
            "threads": 1,
            "task_settings": {"randomisation": {"kinds": ["push"]}},
            "algorithm_settings": {"looking": 0.0, "processes": 2, **made, **settings},
            "selection": {"episodes": 2, "after": 1.0},
        },
        "test",
    )


@pytest.mark.integration
def test_each_process_records_its_share_and_both_learn_from_all(tmp_path: Path) -> None:
    result = run.start(recipe(), tmp_path / "run")
    assert result.finished and result.steps == 320
    names = ["chunks", "chunks-of-process-1", "stills", "stills-of-process-1"]
    places = shown_by(str(tmp_path / "run"))
    assert [place.name for place in places] == names
    chunks, other, stills, more = (ReplayReader(place) for place in places)
    assert [len(one.episodes()) for one in (chunks, other)] == [2, 1]
    assert len(stills.indices()) >= 5 and len(more.indices()) >= 4
    first, second = (one.gather(one.indices()[:1])["places"] for one in (stills, more))
    assert not (first == second).all(), "other scenes"
    logs = tmp_path / "run" / WORKERS
    assert {log.name for log in logs.iterdir()} == {"recording-1.txt", "learning-1.txt"}

    again, log = recipe(), logs / "recording-1.txt"
    log.unlink()
    resumed = VLASFT(again.algorithm_settings, robots_of(again, 4, "cpu", 0))
    resumed.open(tmp_path / "run")
    assert not log.exists(), "all is there: no process is started"
    assert resumed._shown is not None and resumed._shown.folders == places[::2] + places[1::2]


def test_an_expert_that_fails_elsewhere_ends_the_run_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def serve(connection: Any) -> None:
        class Fails:
            def record(self, *given: Any) -> None:
                raise UserError("The scripted expert succeeded in 0 of 9 episodes.")

        monkeypatch.setattr(recording_processes, "build_elsewhere", lambda *given: Fails())
        recording_processes._serve(connection)

    ours, theirs = Pipe()
    (tmp_path / "recipe.yaml").write_text("")
    ours.send(recording_processes.Share(tmp_path, 1, 2, 1, 0))
    serve(theirs)
    assert "0 of 9" in ours.recv()


def test_shares_are_whole_and_folders_of_one_kind_weigh_alike() -> None:
    assert [share_of(10, rank, 3) for rank in range(3)] == [4, 3, 3]
    names = ["a/chunks", "a/chunks-of-process-1", "a/stills", "b/chunks", "a/corrections"]
    assert weights_of([Path(name) for name in names], 0.4) == pytest.approx([0.1, 0.1, 0.4, 0.2, 0.2])
    assert weights_of([Path(name) for name in names if "stills" not in name], 0.4) == []
