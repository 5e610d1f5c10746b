"""Guard configuration: the robot's own limits, which an operator may override."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeVar

from rlstack import schema
from rlstack.errors import UserError, unknown_name
from rlstack.robots import RobotSpec
from rlstack.schema import value

Config = TypeVar("Config", bound="GuardConfig")


@dataclass(frozen=True, kw_only=True)
class GuardConfig(ABC):
    """Timeouts of every guard; each kind's adds ``staleness_s`` and inherits the fields of its robot file's limits.

    Fields with a ``text`` are parameters of the guard node.
    """

    RAISED: ClassVar[frozenset[str]] = frozenset()
    """Limits that are the tighter the larger they are; so are all ``..._min_m``, which are lower corners."""
    TETHERED: ClassVar[frozenset[str]] = frozenset()
    """Limits that :meth:`tethered` scales."""

    control_rate_hz: float = value(unit="Hz", above=0.0)
    observation_timeout_s: float = value(0.2, unit="s", above=0.0, text="Longest time without a valid observation")
    observation_delay_s: float = value(
        0.0,
        unit="s",
        at_least=0.0,
        at_most=1.0,
        text="How late observations may be that the policy is proven for: its commands may answer ones older by this",
    )
    recover_after_s: float = value(
        1.0, unit="s", at_least=0.0, text="How long a late policy must be on time again before it commands again"
    )
    observation_rate_share: float = value(
        0.5,
        unit="1",
        at_least=0.0,
        at_most=1.0,
        text="Share of the control rate below which the rate of observations is warned of",
    )
    battery_low: float = value(0.2, unit="1", at_least=0.0, at_most=1.0, text="Charge below which the guard warns")
    battery_critical: float = value(
        0.1, unit="1", at_least=0.0, at_most=1.0, text="Charge below which the robot lands or stops and is not armed"
    )
    """PX4's BAT_LOW_THR and BAT_CRIT_THR have the same defaults."""
    battery_low_v: float = value(
        3.2, unit="V", at_least=0.0, text="Voltage of a cell instead of battery_low, where no charge is measured"
    )
    battery_critical_v: float = value(
        3.0, unit="V", at_least=0.0, text="Voltage of a cell instead of battery_critical, where no charge is measured"
    )
    """Under load; those of the Crazyflie's firmware (pm.h) for lithium polymer cells."""
    battery_cells: int = value(
        0, unit="", at_least=0, text="Cells of the battery in series; 0: those of the robot file, if it has them"
    )
    battery_confirm_s: float = value(
        2.0, unit="s", at_least=0.0, text="How long the charge must stay critical before the robot lands or stops"
    )
    """A voltage sags under load: one measurement must not end a flight."""

    @property
    @abstractmethod
    def staleness_s(self) -> float:
        """Age at which a policy's command is stale, and the longest a policy may be silent."""

    @property
    def rest_within_s(self) -> float:
        """Longest time from :meth:`rlstack.guard.guard.Guard.end` until the robot is off, s; 0: it is off at once."""
        return 0.0

    @property
    def reach_s(self) -> float:
        """When joints should reach a target, s after its stamp.

        Two periods, so that an interpolating controller never gets a target that is already due.
        """
        return 2.0 * self.period_s

    @property
    def oldest_observation_s(self) -> float:
        """Age beyond which an observation is refused."""
        return self.observation_timeout_s

    @property
    def period_s(self) -> float:
        """One control period."""
        return 1.0 / self.control_rate_hz

    @classmethod
    def limits_of(cls, robot: Any) -> dict[str, Any]:
        """Return the robot's own limits by field, which overrides may tighten; ``..._min_m`` are lower corners."""
        own = {field.name for field in fields(cls)}
        return {name: limit for name, limit in vars(robot.limits).items() if name in own}

    @classmethod
    def values_for(cls, robot: Any) -> dict[str, Any]:
        """Return the other values derived from the robot, which overrides may change freely."""
        return {"control_rate_hz": robot.control_rate_hz}

    @classmethod
    def from_robot(cls: type[Config], robot: RobotSpec, *, allow_wider: bool = False, **overrides: Any) -> Config:
        """Return the robot's own limits with ``overrides`` applied.

        Args:
            robot: The robot; its limits hold unless tightened.
            allow_wider: Let overrides widen the robot's limits, as in simulated tests that start outside them.
            overrides: Any field.

        Raises:
            UserError: An unknown field, a value out of range, or a wider limit without ``allow_wider``.
        """
        names = [field.name for field in fields(cls)]
        for name in overrides:
            if name not in names:
                raise unknown_name("guard setting", name, names)
        own = cls.limits_of(robot)
        config = schema.load(cls, {**cls.values_for(robot), **own, **overrides}, "guard settings")
        for name, allowed in own.items():
            wanted = getattr(config, name)
            if not allow_wider and cls.is_wider(name, wanted, allowed):
                raise UserError(
                    f"guard settings: {name}: {shown(wanted)} is wider than robot '{robot.name}' allows"
                    f" ({shown(allowed)}); give a tighter limit, or change the robot file."
                )
        return config

    def tethered(self: Config, robot: RobotSpec, share: float) -> Config:
        """Return the limits of a first try: those in :attr:`TETHERED` are at most a share of the robot's own.

        A limit that is tighter already stays; corners of boxes are scaled about the origin, from where a robot starts.

        Args:
            robot: The robot.
            share: Above 0; 1 or more changes nothing.
        """
        if share >= 1.0:
            return self
        own = {**vars(self), **self.limits_of(robot)}
        scaled = {name: self._scaled(name, own[name], share) for name in self.TETHERED}
        return replace(self, **{name: self._tighter(name, scaled[name]) for name in scaled})

    def _scaled(self, name: str, limit: Any, share: float) -> Any:
        """Return one limit of :meth:`tethered`."""
        if isinstance(limit, tuple):
            return tuple(share * number for number in limit)
        return limit / share if name in self.RAISED else share * limit

    def _tighter(self, name: str, limit: Any) -> Any:
        """Return the tighter of the limit in force and another."""
        present, choose = getattr(self, name), max if name in self.RAISED or name.endswith("_min_m") else min
        return tuple(map(choose, present, limit)) if isinstance(limit, tuple) else choose(present, limit)

    @classmethod
    def is_wider(cls, name: str, wanted: Any, allowed: Any) -> bool:
        """Return whether a value of a limit, a number or a tuple, allows something that another does not."""
        raised = name in cls.RAISED or name.endswith("_min_m")
        numbers = zip(wanted, allowed) if isinstance(wanted, tuple) else ((wanted, allowed),)
        return any(a < b if raised else a > b for a, b in numbers)


def shown(limit: Any) -> str:
    """Return the value of a limit as messages show it."""
    return str(list(limit)) if isinstance(limit, tuple) else str(limit)
