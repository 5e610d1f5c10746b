"""The checks of a checklist's steps that a program does; each returns what it measured, or raises why it failed."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from rlstack.arrays import Array
from rlstack.bringup.checklist.poses import PoseFeed
from rlstack.bringup.checklist.steps import Step
from rlstack.errors import UserError
from rlstack.interfaces.backend import BACKENDS, Backend, Located, Reading
from rlstack.interfaces.kind_signals import command_of
from rlstack.interfaces.messages import NANOSECONDS
from rlstack.interfaces.signals import SENSED
from rlstack.interfaces.topics import JOINT_STATES, ODOM
from rlstack.nodes.live_check import CLOCK_AHEAD_S, RATE_SHARE, WINDOW_S, LiveCheck, noise_of
from rlstack.policies import find_policy, load_policy
from rlstack.policies.proven import proven_for
from rlstack.policies.record import read_record
from rlstack.robots import RobotSpec

Measured = dict[str, Any]

_MEASURE_S = WINDOW_S + 0.5
_POLL_S = 0.002
_OLD_S = 0.5
"""Age of a measurement at which the link counts as lost."""
_DISCOVERY_S = 3.0
_HAND_S = 60.0
"""How long a person has to move the robot by hand."""


class CheckFailed(Exception):
    """A check has failed; the text says why."""


class NotNow(Exception):
    """A check cannot be done now; the text says what it needs."""


class Bench:
    """One robot and its driver, which connects when the first check needs it.

    Args:
        robot: The robot.
        driver: The driver's name.
        uri: Where it finds the robot.
        policy: The policy that is to command it; empty: none is known yet.

    Raises:
        UserError: The driver, its URI or the policy is refused.
    """

    def __init__(self, robot: RobotSpec, driver: str, uri: str, policy: str = "") -> None:
        self.robot, self.driver, self.uri, self.policy = robot, driver, uri, policy
        self._make: Callable[[], Backend] = lambda: BACKENDS.load(driver)(robot, uri=uri)
        self._backend: Backend | None = None
        self._poses: PoseFeed | None = None
        self._make()  # checks the URI
        self._loaded = load_policy(policy, robot=robot) if policy else None

    @property
    def policy_sha256(self) -> str:
        """The policy's, or nothing."""
        return "" if self._loaded is None else self._loaded.sha256

    @property
    def backend(self) -> Backend:
        """The connected driver."""
        if self._backend is None:
            made = self._make()
            made.connect()
            self._backend = made
            if isinstance(made, Located):
                self._poses = PoseFeed(made, self.robot.name)
        return self._backend

    def close(self) -> None:
        """Take the actuators' power and release the driver."""
        if self._poses is not None:
            self._poses.close()
            self._poses = None
        if self._backend is not None:
            self._backend.close()
            self._backend = None

    # Checks --------------------------------------------------------------------------------------------------

    def device(self, step: Step) -> Measured:
        """Find the device of the URI, which must be this user's to read and write."""
        parts = urlsplit(self.uri)
        if parts.netloc or not parts.path:
            return {"address": parts.netloc}
        path = Path(parts.path)
        if not path.exists():
            raise CheckFailed(f"{path} is not there: plug the robot in, and look at its udev rule.")
        if not stat.S_ISCHR(path.stat().st_mode):
            raise CheckFailed(f"{path} is no device.")
        if not os.access(path, os.R_OK | os.W_OK):
            raise CheckFailed(f"You may not use {path}: add your user to the group dialout, and log in again.")
        return {"device": str(path.resolve())}

    def connect(self, step: Step) -> Measured:
        """Connect; the driver compares the robot with its file."""
        self.close()
        start = time.monotonic()
        report = getattr(self.backend, "report", {})
        return {"connecting_s": round(time.monotonic() - start, 2), **report}

    def sensors(self, step: Step) -> Measured:
        """Measure rate, age and noise of the state, against the robot file's rate."""
        readings = self._readings(_MEASURE_S)
        times = [reading.time_s for reading, _ in readings]
        rate = (len(times) - 1) / (times[-1] - times[0]) if len(times) > 1 else 0.0
        age = float(np.median([now - reading.time_s for reading, now in readings])) if readings else float("inf")
        wanted = max((s.rate_hz for t, s in self.robot.sensors.items() if t in (ODOM, JOINT_STATES)), default=0.0)
        if rate < RATE_SHARE * wanted:
            raise CheckFailed(f"The state comes {rate:.1f} times a second; {self.robot.name} needs {wanted:g}.")
        if not -CLOCK_AHEAD_S <= age <= _OLD_S:
            raise CheckFailed(f"Measurements are {1e3 * age:.1f} ms old when read: must be -2 to {1e3 * _OLD_S:g}.")
        signals = [reading.signals for reading, _ in readings]
        noise = {
            name: float(f"{noise_of([one[name] for one in signals], is_turn=name == 'orientation'):.3g}")
            for name in signals[0]
            if not name.startswith("battery") and all(name in one and np.isfinite(one[name]).all() for one in signals)
        }
        return {"rate_hz": round(rate, 1), "age_ms": round(1e3 * age, 2), "noise": noise}

    def envelope(self, step: Step) -> Measured:
        """Hold rates, delays and noise against what the policy is proven for, as the live check before arming does."""
        if self._loaded is None:
            raise NotNow("give --policy, the policy that will command it")
        contract, record = self._loaded.contract, read_record(find_policy(self.policy))
        proof = {} if record is None else record.proof_of(self._loaded.sha256)
        check = LiveCheck(contract, proven_for(contract, proof), self.robot)
        by_topic: dict[str, list[str]] = {}
        for port in contract.inputs:
            by_topic.setdefault(port.topic, []).append(port.name)

        def add(reading: Reading, now_s: float) -> None:
            for topic, names in by_topic.items():
                camera = topic.partition("/")[0]
                if camera in self.backend.captured:
                    taken_s, values = self.backend.capture(camera).time_s, {}
                elif all(name in reading.signals for name in names if name in SENSED):
                    taken_s = reading.time_s
                    values = {name: np.asarray(reading.signals[name]) for name in names if name in reading.signals}
                else:
                    continue
                check.add(topic, round(taken_s * NANOSECONDS), round(now_s * NANOSECONDS), values)

        self._readings(_MEASURE_S, add)
        if found := check.findings():
            raise CheckFailed(f"Outside of what {self.policy} is proven for: {'; '.join(found)}.")
        return {"policy": self.policy, "inside": sorted(by_topic)}

    def battery(self, step: Step) -> Measured:
        """Hold the battery's voltage or charge against the least."""
        signals = self._readings(0.5)[-1][0].signals
        measured = {}
        for name, least in step.at_least.items():
            if name not in signals:
                raise CheckFailed(f"The driver '{self.driver}' does not measure {name}.")
            measured[name] = round(float(signals[name][0]), 3)
            if not measured[name] >= least:
                raise CheckFailed(f"{name} is {measured[name]:g}, and must be at least {least:g}: charge the battery.")
        return measured

    def by_hand(self, step: Step) -> Measured:
        """Wait until a signal has changed as the person moves the robot by hand; its sign must be right."""
        first = self._element(step)
        end = time.monotonic() + _HAND_S
        while time.monotonic() < end:
            change = self._element(step) - first
            if abs(change) >= abs(step.by):
                if change * step.by < 0.0:
                    raise CheckFailed(
                        f"{step.signal}[{step.element}] changed by {change:+.3g}, and must change by {step.by:+g}: its"
                        " direction is wrong."
                    )
                return {"change": round(change, 4)}
            time.sleep(0.01)
        raise CheckFailed(f"{step.signal}[{step.element}] has not changed by {step.by:+g} within {_HAND_S:g} s.")

    def motion(self, step: Step) -> Measured:
        """Command a small motion, and take the power again."""
        return self._move(step, lambda passed_s: passed_s < step.seconds)

    def stop(self, step: Step) -> Measured:
        """Disarm in the middle of a motion."""
        return self._move(step, lambda passed_s: passed_s < 0.5 * step.seconds, whole=False)

    def link_loss(self, step: Step) -> Measured:
        """Command a motion until the link is lost; the robot's own failsafe has to stop it."""
        backend, lost = self.backend, [0.0]

        def goes_on(passed_s: float) -> bool:
            lost[0] = time.time() - backend.read().time_s
            return lost[0] < _OLD_S and passed_s < step.seconds

        self._move(step, goes_on, whole=False, disarms=False)
        self.close()
        if lost[0] < _OLD_S:
            raise CheckFailed(f"The link was not lost within {step.seconds:g} s.")
        return {"age_s": round(lost[0], 2)}

    # ---------------------------------------------------------------------------------------------------------

    def _readings(
        self, seconds: float, take: Callable[[Reading, float], None] | None = None
    ) -> list[tuple[Reading, float]]:
        """Return the new readings of some seconds, each with the time at which it was read."""
        backend, found = self.backend, []
        if self._poses is not None:  # they may not have been discovered yet
            wait = time.monotonic() + _DISCOVERY_S
            while not backend.read().signals and time.monotonic() < wait:
                time.sleep(0.01)
        last_s, end = -np.inf, time.monotonic() + seconds
        while time.monotonic() < end:
            reading = backend.read()
            if reading.signals and reading.time_s > last_s:
                last_s, now_s = reading.time_s, time.time()
                found.append((reading, now_s))
                if take is not None:
                    take(reading, now_s)
            time.sleep(_POLL_S)
        if not found and self._poses is not None:
            raise NotNow(
                f"its place comes from outside, and no pose comes on {self._poses.topic}: start motion capture, or"
                " rlstack sitl for a simulated one"
            )
        if not found:
            raise CheckFailed(f"The driver '{self.driver}' measures nothing.")
        return found

    def _element(self, step: Step) -> float:
        signals = self._readings(0.05)[-1][0].signals
        if step.signal not in signals or step.element >= len(signals[step.signal]):
            raise CheckFailed(f"The driver '{self.driver}' does not measure {step.signal}[{step.element}].")
        return float(signals[step.signal][step.element])

    def _move(
        self, step: Step, goes_on: Callable[[float], bool], *, whole: bool = True, disarms: bool = True
    ) -> Measured:
        """Command a motion for as long as it goes on; whole ones are measured, and must go the right way."""
        backend, signal = self.backend, command_of(self.robot).name
        wanted = np.array(step.command)
        state = "joint_position" if signal == "joint_target" else ""
        start = np.array(self._readings(0.2)[-1][0].signals[state]) if state else np.zeros(len(wanted))
        seen: list[Mapping[str, Array]] = []
        began, refused = time.monotonic(), ""
        try:
            while goes_on(passed := time.monotonic() - began):
                share = 0.5 - 0.5 * np.cos(2.0 * np.pi * min(passed / step.seconds, 1.0)) if state else 1.0
                try:
                    backend.write({signal: start + share * wanted})
                    refused = ""
                except ValueError as error:
                    refused = str(error)
                seen.append(backend.read().signals)
                time.sleep(1.0 / self.robot.control_rate_hz)
        finally:
            if disarms:
                backend.disarm()
        if refused and disarms:
            raise CheckFailed(f"The command was refused: {refused}.")
        return _went(signal, start, wanted, seen) if whole else {}


