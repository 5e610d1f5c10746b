"""Inputs of a policy's step that no message holds: a path as seen at the step, ages of pictures, people moved on."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlstack.arrays import Array
from rlstack.interfaces.image_reader import age_s
from rlstack.interfaces.path_messages import GoalPath
from rlstack.interfaces.people_messages import extrapolated
from rlstack.interfaces.topics import GOAL_PATH
from rlstack.policies import Contract
from rlstack.policies.robot_envelope import EXTRAPOLATED


class StepInputs:
    """Completes the newest values of a policy's topics to the inputs of a step.

    Late people are moved on by velocity times age to the time of the observation that the step answers.

    Args:
        contract: The policy's contract.
    """

    def __init__(self, contract: Contract) -> None:
        inputs = contract.inputs
        named = {port.name: port.topic for port in inputs}
        pictures = {port.topic for port in inputs if port.picture is not None}
        self._path_names = [port.name for port in inputs if port.topic == GOAL_PATH]
        self._moved_on = [(n, by, named[n]) for n, by in EXTRAPOLATED.items() if n in named and by in named]
        self._ages = [(p.name, p.topic) for p in inputs if p.topic in pictures and p.picture is None]

    def complete(
        self, values: dict[str, Array], stamps: Mapping[str, int], path: GoalPath | None, stamp_ns: int
    ) -> Mapping[str, Array]:
        """Return the inputs of a step; path and ages are updated in ``values``.

        Args:
            values: The newest value of each signal.
            stamps: Stamp of each topic's newest message, ns.
            path: The path that is followed, if there is one.
            stamp_ns: Stamp of the observation that the step answers.
        """
        if path is not None and self._path_names:
            seen = path.signals(stamp_ns)
            values.update((name, seen[name]) for name in self._path_names)
        values.update((name, np.array([age_s(stamp_ns, stamps[topic])])) for name, topic in self._ages)
        if not self._moved_on:
            return values
        present = {
            name: extrapolated(values[name], values[velocity], age_s(stamp_ns, stamps[topic]))
            for name, velocity, topic in self._moved_on
        }
        return {**values, **present}
