"""The live check before arming: delay, rate and noise of a robot's topics against what its policy is proven for.

Independent of ROS: the policy node adds every message while the robot is disarmed, and publishes the findings, which
the guard requires before it arms a real robot.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rlstack.arrays import Array
from rlstack.interfaces.messages import NANOSECONDS
from rlstack.interfaces.timing import StampClock
from rlstack.interfaces.topics import LATCHED, ODOM, PEOPLE, SCAN
from rlstack.policies import Contract, Port
from rlstack.policies.proven import Proven, delay_names
from rlstack.robots import RobotSpec

WINDOW_S = 2.0
"""Messages of the last two seconds are measured: 20 of a base's odometry at 10 Hz."""

LEAST_MESSAGES = 5
"""Fewer messages in a window tell nothing about noise."""

CLOCK_AHEAD_S = 0.002
"""A message cannot be younger than 0; clocks that NTP synchronises in a local network differ by about 1 ms."""

CLOCK_APART_S = 10.0
"""Stamps farther than this from this machine's clock are of another clock."""

RATE_SHARE = 0.8
"""Share of the nominal rate that must arrive where no lower rate is proven: best-effort messages may be lost."""

NOISE_SLACK = 1.25
"""Tolerance of measured noise: an estimate from 20 samples is within 25% in most windows."""

_NOISE_KEYS = {
    "position": "position_noise_m",
    "orientation": "orientation_noise_rad",
    "linear_velocity": "linear_velocity_noise_m_s",
    "angular_velocity": "angular_velocity_noise_rad_s",
}
"""Field of the robot file's sensor by signal: trials have that noise, too."""


@dataclass
class _Heard:
    """Messages of one topic within the window."""

    stamps_ns: deque[int] = field(default_factory=deque)
    ages_ns: deque[int] = field(default_factory=deque)
    values: deque[Mapping[str, Array]] = field(default_factory=deque)

    def drop_before(self, stamp_ns: int) -> None:
        while self.stamps_ns and self.stamps_ns[0] < stamp_ns:
            for kept in (self.stamps_ns, self.ages_ns, self.values):
                kept.popleft()

    def clear(self) -> None:
        for kept in (self.stamps_ns, self.ages_ns, self.values):
            kept.clear()


