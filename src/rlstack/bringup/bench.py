"""`rlstack bench`: measure simulation, training and inference on this machine, beside installed peer projects."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlstack.bringup.measured_process import measure_part, measure_training
from rlstack.errors import UserError
from rlstack.files import write_json
from rlstack.machine import installed_version, machine
from rlstack.verification.schedule import Part, Schedule

OnProgress = Callable[[str, int, int, float], None]
"""Takes the name of a part that begins, the number of parts that are done, that of all, and the time left, s."""

EXPECTED_S = {
    "simulator": 20.0,
    "environment": 8.0,
    "training": 36.0,
    "policy": 15.0,
    "crazyflow": 60.0,
    "stable-baselines3": 75.0,
    "foundation-policy": 5.0,
}
"""Wall time of each part; of training and stable-baselines3 as in docs/benchmarks.md, of the others about. What is
measured corrects them from the second part on."""

_QUICK_S = 5.0
"""The same of each part of a smoke test, about."""

RECIPE, PPO_RECIPE, TASK = "quadrotor_hover", "quadrotor_hover_ppo", "quadrotor_hover"

TARGET = 0.99
"""Training target: share of the held-out starts that stay within 0.1 m."""


@dataclass(frozen=True)
class Peer:
    """Another project, measured if installed.

    Args:
        module: Its module.
        packages: Its pip requirements, with the tested versions.
        purpose: What is measured.
    """

    module: str
    packages: str
    purpose: str


PEERS = {
    "crazyflow": Peer("crazyflow", "crazyflow==0.4.0", "its bare simulator"),
    "stable-baselines3": Peer("stable_baselines3", "stable-baselines3==2.9.2", "its PPO on our hover task"),
    "foundation-policy": Peer("foundation_policy", "foundation-policy==1.0.2", "the latency of RAPTOR's policy"),
}


@dataclass(frozen=True)
class Sizes:
    """Sizes of the measurements."""

    robots: int = 4096
    seconds: float = 0.5
    """Repetitions of each rate measurement."""
    repeats: int = 5
    flights: int = 64
    """Robots compared with a reference solution."""
    episodes: int = 1000
    """Held-out starts."""
    calls: int = 20_000
    """Timed policy steps."""
    peer_budget_cpu_s: float = 60.0
    """Training budget of a peer."""
    peer_robots: int | None = None
    """None: the recipe's."""
    train: tuple[str, ...] = ()
    """Changes to the recipe."""
    again: bool = True
    """Whether training runs a second time, on compiled kernels and with more evaluations."""


QUICK = Sizes(
    robots=256,
    seconds=0.01,
    repeats=2,
    flights=2,
    episodes=8,
    calls=200,
    peer_budget_cpu_s=0.5,
    peer_robots=64,
    train=("--steps", "3200", "--envs", "16", "--selection.episodes", "8"),
    again=False,
)
"""Sizes for a smoke test that takes seconds; the figures mean nothing."""

LOOKS = ("--selection.after", "0.1", "--selection.every", "0.1")
"""Evaluations of the second training run: after every tenth of its steps."""


