"""crazyflow (JAX) as a bare simulator: rotor commands in, rigid body and rotor lag, as our batch simulator's step."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from typing import Any

# One core, as everything else here. JAX starts a thread for each available core, and busy-waits on two.
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import jax
import jax.numpy as jnp
import numpy as np
from crazyflow.control import Control
from crazyflow.dynamics import Dynamics
from crazyflow.sim import Sim
from crazyflow.sim.integration import Integrator
from crazyflow.sim.sim import rotor_vel_limits

from rlstack.training.benchmarks.accuracy import KINDS, PERIODS, departure
from rlstack.training.benchmarks.timing import rate

DRONE = "cf2x_L250"
"""crazyflow's Crazyflie 2.x."""

RATE_HZ = 100
"""Rate of commands, as in our task."""

INTEGRATORS = {"RK4, 100 Hz": ("rk4", 100), "Euler, 500 Hz (its default)": ("euler", 500)}
"""Measured integrators: our own scheme (one RK4 step per control period), and crazyflow's default."""

FINE_HZ = 5000


def measure(robots: int, seconds: float, repeats: int, device: str, flights: int) -> dict[str, Any]:
    """Return by integrator the rate in control periods of 10 ms, ``first_step_s`` and the departure.

    The departure is from its own dynamics in float64 with fine RK4 steps: its Crazyflie is not quite ours (other
    inertia, rotors that slow down otherwise), so errors are comparable in size and not digit by digit.

    Args:
        robots: Number of robots in parallel.
        seconds: Duration of each measurement.
        repeats: Number of measurements.
        device: ``cpu`` or a CUDA device.
        flights: Flights of random commands to compare with the fine solution; 0: none.
    """
    where = "cpu" if device == "cpu" else "gpu"
    found: dict[str, Any] = {}
    for name, (integrator, freq) in INTEGRATORS.items():
        begin = time.perf_counter()
        sim = simulator(robots, integrator, freq, where)
        command = jnp.full((robots, 1, 4), hover_rpm(sim))
        step, wait = stepper(sim, command, freq // RATE_HZ)
        step()
        wait()
        first = time.perf_counter() - begin
        found[name] = {"first_step_s": first, **rate(step, robots, seconds, repeats, wait)}
    if flights:
        for kind in KINDS:
            with jax.enable_x64(True):
                fine = fly(kind, flights, "rk4", FINE_HZ, where)
            for name, (integrator, freq) in INTEGRATORS.items():
                pairs = zip(fly(kind, flights, integrator, freq, where), fine)
                found[name].setdefault("departure", {})[kind] = departure((*one, *other) for one, other in pairs)
    return found


def simulator(count: int, integrator: str, freq: int, device: str) -> Any:
    """Return ``count`` worlds of one drone each, at rest at the origin with their rotors at hover speed, no floor."""
    sim = Sim(
        n_worlds=count,
        drone=DRONE,
        dynamics=Dynamics.first_principles,
        control=Control.rotor_vel,
        integrator=Integrator(integrator),
        freq=freq,
        device=device,
    )
    sim.step_pipeline.pop("clip_floor_pos")
    sim.build_step_fn()
    states = sim.data.states
    sim.data = sim.data.replace(states=states.replace(rotor_vel=jnp.full_like(states.rotor_vel, hover_rpm(sim))))
    return sim


def stepper(sim: Any, command: Any, steps: int) -> tuple[Callable[[], None], Callable[[], object]]:
    """Return a function for one control period (command, then ``steps`` steps), and one that waits for it."""

    def step() -> None:
        sim.rotor_vel_control(command)
        sim.step(steps)

    return step, lambda: jax.block_until_ready(sim.data.states.pos)


def hover_rpm(sim: Any) -> float:
    """Return the rotor speed at which thrust is weight: the root of its quadratic."""
    p = sim.data.params
    c0, c1, c2 = (float(c) for c in np.asarray(p.rpm2thrust).ravel()[:3])
    weight = float(np.asarray(p.mass).ravel()[0]) * abs(float(np.asarray(p.gravity_vec).ravel()[2]))
    return (-c1 + math.sqrt(c1 * c1 - 4.0 * c2 * (c0 - weight / 4.0))) / (2.0 * c2)


def fly(kind: str, flights: int, integrator: str, freq: int, device: str) -> list[tuple[Any, Any]]:
    """Return position and orientation after each control period under random commands."""
    sim = simulator(flights, integrator, freq, device)
    low, high = KINDS[kind]
    least, most = rotor_vel_limits(Dynamics.first_principles, sim.drone)
    hover = hover_rpm(sim)
    commands = np.random.default_rng(0).uniform(
        max(low * hover, least), min(high * hover, most), (PERIODS, flights, 1, 4)
    )
    flown = []
    for command in commands.astype(np.float32):
        sim.rotor_vel_control(jnp.asarray(command, dtype=sim.data.controls.rotor_vel.dtype))
        sim.step(freq // RATE_HZ)
        states = sim.data.states
        flown.append((np.asarray(states.pos[:, 0], np.float64), np.asarray(states.quat[:, 0], np.float64)))
    return flown
