"""N arms whose policy sees by cameras."""

from __future__ import annotations

from torch import Tensor

from rlstack.tasks.manipulator.camera_terms import GoalPlace
from rlstack.tasks.manipulator.environment import ArmEnvironment
from rlstack.tasks.manipulator.terms import DECIMETRES


class SeeingEnvironment(ArmEnvironment):
    """An :class:`ArmEnvironment` whose observation has the goal as a term of its own."""

    def relabelled(self, observation: Tensor, achieved: Tensor, desired: Tensor) -> Tensor:
        """Return observations (..., columns) as they would be with another goal, (..., 3) m.

        They may end before the pictures, which know nothing of goals.
        """
        (place,) = (term for term in self.pipeline.terms if isinstance(term, GoalPlace))
        seen = observation.clone()
        seen[..., self._goal_columns] = DECIMETRES * (desired - place.middle)
        return seen
