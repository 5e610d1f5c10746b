"""A sweep by ROS 2's launch: the same options as of the command."""

from __future__ import annotations

from pathlib import Path

import tyro

from rlstack.bringup.sweep.command import Sweep
from rlstack.bringup.sweep.system import sweep_system


def parsed(**given: object) -> Sweep:
    """Return the command that a launch file's arguments run."""
    (process,) = sweep_system(**given).processes  # type: ignore[arg-type]
    return tyro.cli(Sweep, args=list(process.arguments[1:]), config=(tyro.conf.FlagCreatePairsOff,))


def test_arguments_of_a_launch_file_become_the_commands_options() -> None:
    usual = parsed(recipe="base_navigation", vary=("learning_rate=log:1e-4:1e-2",))
    assert usual == Sweep("base_navigation", ("learning_rate=log:1e-4:1e-2",))
    found = parsed(
        vary=("learning_rate=log:1e-4:1e-2",),
        search="pb2",
        population=4,
        generations=5,
        figure="error_m",
        lower=True,
        constraint=("lost<=0.1", "margin.mass_scale>=1.3"),
        ray="local",
    )
    assert (found.search, found.population, found.generations, found.lower) == ("pb2", 4, 5, True)
    assert (found.figure, found.ray, found.constraint) == ("error_m", "local", ("lost<=0.1", "margin.mass_scale>=1.3"))
    assert parsed(resume="sweeps/a", trials=50, jobs=2) == Sweep(resume=Path("sweeps/a"), trials=50, jobs=2)