class LiveCheck:
    """Measures the topics of a policy's inputs while its robot stands still.

    Args:
        contract: The policy's contract.
        proven: What it is proven for.
        robot: The robot.
    """

    def __init__(self, contract: Contract, proven: Proven, robot: RobotSpec) -> None:
        self._contract, self._proven, self._robot = contract, proven, robot
        self._ports: dict[str, list[Port]] = {}
        for port in contract.inputs:
            if port.topic not in LATCHED:
                self._ports.setdefault(port.topic, []).append(port)
        self._heard = {topic: _Heard() for topic in self._ports}
        self._began_ns = 0

    def restart(self) -> None:
        """Forget what was measured: the robot has moved since."""
        self._began_ns = 0
        for heard in self._heard.values():
            heard.clear()

    def add(self, topic: str, stamp_ns: int, arrived_ns: int, values: Mapping[str, Array]) -> None:
        """Add a message.

        Args:
            topic: Its topic.
            stamp_ns: Its stamp.
            arrived_ns: Time of its arrival on the clock that it was stamped with.
            values: Its signals.
        """
        heard = self._heard.get(topic)
        if heard is None:
            return
        self._began_ns = self._began_ns or arrived_ns
        if heard.stamps_ns and stamp_ns <= heard.stamps_ns[-1]:
            if stamp_ns < heard.stamps_ns[-1]:  # its clock was set back
                heard.clear()
            else:
                return
        heard.stamps_ns.append(stamp_ns)
        heard.ages_ns.append(arrived_ns - stamp_ns)
        heard.values.append({p.name: values[p.name] for p in self._ports[topic] if not p.picture and p.name in values})
        heard.drop_before(stamp_ns - round(WINDOW_S * NANOSECONDS))

    def measured_for_s(self, now_ns: int) -> float:
        """Return for how long messages have been measured, s."""
        return (now_ns - self._began_ns) / NANOSECONDS if self._began_ns else 0.0

    def findings(self) -> list[str]:
        """Return a sentence for each input outside of what is proven; empty if all are inside.

        Raises:
            ValueError: It is too early: call it once :meth:`measured_for_s` is at least :data:`WINDOW_S`.
        """
        if not self._began_ns:
            raise ValueError("nothing was measured")
        found = []
        for topic, heard in self._heard.items():
            if len(heard.stamps_ns) < 2:
                found.append(f"{topic}: {len(heard.stamps_ns)} messages came within {WINDOW_S:g} s")
                continue
            found += self._late(topic, heard) + self._slow(topic, heard)
            if len(heard.stamps_ns) >= LEAST_MESSAGES:
                found += [s for port in self._ports[topic] for s in self._noisy(port, heard)]
        return found

    def _late(self, topic: str, heard: _Heard) -> list[str]:
        age_s = float(np.median(heard.ages_ns)) / NANOSECONDS
        clocks = "so its delay is not known: synchronise the clocks of both machines (chrony or NTP)"
        if abs(age_s) > CLOCK_APART_S:
            way = "behind" if age_s > 0.0 else "ahead of"
            simulated = "; where time is simulated, publish it on /clock"
            return [f"{topic}: its stamps are {_time(abs(age_s))} {way} this machine's clock, {clocks}{simulated}"]
        if age_s < -CLOCK_AHEAD_S:
            return [f"{topic}: its stamps are {_time(-age_s)} ahead of this machine's clock, {clocks}"]
        limit_s, source = self.delay_limit_s(topic)
        if age_s <= limit_s:
            return []
        return [f"{topic}: messages are {_time(age_s)} old on arrival, proven up to {_time(limit_s)} ({source})"]

    def delay_limit_s(self, topic: str) -> tuple[float, str]:
        """Return the greatest delay from stamp to arrival that is proven for a topic, s, and where it comes from.

        Half a control period is added: delays shorter than that do not change which step uses a message.
        """
        name = self._proven.known(*delay_names(topic))
        lidar = self._robot.lidars.get(topic)
        usual_s = 0.0 if lidar is None else lidar.latency_s
        sensor = self._robot.sensors.get(topic)
        usual_s = usual_s if sensor is None else sensor.latency_s
        limit_s = max(self._proven.most(name, 0.0), usual_s) + 0.5 / self._contract.rate_hz
        picture = next((port.picture for port in self._ports[topic] if port.picture), None)
        if picture is not None:
            return picture.max_age_s, "its greatest age"
        return limit_s, self._proven.source(name)

    def _slow(self, topic: str, heard: _Heard) -> list[str]:
        span_s = (heard.stamps_ns[-1] - heard.stamps_ns[0]) / NANOSECONDS
        rate_hz, least_hz = (len(heard.stamps_ns) - 1) / span_s, self.rate_limit_hz(topic)
        if rate_hz >= least_hz:
            return []
        source = self._proven.source("control_rate_hz")
        return [f"{topic}: comes at {rate_hz:.3g} Hz, proven down to {least_hz:.3g} Hz ({source})"]

    def rate_limit_hz(self, topic: str) -> float:
        """Return the lowest rate of a topic that is proven, Hz."""
        asked, own = self._contract.rate_hz, self._nominal_rate_hz(topic)
        share = min(RATE_SHARE, self._proven.least("control_rate_hz", asked) / asked)
        return share * min(asked, own)

    def _nominal_rate_hz(self, topic: str) -> float:
        """Return a topic's rate by the robot file; the policy's for odometry and for what it does not know."""
        robot, camera = self._robot, topic.partition("/")[0]
        if camera in robot.cameras and camera != topic:
            return robot.cameras[camera].rate_hz
        lidar = robot.lidars.get(SCAN if topic == PEOPLE else topic)
        if lidar is not None:
            return lidar.rate_hz
        return robot.sensors[topic].rate_hz if topic in robot.sensors and topic != ODOM else self._contract.rate_hz

    def _noisy(self, port: Port, heard: _Heard) -> list[str]:
        known = self._usual_noise(port)
        if known is None or any(port.name not in values for values in heard.values):
            return []
        sigma = noise_of([values[port.name] for values in heard.values], is_turn=port.name.endswith("orientation"))
        scale = self._proven.known(*([f"{port.topic}_noise_scale"] if port.scan else []), "noise_scale")
        most = known * self._proven.most(scale, 1.0)
        if not math.isfinite(sigma) or sigma <= NOISE_SLACK * most:
            return []
        unit = "rad" if port.name.endswith("orientation") else port.unit
        return [
            f"{port.name}: its noise is {sigma:.3g} {unit} (one standard deviation), proven up to {most:.3g} {unit}"
            f" ({self._proven.source(scale)})"
        ]

    def _usual_noise(self, port: Port) -> float | None:
        """Return the noise of training, or of the robot file where that is larger; None: not known."""
        sensor, lidar = self._robot.sensors.get(port.topic), self._robot.lidars.get(port.topic)
        own = getattr(sensor, _NOISE_KEYS.get(port.name, ""), None)
        if lidar is not None:
            own = lidar.noise_m + lidar.noise_share * lidar.range_max_m
        known = [number for number in (self._contract.envelope.noise.get(port.name), own) if number]
        return max(known, default=None)


