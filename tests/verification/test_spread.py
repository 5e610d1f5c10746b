"""Trials and margins that run elsewhere, such as on a Ray cluster, have the figures of those that run here."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from rlstack.bringup.ray_spread import _told, spread_over
from rlstack.errors import UserError
from rlstack.policies import load_policy
from rlstack.policies.released import find_policy
from rlstack.robots import load_robot
from rlstack.tasks import TASKS
from rlstack.verification import reality_runner
from rlstack.verification.parallel import run_trials
from rlstack.verification.reality import Point
from rlstack.verification.reality_runner import RealityGrid
from rlstack.verification.request import Request


class Elsewhere:
    """Processes elsewhere: what they are given and give is pickled, and the last ones are done first."""

    count = 3

    def __init__(self) -> None:
        self.calls = 0

    def each(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        self.calls += len(calls)
        for number in reversed(range(len(calls))):
            refused, found = _told(*pickle.loads(pickle.dumps((function, calls[number]))))
            if refused:
                raise UserError(found)
            yield number, pickle.loads(pickle.dumps(found))


def evaluated(verifier: Any, apply: Any, who: str | None, value: float = 0.0) -> Point:
    """Return results that depend on the driver and the value alone, in place of flights."""
    return Point(value, 1.0 if abs(value) < (1.45 if who is None else 1.25) else 0.5, {"error_m": value / 7.0})


def test_margins_are_the_same_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reality_runner, "_evaluated", evaluated)
    robot = load_robot("crazyflie")
    loaded = load_policy(find_policy("quadrotor_hover"), robot=robot)
    task, margins = TASKS.load("quadrotor_hover")(), ("mass_scale", "observation_delay_s")
    request = Request.of_policy(loaded, robot, "crazyflie", task=task, episodes=2, seed=5, margins=margins)
    spread = Elsewhere()
    here, there = RealityGrid(request), RealityGrid(replace(request, spread=spread))
    for grid in (here, there):
        grid.run(workers=1)
    found, expected = there.result(), here.result()
    assert found is not None and expected is not None
    assert found.to_json() == expected.to_json() and found.axes[1].policy.margin == 1.35
    assert spread.calls == 2 + 4, "the policy and a baseline, nominal and on both axes"


@dataclass(frozen=True)
class Record:
    numbers: tuple[int, ...]
    wall_s: float = 0.0

    @classmethod
    def joined(cls, parts: Sequence[Record], wall_s: float) -> Record:
        return cls(tuple(number for part in parts for number in part.numbers), wall_s)


def doubled(trials: Sequence[int], first: int, on_progress: Any) -> Record:
    """Return the trials' numbers, doubled."""
    if trials[-1] > 100:
        raise UserError("it is too far")
    return Record(tuple(2 * one for one in trials))


def test_shares_of_trials_come_back_in_their_order() -> None:
    told: list[tuple[int, int]] = []
    found: Any = run_trials(
        doubled,  # type: ignore[type-var]
        list(range(20)),
        spread=Elsewhere(),
        on_progress=lambda done, count: told.append((done, count)),
    )
    assert found.numbers == tuple(range(0, 40, 2)) and [count for _, count in told] == [20] * 3 and told[-1][0] == 20
    with pytest.raises(UserError, match="it is too far"):
        run_trials(doubled, [7, 200], spread=Elsewhere())  # type: ignore[type-var]


def test_without_an_address_all_runs_here() -> None:
    with spread_over("") as spread:
        assert spread is None
