"""Demonstrations by a policy file: its joint commands become tool motions."""

from __future__ import annotations

from rlstack.demonstrations.recording import Choice
from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.tasks.manipulator.action_recovery import action_of
from rlstack.tasks.manipulator.demonstration import DemonstrationEnvironment
from rlstack.tasks.manipulator.task import ArmTask
from rlstack.verification.manipulation import check_fits
from rlstack.verification.runner import Steppable, commanded, input_names

_OFF = 1e-3
"""Deviation, rad or m, beyond which a command is no motion of this task: far above rounding, a fiftieth of a step."""


class PolicyDemonstrator:
    """Demonstrates with a policy; see :data:`rlstack.demonstrations.recording.Decide`.

    Args:
        policy: The policy, loaded for the robot.
        task: The task with the settings of the policy's training.
        robot: The arm.

    Raises:
        UserError: The policy is for another robot or rate, or its inputs or outputs differ from the task's.
    """

    def __init__(self, policy: Steppable, task: ArmTask, robot: Manipulator) -> None:
        check_fits(policy, task, robot)
        self._policy, self._inputs = policy, input_names(policy)
        self._next = 0

    def __call__(self, station: DemonstrationEnvironment) -> Choice:
        """Return the policy's action for the observations; it resets with each episode, and after an intervention.

        Raises:
            UserError: Its command is not finite, or not a motion of the task, for example with other settings.
        """
        if station.steps == 0 or station.steps != self._next:
            self._policy.reset(1)
        self._next = station.steps + 1
        seen = station.senses()
        sensed = {name: seen[name][None] for name in self._inputs}
        command = commanded(self._policy, sensed, station.steps / station.task.rate_hz)[0]
        action, off = action_of(station, command)
        if station.steps == 0 and off > _OFF:  # after an intervention the arm is elsewhere than the policy assumes
            raise UserError(
                f"{self._policy.path} commands no tool motion of this task ({off:.2g} rad or m off):"
                " it was trained with other settings, or not by rlstack train."
            )
        return Choice(action)
