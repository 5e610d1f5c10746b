"""The actions that are still to be carried out, from chunks that overlap."""

from __future__ import annotations

from collections.abc import Sequence

from rlstack.arrays import Array
from rlstack.policies.served.actions import TimedAction


class ActionQueue:
    """Actions by step. A step passes when its action is taken: while there is none, the robot stands still.

    Args:
        share: Share of the newer chunk where two have an action for the same step.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._actions: dict[int, Array] = {}
        self.step = 0
        """The next step."""

    def __len__(self) -> int:
        return len(self._actions)

    def clear(self) -> None:
        """Forget all actions; steps count on, so that late answers to earlier ones are told apart."""
        self._actions.clear()

    def add(self, chunk: Sequence[TimedAction]) -> int:
        """Add a chunk's actions for steps to come; return how many that were."""
        kept = {one.timestep: one.action for one in chunk if one.timestep >= self.step}
        for step, action in kept.items():
            before = self._actions.get(step)
            kept[step] = action if before is None else before + self._share * (action - before)
        self._actions = kept  # what an older chunk has beyond the newer one is outdated
        return len(kept)

    def take(self) -> Array | None:
        """Return the action of the next step, after which that has passed; None: there is none."""
        action = self._actions.pop(self.step, None)
        if action is not None:
            self.step += 1
        return action
