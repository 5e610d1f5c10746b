"""Every state that a guard can reach: all sequences of events, up to states that no longer differ in what follows."""

from __future__ import annotations

import io
import math
import pickle
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from rlstack.guard import CommonMode, Decision, Mode


class Snapshot(pickle.Pickler):
    """A state to return to: by pickle, which takes a fraction of the time of ``copy.deepcopy``.

    Args:
        state: What is copied.
        kept: Parts that never change, which all copies share; functions are shared, too.
    """

    def __init__(self, state: Any, kept: Sequence[Any]) -> None:
        self._written = io.BytesIO()
        super().__init__(self._written, pickle.HIGHEST_PROTOCOL)
        self._kept = list(kept)
        self._index = {id(one): k for k, one in enumerate(kept)}
        self.dump(state)

    def persistent_id(self, obj: Any) -> int | None:
        if isinstance(obj, FunctionType) and id(obj) not in self._index:
            self._index[id(obj)] = len(self._kept)
            self._kept.append(obj)
        return self._index.get(id(obj))

    def copy(self) -> Any:
        self._written.seek(0)
        reader = _Reader(self._written)
        reader.kept = self._kept
        return reader.load()


class _Reader(pickle.Unpickler):
    kept: Sequence[Any]

    def persistent_load(self, pid: int) -> Any:
        return self.kept[pid]


@dataclass
class World:
    """A guard, the time, and what it has published; copied for each event that is tried.

    Args:
        guard: The guard.
        check: Called with the world and each published command; raises if it is beyond a limit.
        look: Returns more of the guard's state than every guard has.
    """

    guard: Any
    check: Callable[[World, np.ndarray], None]
    look: Callable[[Any], Hashable] = lambda guard: ()
    beside: Callable[[Any, float], Any] = lambda guard, t: None
    """What the guard receives with each observation: a scan, joint states."""
    t: float = 0.0
    sent: np.ndarray | None = None
    sent_t: float = -math.inf
    seen: set[tuple[Mode, Mode]] = field(default_factory=set)
    """Changes of mode."""

    @property
    def period_s(self) -> float:
        return self.guard.config.period_s

    def snapshot(self) -> Snapshot:
        guard = self.guard
        kept = (guard.robot, guard.config, getattr(guard, "body", None), self.check, self.look, self.beside)
        return Snapshot(self, kept)

    def do(self, event: Callable[[Any], Any]) -> None:
        """Pass an event to the guard and judge its decision."""
        before = self.guard.mode
        decision = event(self.guard)
        after = self.guard.mode
        if before is not after:
            self.seen.add((before, after))
        if not isinstance(decision, Decision):
            return
        assert decision.mode is after
        if after.role == "off":
            assert decision.command is None or not decision.command.any()
        elif decision.command is not None:
            assert np.isfinite(decision.command).all()
            self.check(self, decision.command)
        if decision.command is not None:
            self.sent, self.sent_t = decision.command, self.t

    @property
    def key(self) -> Hashable:
        """The state as far as it decides what follows."""
        guard, t, config = self.guard, self.guard._clock.elapsed_s, self.guard.config
        monitor = guard._monitor
        return (
            guard.mode,
            guard._may_return,
            guard._restart_due,
            guard.stopped_unseen,
            bool(guard.battery.critical),
            monitor.fresh(t),
            monitor.good_for_s(t) >= config.recover_after_s,
            guard._seen is None,
            t - guard._seen_t > config.observation_timeout_s,
            t - guard._accepted_t > config.staleness_s,
            self.look(guard),
        )


def explore(start: World, events: dict[str, Callable[[World], None]], most: int = 2000) -> set[tuple[Mode, Mode]]:
    """Try every event in every state that is reachable; return the changes of mode.

    Fails if there are more than ``most`` states, as then they do not close.
    """
    waiting, known = deque([(start, ())]), {start.key}
    seen: set[tuple[Mode, Mode]] = set()
    while waiting:
        world, path = waiting.popleft()
        snapshot = world.snapshot()
        _no_command_stands(snapshot.copy(), path)
        for name, event in events.items():
            tried = snapshot.copy()
            try:
                event(tried)
            except AssertionError as error:
                raise AssertionError(f"after {[*path, name]}: {error}") from error
            seen |= tried.seen
            if tried.key not in known:
                known.add(tried.key)
                assert len(known) <= most, f"{len(known)} states, and more: {tried.key} after {[*path, name]}"
                waiting.append((tried, (*path, name)))
    return seen


def _no_command_stands(quiet: World, path: tuple[str, ...]) -> None:
    """With neither observations nor commands an armed guard goes on commanding, or switches the robot off."""
    config = quiet.guard.config
    longest = max(config.observation_timeout_s, config.staleness_s) + 2.0 * config.period_s
    quiet.sent_t = quiet.t
    for _ in range(round(3.0 * longest / config.period_s)):
        quiet.t += config.period_s
        quiet.do(lambda guard: guard.on_tick(quiet.t))
        if quiet.guard.mode.role == "off":
            return
        assert quiet.t - quiet.sent_t <= longest, f"the last command stands after {list(path)}"


def requests(signals: Any, command: Any) -> dict[str, Callable[[World], None]]:
    """Return the events that every guard has, besides observations and commands, of which usual ones are given."""

    def battery(world: World) -> None:
        world.do(lambda guard: guard.on_battery(world.t, 0.05, math.nan))
        run(world, world.guard.config.battery_confirm_s, signals, command)
        world.do(lambda guard: guard.on_battery(world.t, 0.05, math.nan))
        run(world, world.period_s, signals, command)

    return {
        "arm": lambda world: world.do(lambda guard: guard.arm(world.t)),
        "disarm": lambda world: world.do(lambda guard: guard.disarm("asked")),
        "estop": lambda world: world.do(lambda guard: guard.estop("asked")),
        "clear": lambda world: world.do(lambda guard: guard.clear_estop()),
        "end": lambda world: world.do(lambda guard: guard.end(world.t, "Ctrl-C")),
        "fault": lambda world: world.do(lambda guard: guard.on_fault(world.t, "two publishers", "Stop one.")),
        "policy missing": lambda world: world.do(lambda guard: guard.policy_missing(world.t)),
        "charged": lambda world: world.do(lambda guard: guard.on_battery(world.t, 1.0, math.nan)),
        "battery": battery,
    }


def run(world: World, seconds: float, signals: Any, command: Any, **how: Any) -> None:
    """Observe, command and tick for some time; None: without observations, or commands."""
    for k in range(max(1, round(seconds / world.period_s))):
        world.t += world.period_s
        if signals is not None:
            world.do(lambda guard: world.beside(guard, world.t))
            observe = partial(world.guard.on_observation, world.t, world.t, signals, **(how if k == 0 else {}))
            world.do(lambda guard, observe=observe: observe())
        if command is not None:
            world.do(lambda guard: guard.on_policy_command(world.t, world.t, command))
        world.do(lambda guard: guard.on_tick(world.t))


def declared(guard: Any) -> set[tuple[Mode, Mode]]:
    """Return the changes of mode that a guard declares."""
    return {(transition.source, transition.target) for transition in type(guard).transitions()}


__all__ = ["CommonMode", "World", "declared", "explore", "requests", "run"]
