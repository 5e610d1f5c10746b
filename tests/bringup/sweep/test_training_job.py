"""Real trainings of a sweep: one that is killed goes on; on a Ray cluster; on a machine without the sweep's folder."""

from __future__ import annotations

import importlib.util
import os
import signal
import time
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rlstack.bringup.sweep import ray_workers, training_job
from rlstack.bringup.sweep.ray_workers import RayWorkers, _train
from rlstack.bringup.sweep.training_job import Job, LocalWorkers, check_room
from rlstack.bringup.sweep.trials import job_of, run_jobs
from rlstack.errors import UserError
from rlstack.training.recipe import load_recipe

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed: rlstack[ray]")


def short(folder: Path) -> Job:
    recipe = load_recipe("quadrotor_hover")
    selection = replace(recipe.selection, episodes=8)
    return job_of(folder, "run", replace(recipe, steps=512, envs=8, selection=selection))


def ignored(done: int, count: int) -> None:
    pass


@pytest.mark.integration
def test_a_training_that_is_killed_goes_on(tmp_path: Path) -> None:
    job, workers = short(tmp_path), LocalWorkers(1)
    workers.start(job)
    assert not workers.free()
    [(_, process)] = workers._running.values()
    end = time.monotonic() + 60.0
    while not (job.folder / "checkpoint.pt").is_file():
        assert time.monotonic() < end, job.why()
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    while not (ended := workers.ended()):
        time.sleep(0.02)
    assert ended == [(job, -signal.SIGKILL)] and job.figures() is None and "--resume" in job.command()
    run_jobs([job], workers, ignored)
    assert job.figures()["finished"] and len(job.evaluations()) >= 1 and workers.free()


def test_a_disk_that_is_full_pauses_a_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_job, "_LEAST_FREE", 2**62)
    with pytest.raises(UserError, match="make room"):
        check_room(tmp_path)


def test_what_a_training_said_last_is_why_it_ended(tmp_path: Path) -> None:
    job = Job(tmp_path / "run.yaml", tmp_path / "run", 1)
    assert job.why() == "it said nothing" and job.figures() is None and job.evaluations() == []
    job.log.write_text("a\nrlstack: No robot is called x.\n")
    assert job.why() == "No robot is called x."


def raylet() -> int:
    """Return the id of the raylet that this process has started."""
    children = [int(pid) for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()]
    return next(pid for pid in children if b"raylet/raylet" in Path(f"/proc/{pid}/cmdline").read_bytes())


@needs_ray
@pytest.mark.integration
def test_a_training_runs_on_a_ray_cluster_of_this_machine_on_loopback(tmp_path: Path) -> None:
    workers = RayWorkers("local", 1, tmp_path)  # before ray is imported, as in the command
    try:
        import ray

        assert ray.nodes()[0]["NodeManagerAddress"] == "127.0.0.1"
        job = short(tmp_path)
        run_jobs([job], workers, ignored)
        assert job.figures()["finished"]
        (tmp_path / "sweep.token").unlink()  # as on a machine that does not see the folder
        other = replace(job, folder=tmp_path / "elsewhere")
        run_jobs([other], workers, ignored)
        assert other.figures()["finished"] and other.log.read_text()
        names = [{file.name for file in one.folder.iterdir() if ".tfevents." not in file.name} for one in (job, other)]
        assert names[0] == names[1] and not list(tmp_path.rglob("*.part"))
        # without its raylet all is lost at once, as often as it is tried: the sweep pauses
        os.kill(raylet(), signal.SIGKILL)
        with pytest.raises(UserError, match=r"\(its raylet\) died"):
            run_jobs([replace(job, folder=tmp_path / "lost")], workers, ignored)
    finally:
        workers.close()
    assert not (tmp_path / "sweep.token").exists()


@needs_ray
def test_a_cluster_that_does_not_answer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no Ray cluster answers at 127\.0\.0\.1:9"):
        RayWorkers("127.0.0.1:9", 1, tmp_path)


@needs_ray
def test_ray_that_does_not_start_is_refused_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(**options: object) -> None:  # what Ray raises if its processes are not there within 30 s
        raise Exception("The current node timed out during startup. This could happen because")

    monkeypatch.setattr("ray.init", slow)
    with pytest.raises(UserError, match=r"Ray did not start \(The current node timed out during startup\."):
        RayWorkers("local", 1, tmp_path)


@needs_ray
@pytest.mark.integration
def test_a_machine_without_the_sweeps_folder_sends_the_run_back(tmp_path: Path) -> None:
    job = short(tmp_path)
    sent = _train(job, job.recipe.read_text(), tmp_path, "another token", bytes)
    assert not job.folder.exists() and not job.log.exists()
    assert sent.status == 0 and {"run.log", "run/training.json", "run/policy.onnx"} <= set(sent.files)
    assert list(sent.files)[-1] == "run/training.json", "with it, the run is known to be there"


def test_a_population_needs_a_folder_that_all_machines_see(tmp_path: Path) -> None:
    job = replace(short(tmp_path), until=0.5)
    sent = _train(job, job.recipe.read_text(), tmp_path, "another token", bytes)
    told = zlib.decompress(sent.files["run.log"][0])
    assert sent.status == 2 and b"a population goes on from checkpoints there" in told


def test_a_file_arrives_in_parts_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_workers, "_PART", 1000)
    whole = np.random.default_rng(0).bytes(2500) + bytes(2500)
    (tmp_path / "sent").write_bytes(whole)
    (tmp_path / "empty").touch()
    parts = list(ray_workers._parts(tmp_path / "sent"))
    assert len(parts) == 5 and max(map(len, parts)) < 1100
    ray_workers._receive(tmp_path / "in" / "received", parts)
    ray_workers._receive(tmp_path / "none", ray_workers._parts(tmp_path / "empty"))
    assert (tmp_path / "in" / "received").read_bytes() == whole and (tmp_path / "none").read_bytes() == b""


def test_a_training_with_processes_of_its_own_takes_their_processors(tmp_path: Path) -> None:
    recipe = load_recipe("arm_pick_place")
    for apart, workers, count in ((False, 0, 1), (True, 0, 2), (True, 3, 4)):
        settings = replace(recipe.algorithm_settings, apart=apart, workers=workers)
        job = job_of(tmp_path / f"{count}", "run", replace(recipe, threads=2, algorithm_settings=settings))
        assert job.threads == 2 and job.processors == 2 * count


def test_a_training_of_a_generation_stops_at_its_end_and_is_done_then(tmp_path: Path) -> None:
    job = replace(short(tmp_path), until=0.5, begins=0.25)
    assert job.command()[-5:] == ["--no-view", "--until", "0.5", "--out", str(job.folder)]
    job.log.write_text(" 25%\n 40%\n")
    assert job.share() == pytest.approx(0.6)
    job.folder.mkdir()
    for figures, done in (('{"until": 0.25}', False), ('{"until": 0.5}', True), ('{"finished": true}', True)):
        (job.folder / "training.json").write_text(figures)
        assert (job.figures() is not None) is done
