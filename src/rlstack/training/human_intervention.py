"""Human intervention: the policy acts in real time until a person takes over by teleoperation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlstack.demonstrations.teleoperation import Clippings, Pace, action_of, clippings, forget_gripper
from rlstack.errors import UserError
from rlstack.hardware.devices import STOP, TeleopInput
from rlstack.hardware.intervention import InterventionDetector
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.tasks.manipulator.environment import ArmEnvironment
from rlstack.tasks.manipulator.trials import Motion
from rlstack.training.intervention_strategies import IntervenerSettings, Intervention, NoIntervention

Devices = Callable[[str, Manipulator, Motion, str], Any]
"""Returns an unopened device for its name, an arm, the meaning of full speed, and the namespace of its topics."""


class HumanIntervener(NoIntervention):
    """See :class:`rlstack.training.intervention_strategies.Intervener`.

    :class:`rlstack.hardware.intervention.InterventionDetector` detects when the person takes over.

    Args:
        device: Open; see :class:`rlstack.hardware.devices.Device`. Steps run in real time if a person uses it.
        environment: Environment of one arm.
        say: Called with messages for the person.
        show: Called before every step to update the view.
    """

    def __init__(
        self,
        device: Any,
        environment: ArmEnvironment,
        say: Callable[[str], None] = lambda sentence: None,
        show: Callable[[], None] = lambda: None,
    ) -> None:
        self._device, self._environment, self._say, self._show = device, environment, say, show
        self._pace, self._clippings, self._takeover = Pace(), Clippings(say), InterventionDetector()
        self._leads = False
        self.stopped = False
        """Whether the person ended the session, or the device is gone."""

    def decide(self, observation: Tensor, proposed: Tensor, begins: Tensor) -> Intervention:
        """Wait until the next step is due, and return its actions; see the protocol."""
        environment = self._environment
        self._show()
        if self._device.live:
            self._pace.wait(1.0 / environment.task.rate_hz)
        if begins[0]:
            forget_gripper(self._device)
        hand = self._read()
        before, self._leads = self._leads, self._takeover.leads(hand, bool(begins[0]))
        if self._leads != before:
            self._say("You lead." if self._leads else "The policy acts.")
        if not self._leads:
            return Intervention(torch.zeros(1, dtype=torch.bool), proposed)
        action = action_of(hand, environment.task.axes)
        seen = {name: array[0] for name, array in environment.senses().items()}
        self._clippings.tell(clippings(environment, seen, action))
        clipped = torch.from_numpy(np.clip(action, -1.0, 1.0).astype(np.float32))
        return Intervention(torch.ones(1, dtype=torch.bool), clipped[None])

    def _read(self) -> TeleopInput:
        if self.stopped:
            return TeleopInput(intervene=False)
        try:
            hand: TeleopInput = self._device.read()
        except UserError as error:  # the run is saved and can be resumed
            self._say(str(error))
            self.stopped = True
            return TeleopInput(intervene=False)
        self.stopped = STOP in hand.events
        return TeleopInput(intervene=False) if self.stopped else hand


@contextmanager
def human_intervener(algorithm: Any, environment: Any, devices: Devices | None) -> Iterator[HumanIntervener]:
    """Open the teleoperation device for human intervention if an algorithm's settings ask for it.

    Args:
        algorithm: Built for ``environment``; its ``intervener`` is set.
        environment: One arm.
        devices: Creates devices; None: there are none.

    Raises:
        UserError: There is no such device, or it cannot be used here or for this task.
    """
    settings: IntervenerSettings = algorithm.settings.intervener
    where = "algorithm_settings: intervener: kind: hand"
    if devices is None:
        raise UserError(f"{where} is only for `rlstack train`, which reads the device in its own terminal.")
    if not isinstance(environment, ArmEnvironment):
        raise UserError(f"{where} moves the tool of an arm, and this task has none: let a script intervene.")
    if environment.count != 1:
        raise UserError(f"{where} does not work with envs: {environment.count}: a person controls one robot: --envs 1.")
    robot, motion = environment.robot, environment.task.motion
    device = devices(settings.teleop, robot, motion, settings.namespace)
    with ExitStack() as opened:
        opened.callback(device.close)
        device.open()
        if device.live and device.read().joints is not None:
            raise UserError(f"{settings.teleop} commands joints, but actions move the tool: use another device.")
        shown = [_shown(environment, opened)] if settings.view else []
        hand = HumanIntervener(device, environment, _say, *shown)
        _say(device.keys)
        algorithm.intervener = hand
        yield hand


def _shown(environment: ArmEnvironment, opened: ExitStack) -> Callable[[], None]:
    """Open a page for a browser, and return a callable that updates it."""
    from rlstack.view.simulation import SimulationView

    worlds = environment.scene.worlds
    page = SimulationView(worlds.model)
    opened.callback(page.close)
    return lambda: page.show(worlds.state[0])


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