def bench(
    *, seed: int = 0, device: str = "cpu", quick: bool = False, json: Path | None = None, on_progress: OnProgress
) -> dict[str, Any]:
    """Run all measurements, one process after the other, and return them as plain data.

    Args:
        seed: Seed of training.
        device: Device of simulation and training: ``cpu`` or a CUDA device.
        quick: Run a smoke test only.
        json: Rewritten after each part, so that an interrupted run keeps its results.
        on_progress: Called before each part, see :data:`OnProgress`.

    Raises:
        UserError: The device is missing, a training dependency is not installed, or the file cannot be written. A
            failing peer is reported and does not stop the run.
    """
    from rlstack.fused import check_device
    from rlstack.training.command import import_torch

    import_torch()
    check_device(device)
    if seed < 0:
        raise UserError(f"--seed {seed} is not allowed: give 0 or more.")
    if json is not None and json.is_dir():
        raise UserError(f"--json {json} is not allowed: it is a folder; name a file in it.")
    sizes, pip = QUICK if quick else Sizes(), f"{Path(sys.executable).name} -m pip install"
    installed = [name for name, peer in PEERS.items() if importlib.util.find_spec(peer.module) is not None]
    found: dict[str, Any] = {
        "machine": machine(device),
        "begun": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "quick": quick,
        "device": device,
        "seed": seed,
        "sizes": asdict(sizes),
        "peers": {
            name: {
                "installed": name in installed,
                "install": f"{pip} {peer.packages}",
                "purpose": peer.purpose,
            }
            for name, peer in PEERS.items()
        },
    }
    with tempfile.TemporaryDirectory(prefix="rlstack-bench-") as scratch:
        parts = _parts(sizes, seed, device, Path(scratch), found)
        peers = {name: part for name, part in _peer_parts(sizes, seed, device).items() if name in installed}
        together = {**parts, **peers}
        plan = [Part(name, min(EXPECTED_S[name], _QUICK_S) if quick else EXPECTED_S[name]) for name in together]
        schedule = Schedule(plan, lambda progress: None)
        for done, (name, part) in enumerate(together.items()):
            _write(json, found)
            schedule(name, 0, 1)
            on_progress(name, done, len(together), schedule.left_s)
            if name not in peers:
                found[name] = part()
                schedule(name, 1, 1)
                continue
            found["peers"][name]["version"] = installed_version(PEERS[name].packages.partition("==")[0])
            try:
                found["peers"][name]["figures"] = part()
            except UserError as error:
                found["peers"][name]["error"] = str(error)
            schedule(name, 1, 1)
    _write(json, found)
    return found


def _parts(sizes: Sizes, seed: int, device: str, scratch: Path, found: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    rates: dict[str, Any] = {"robots": sizes.robots, "seconds": sizes.seconds, "repeats": sizes.repeats}
    options = (*sizes.train, "--device", device)

    fresh = scratch / "kernels"
    cold = scratch / "kernels-training" if sizes.again else fresh  # compile twice only for the comparison

    def train(name: str, *more: str) -> dict[str, Any]:
        return measure_training(RECIPE, seed, scratch / name, (*options, *more), cold)

    def training() -> dict[str, Any]:
        cold = train("cold")
        warm = train("warm", *LOOKS) if sizes.again else None
        return {"cold": cold, "warm": warm, "target": target(warm) if warm else None}

    def policy() -> dict[str, Any]:
        file = found["training"]["cold"].pop("policy")
        (found["training"]["warm"] or {}).pop("policy", None)
        return measure_part("policy", file=file, episodes=sizes.episodes, calls=sizes.calls)

    return {
        "simulator": lambda: measure_part("simulator", fresh, **rates, device=device, flights=sizes.flights),
        "environment": lambda: measure_part("environment", fresh, task=TASK, **rates, device=device, seed=seed),
        "training": training,
        "policy": policy,
    }


def _peer_parts(sizes: Sizes, seed: int, device: str) -> dict[str, Callable[[], Any]]:
    rates: dict[str, Any] = {"robots": sizes.robots, "seconds": sizes.seconds, "repeats": sizes.repeats}
    learning: dict[str, Any] = {"budget_cpu_s": sizes.peer_budget_cpu_s, "episodes": sizes.episodes, "seed": seed}
    return {
        "crazyflow": lambda: measure_part("crazyflow", **rates, device=device, flights=sizes.flights),
        "stable-baselines3": lambda: measure_part(
            "stable-baselines3", recipe=PPO_RECIPE, **learning, envs=sizes.peer_robots
        ),
        "foundation-policy": lambda: measure_part("foundation-policy", calls=sizes.calls),
    }


def target(trained: dict[str, Any]) -> dict[str, float] | None:
    """Return the first evaluation of a run that met :data:`TARGET` without losing a robot; None if there is none."""
    met = [row for row in trained["evaluations"] if row["within_0_1"] >= TARGET and row["lost"] == 0.0]
    return met[0] if met else None


def _write(json: Path | None, found: dict[str, Any]) -> None:
    if json is not None:
        write_json(json, found)