class ArrivalClock:
    """The time at which messages arrive, on the clock of their stamps: this machine's, or a simulator's ``/clock``."""

    def __init__(self) -> None:
        self._simulated = StampClock()
        self._is_simulated = False

    def observe(self, time_ns: int, monotonic_ns: int, system_ns: int) -> None:
        """Add a message on ``/clock``."""
        self._simulated.observe(time_ns, monotonic_ns, system_ns)

    def applies_to(self, stamp_ns: int, monotonic_ns: int, system_ns: int) -> bool:
        """Choose the clock of a stamp; return whether it is another one than before.

        Stamps that are not of this machine's clock are of the simulator's, if there is one.
        """
        before = self._is_simulated
        apart = abs(system_ns - stamp_ns) > CLOCK_APART_S * NANOSECONDS
        self._is_simulated = apart and self._simulated.now_ns(monotonic_ns, system_ns) is not None
        return self._is_simulated is not before

    def now_ns(self, monotonic_ns: int, system_ns: int) -> int:
        """Return the present time on the chosen clock."""
        simulated = self._simulated.now_ns(monotonic_ns, system_ns) if self._is_simulated else None
        return system_ns if simulated is None else simulated

    def arrived_ns(self, stamp_ns: int, monotonic_ns: int, system_ns: int) -> int:
        """Return when a message arrived; a simulator has one clock, so not before its stamp."""
        now_ns = self.now_ns(monotonic_ns, system_ns)
        return max(now_ns, stamp_ns) if self._is_simulated else now_ns


def noise_of(samples: Sequence[Array], *, is_turn: bool = False) -> float:
    """Return the standard deviation of white noise on a signal that changes slowly, from its second differences.

    These have six times the noise's variance, and no part of a constant drift. Of several components it is the largest;
    of more than a dozen, such as a scan's rays, the median, which ignores rays that graze an edge.

    Args:
        samples: One array of equal shape for each message.
        is_turn: Quaternions xyzw, of which the noise is in rad, about each axis.
    """
    series = np.stack([np.asarray(sample, dtype=float).ravel() for sample in samples])
    if is_turn:
        series = series * np.where((series * series[0]).sum(axis=1) < 0.0, -1.0, 1.0)[:, None]
    change = series[2:] - 2.0 * series[1:-1] + series[:-2]
    variance = (change**2).mean(axis=0) / 6.0
    if is_turn:  # half angles, of three axes together
        return float(np.sqrt(4.0 * variance.sum() / 3.0))
    return float(np.sqrt(np.median(variance) if variance.size > 12 else variance.max()))


def _time(seconds: float) -> str:
    return f"{1000.0 * seconds:.3g} ms" if seconds < 1.0 else f"{seconds:.1f} s"
