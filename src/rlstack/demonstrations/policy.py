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
"""rad or m off by which a command is no motion of this task: far beyond rounding, a fiftieth of what a step may be."""


class PolicyDemonstrator:
    """See :data:`rlstack.demonstrations.recording.Decide`.

    Args:
        policy: As loaded for the robot.
        task: As the policy was trained on it.
        robot: The arm.

    Raises:
        UserError: The policy is for another robot or rate, or wants or commands something else than the task has.
    """

    def __init__(self, policy: Steppable, task: ArmTask, robot: Manipulator) -> None:
        check_fits(policy, task, robot)
        self._policy, self._inputs = policy, input_names(policy)
        self._next = 0

    def __call__(self, station: DemonstrationEnvironment) -> Choice:
        """Return what the policy does with what is sensed; it begins afresh with each episode, and after a hand led.

        Raises:
            UserError: Its command is not finite, or no motion of the task, as of a policy with other settings.
        """
        if station.steps == 0 or station.steps != self._next:
            self._policy.reset(1)
        self._next = station.steps + 1
        seen = station.senses()
        sensed = {name: seen[name][None] for name in self._inputs}
        command = commanded(self._policy, sensed, station.steps / station.task.rate_hz)[0]
        action, off = action_of(station, command)
        if station.steps == 0 and off > _OFF:  # where a hand led, the arm is led on from elsewhere than the file thinks
            raise UserError(
                f"{self._policy.path} commands what no motion of the tool does in this task ({off:.2g} rad or m off):"
                " it was trained with other settings, or is no policy of rlstack train."
            )
        return Choice(action)
