#!/usr/bin/env python3
"""What each message and stage costs of a training that is spread over processes, and of a sweep's trial.

Steps, blocks of steps, weights, storing, sampling and updates of a recipe for arms; a pipe between processes; calls
of a Ray actor, empty and with a block; Ray's tasks; what one training of a sweep writes. Times are CPU time where one
process works, the least of many, so that other work on the machine counts little; wall time where two answer each
other, the median of many.

    python benchmarks/message_costs.py [--recipe arm_pick_place] [--workers 2] [--ray] [--trials 1000]
        [--trial FOLDER] [--json FILE]

``--trial`` is the folder of a sweep's trial, whose files are counted. The figures are what
``benchmarks/scale_simulation.py`` takes.
"""

from __future__ import annotations

import argparse
import io
import json
import pickle
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import torch

from rlstack.bringup.bench import machine
from rlstack.bringup.sweep.space import read_ranges
from rlstack.bringup.sweep.study import Study
from rlstack.bringup.sweep.training_job import Job
from rlstack.training import run
from rlstack.training.command import parse_recipe
from rlstack.training.linked_process import receive, send
from rlstack.training.recipe import load_recipe, recipe_to_yaml
from rlstack.training.replay_journal import HowToAct, write
from rlstack.training.rollout_worker import Block, Order, RolloutWorker, WorkerPlan


def cost(what: Callable[[], Any], times: int, clock: Callable[[], float] = time.process_time) -> float:
    """Return the least CPU time of a call, or the median of another clock's, microseconds."""
    found = []
    for _ in range(times):
        begin = clock()
        what()
        found.append(clock() - begin)
    return 1e6 * (min(found) if clock is time.process_time else statistics.median(found))


def of_training(words: list[str], workers: int) -> dict[str, float]:
    """Return what the parts of a training cost."""
    recipe = parse_recipe(words[0], words[1:]).recipe
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        folder.mkdir()
        settings = replace(recipe.algorithm_settings, apart=True, workers=workers)
        text = recipe_to_yaml(replace(recipe, algorithm_settings=settings))
        robots = recipe.envs // workers
        begin = time.process_time()
        worker = RolloutWorker(WorkerPlan(text, robots, 1, 1))
        found["set up a worker's robots, CPU-s"] = time.process_time() - begin
        mine = run._Run(recipe, folder)  # in one process: what is measured here are its parts
        algorithm: Any = mine.algorithm
        algorithm.open(folder)
        algorithm.iterate(0.0)
        algorithm.iterate(0.0)
        actor = algorithm.learner.actor.state_dict()
        order = Order(1, actor, HowToAct(10**6, 0.5, True))
        blocks: list[Block] = []

        def act() -> None:
            came = worker.block(order)
            assert isinstance(came, Block)
            blocks.append(came)

        act()
        steps = robots * settings.rollout
        found["steps of a block"] = steps
        found["act, us a step"] = cost(act, 20) / steps
        sent = pickle.dumps(blocks[-1], pickle.HIGHEST_PROTOCOL)
        found["block, bytes a step"] = len(sent) / steps
        found["pickle a block, us"] = cost(lambda: pickle.dumps(blocks[-1], pickle.HIGHEST_PROTOCOL), 50)
        found["unpickle a block, us"] = cost(lambda: pickle.loads(sent), 50)
        buffer = algorithm._experience.buffer
        entries = [one for one in blocks[-1].made.written if one.made is not None]
        bare = [
            one._replace(made={n: a for n, a in (one.made or {}).items() if n in buffer.spec.transitions})
            for one in entries
        ]
        found["store, us a step"] = cost(lambda: write(bare, {"replay": buffer}, 0), 50) / steps
        weights = pickle.dumps(actor, pickle.HIGHEST_PROTOCOL)
        found["weights, bytes"] = len(weights)
        found["pickle weights, us"] = cost(lambda: pickle.dumps(actor, pickle.HIGHEST_PROTOCOL), 50)
        found["unpickle and load weights, us"] = cost(
            lambda: algorithm.learner.actor.load_state_dict(pickle.loads(weights)),
            50,
        )
        saved = io.BytesIO()
        torch.save(algorithm.learner.state_dict(), saved)
        found["learner's whole state, bytes"] = saved.tell()
        found["sample a batch, us"] = cost(lambda: algorithm._batches(16), 30) / 16
        batch = algorithm._batches(1)[0]
        found["update critics, us"] = cost(lambda: algorithm.learner.update_critics(batch), 200)
        found["update policy, us"] = cost(lambda: algorithm.learner.update_actor(batch, settings.cloning_at(0.5)), 200)
        each = (
            found["sample a batch, us"]
            + found["update critics, us"]
            + found["update policy, us"] / settings.actor_every
        )
        found["learn, us a step"] = settings.updates * each
        found["pipe, there and back with a block, us"] = by_pipe(blocks[-1])
        found["block"] = len(sent)
    return found