def _went(signal: str, start: Array, wanted: Array, seen: list[Mapping[str, Array]]) -> Measured:
    """Return how far a motion went, where the driver measures it; raise if it went the wrong way, or hardly."""
    if signal == "joint_target":
        series = np.array([one["joint_position"] for one in seen]) - start
    elif signal == "twist":
        series = np.array([[one["linear_velocity"][0], one["angular_velocity"][2]] for one in seen])
    else:
        return {}
    most = series[np.abs(series).argmax(axis=0), range(series.shape[1])]
    moved = np.flatnonzero(wanted)
    for index in moved:
        if most[index] * np.sign(wanted[index]) < 0.3 * abs(wanted[index]):
            raise CheckFailed(
                f"{signal}[{index}] was commanded {wanted[index]:+.3g} and {most[index]:+.3g} was measured: its"
                " direction is wrong, or it does not move."
            )
    return {"commanded": wanted.tolist(), "measured": [round(float(x), 4) for x in most]}


def run(bench: Bench, step: Step) -> Measured:
    """Do a step's check.

    Raises:
        CheckFailed: It has failed.
        NotNow: It cannot be done now.
    """
    if step.check == "question":
        return {}
    try:
        found: Measured = getattr(bench, step.check)(step)
    except UserError as error:
        raise CheckFailed(str(error)) from error
    return found
