#!/usr/bin/env python3
"""Where a spread training and a sweep saturate, by the costs that ``benchmarks/message_costs.py`` measured.

A discrete-event simulation of rollout workers: each acts for a block (times vary by a fifth), sends it over the
learner's network to the process that stores it, one block after the other, and gets its next order unless the learner
is ``lead`` iterations behind; the learner takes its time for each stored step. And, as plain arithmetic, of a sweep:
trainings on all cores, one process that draws, tells and compares, one file system.

    python benchmarks/scale_simulation.py [--costs FILE] [--act-us 180] [--learn-us 470] [--robots 32] [--lead 4]
        [--cores 1 2 4 16 100 1000 10000] [--trial-s 600] [--driver-s 0.07] [--look-us 26]

Without ``--costs`` and options, the costs are those in docs/scale.md.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Costs:
    """What a training's parts cost.

    Args:
        act_s: A worker's time for a step of one of its robots.
        learn_s: The learner's for a step.
        block: Steps of a block.
        store_s: Time of the run's process for a block: receive, store, give the next order.
        bytes: Of a block and the weights that answer it.
        network: Bytes per second of the learner's machine.
        lead: Iterations by which robots may be ahead.
    """

    act_s: float = 180e-6
    learn_s: float = 470e-6
    block: int = 256
    store_s: float = 2.5e-3
    bytes: float = 75_000.0 + 103_000.0
    network: float = 1.25e9
    lead: int = 4


@dataclass(frozen=True)
class Load:
    """What a simulation found: steps per second, and which share of the time each part was busy."""

    rate: float
    acting: float
    network: float
    storing: float
    learning: float

    @property
    def full(self) -> str:
        """Name of what is busy most."""
        shares = {"workers": self.acting, "network": self.network, "storing": self.storing, "learner": self.learning}
        return max(shares, key=lambda name: shares[name])


def simulated(costs: Costs, workers: int, seed: int = 0) -> Load:
    """Return the load of a training with so many workers, each on a core, after it has settled."""
    chance = random.Random(seed)
    blocks = max(4000, 24 * workers)
    ahead = costs.lead * workers * costs.block
    events: list[tuple[float, int]] = []  # when a worker's block is ready, and whose it is
    for k in range(workers):
        heapq.heappush(events, (chance.random() * costs.act_s * costs.block, k))
    link = store = learned = acted = began = 0.0  # when network and process are free; steps learned
    stored, at, counted, first_learned = 0, 0.0, 0, 0.0
    busy = {"network": 0.0, "storing": 0.0}
    waiting: list[int] = []
    for number in range(blocks):
        now, worker = heapq.heappop(events)
        sent = costs.bytes / costs.network
        link = max(link, now) + sent
        done = max(store, link) + costs.store_s
        store = done
        learned = min(stored, learned + (done - at) / costs.learn_s)
        at, stored = done, stored + costs.block
        busy["network"] += sent
        busy["storing"] += costs.store_s
        waiting.append(worker)
        if number == 2 * blocks // 3:  # the robots are as far ahead as they may be: from here on it counts
            began, counted, first_learned, acted = done, 0, learned, 0.0
            busy = dict.fromkeys(busy, 0.0)
        counted += costs.block
        begin = done
        if stored - learned > ahead:  # the learner is behind: nobody begins before it has caught up
            begin = done + (stored - learned - ahead) * costs.learn_s
        for one in waiting:
            took = costs.act_s * costs.block * chance.uniform(0.8, 1.2)
            acted += took
            heapq.heappush(events, (begin + took, one))
        waiting.clear()
    spent = max(at - began, 1e-12)
    return Load(
        counted / spent,
        min(acted / spent / workers, 1.0),
        busy["network"] / spent,
        busy["storing"] / spent,
        min((learned - first_learned) * costs.learn_s / spent, 1.0),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--costs", type=Path, help="what message_costs.py wrote with --json")
    parser.add_argument("--act-us", type=float)
    parser.add_argument("--learn-us", type=float)
    parser.add_argument("--robots", type=int, default=32, help="of a worker; a block has 8 steps of each")
    parser.add_argument("--lead", type=int, default=4)
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2, 4, 16, 100, 1000, 10_000])
    parser.add_argument("--trial-s", type=float, default=600.0, help="CPU time of a sweep's training")
    parser.add_argument("--trial-files", type=float, default=10.0)
    parser.add_argument("--trial-bytes", type=float, default=4.4e6)
    parser.add_argument("--driver-s", type=float, default=0.07, help="CPU time of the sweep's own process for a trial")
    parser.add_argument("--look-us", type=float, default=26.0, help="and for each running training in a second")
    options = parser.parse_args()
    costs = Costs(block=8 * options.robots, lead=options.lead)
    if options.costs is not None:
        told = json.loads(options.costs.read_text())
        size = told["block, bytes a step"] * costs.block + told["weights, bytes"]
        store = told["unpickle a block, us"] + told["store, us a step"] * costs.block
        store += told.get("Ray: call an actor, us", told["pickle weights, us"])
        costs = replace(
            costs,
            act_s=1e-6 * told["act, us a step"],
            learn_s=1e-6 * told["learn, us a step"],
            bytes=size,
            store_s=1e-6 * store,
        )
    if options.act_us is not None:
        costs = replace(costs, act_s=1e-6 * options.act_us)
    if options.learn_us is not None:
        costs = replace(costs, learn_s=1e-6 * options.learn_us)
    print(f"Rollout workers: {costs}")
    print(f"{'workers':>8}{'steps/s':>12}{'acting':>8}{'network':>9}{'storing':>9}{'learning':>9}  full")
    for workers in options.cores:
        load = simulated(costs, workers)
        shares = (load.acting, load.network, load.storing, load.learning)
        print(f"{workers:8}{load.rate:12,.0f}" + "".join(f"{share:9.0%}" for share in shares) + f"  {load.full}")
    ends = {"learner": 1.0 / costs.learn_s, "storing": costs.block / costs.store_s}
    ends |= {"network": costs.block * costs.network / costs.bytes}
    for name, rate in ends.items():
        print(f"{name}: full at {rate:,.0f} steps a second, {rate * costs.act_s:,.1f} workers")
    print(
        f"\nSweep: trainings of {options.trial_s:g} CPU-s, {options.driver_s:g} CPU-s of its own process for each,"
        f" {options.look_us:g} us a second for each that runs"
    )
    print(f"{'cores':>8}{'trials/s':>12}{'own process':>13}{'files/s':>9}{'MB/s':>8}")
    for cores in options.cores:
        rate = cores / options.trial_s
        files, size = rate * options.trial_files, rate * options.trial_bytes / 1e6
        own = rate * options.driver_s + cores * 1e-6 * options.look_us
        print(f"{cores:8}{rate:12.3g}{own:13.1%}{files:9.3g}{size:8.3g}")
    full = 1.0 / (options.driver_s / options.trial_s + 1e-6 * options.look_us)
    print(f"Its own process is full at {full:,.0f} cores.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