def by_pipe(block: Block) -> float:
    """Return the wall time of an order and the block that answers it between two threads' ends of a pipe."""
    one, other = Pipe()

    def answer() -> None:
        while receive(other) is not None:
            send(other, block)

    thread = threading.Thread(target=answer)
    thread.start()

    def ask() -> None:
        send(one, 1)
        receive(one)

    found = cost(ask, 100, time.perf_counter)
    send(one, None)
    thread.join()
    return found


def of_ray(size: int) -> dict[str, float]:
    """Return what Ray's messages cost on this machine; a block has ``size`` bytes."""
    from rlstack.ray_cluster import LOCAL, connected

    ray = connected(LOCAL, 2)
    found: dict[str, float] = {}

    class Answers:
        def __init__(self) -> None:
            self.block = bytes(size)

        def nothing(self) -> None:
            return None

        def some(self) -> bytes:
            return self.block

    try:
        begin = time.perf_counter()
        actor = ray.remote(num_cpus=1)(Answers).remote()
        ray.get(actor.nothing.remote())
        found["Ray: start an actor, ms"] = 1e3 * (time.perf_counter() - begin)
        found["Ray: call an actor, us"] = cost(lambda: ray.get(actor.nothing.remote()), 300, time.perf_counter)
        found["Ray: call an actor for a block, us"] = cost(lambda: ray.get(actor.some.remote()), 300, time.perf_counter)
        found["Ray: of the caller's CPU, us"] = cost(lambda: ray.get(actor.some.remote()), 300)
        begin = time.perf_counter()
        ray.get([actor.nothing.remote() for _ in range(2000)])
        found["Ray: calls a second, sent together"] = 2000 / (time.perf_counter() - begin)
        task = ray.remote(num_cpus=1)(_nothing)
        ray.get(task.remote())
        found["Ray: a task, us"] = cost(lambda: ray.get(task.remote()), 200, time.perf_counter)
        weights = bytes(100_000)
        found["Ray: put 100 kB, us"] = cost(lambda: ray.put(weights), 200, time.perf_counter)
    finally:
        ray.shutdown()
    return found


def _nothing() -> None:
    return None


def of_sweep(trials: int) -> dict[str, float]:
    """Return what a sweep's own process spends on a trial's draw and outcome, after so many, and on those that run."""
    ranges = read_ranges(("learning_rate=log:1e-4:1e-2", "envs=8,16"), load_recipe("quadrotor_hover"))
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        job = Job(Path(name) / "run.yaml", Path(name) / "run", 1)
        job.log.write_text("  2%  0.00M steps, 0k/s, return -20.00/s, lost 0.0%, held-out success -, 25:18 left\n" * 6)
        found["sweep: look at a running training, us"] = cost(job.share, 500)
        for search in ("random", "tpe"):
            file = Path(name) / search
            study, chance = Study(file, ranges, search, "none", False, 0), random.Random(0)  # type: ignore[arg-type]
            times = []
            for number in range(trials):
                begin = time.process_time()
                study.values(number)
                study.tell(number, chance.random())
                times.append(time.process_time() - begin)
            last = times[-trials // 5 :]
            found[f"sweep: draw and tell, {search}, after {trials} trials, us"] = 1e6 * statistics.median(last)
            found[f"sweep: study, {search}, bytes a trial"] = file.stat().st_size / trials
    return found


def of_trial(folder: Path) -> dict[str, float]:
    """Return what one trial of a sweep left on disk, and what its training took to set up."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    figures = [json.loads(path.read_text()) for path in folder.rglob("training.json")]
    found: dict[str, float] = {"trial: files": len(files), "trial: bytes": sum(path.stat().st_size for path in files)}
    if figures:
        found["trial: CPU-s until the first step"] = statistics.mean(one["setup_cpu_seconds"] for one in figures)
        found["trial: CPU-s of the training"] = statistics.mean(one["cpu_seconds"] for one in figures)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="arm_pick_place")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--trials", type=int, default=1000, help="of a sweep, whose draws are timed; 0: none")
    parser.add_argument("--trial", type=Path)
    parser.add_argument("--json", type=Path)
    options, more = parser.parse_known_args()
    found = of_training([options.recipe, *more], options.workers)
    size = int(found.pop("block"))
    if options.ray:
        found |= of_ray(size)
    if options.trials:
        found |= of_sweep(options.trials)
    if options.trial is not None:
        found |= of_trial(options.trial)
    print(f"{options.recipe}, {machine()}")
    for name, number in found.items():
        print(f"{name:44}{number:14,.6g}")
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), **found}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
