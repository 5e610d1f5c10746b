"""Guard configuration: the robot's own limits, which an operator may override."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeVar

from rlstack import schema
from rlstack.errors import UserError, unknown_name
from rlstack.robots import RobotSpec
from rlstack.schema import value

Config = TypeVar("Config", bound="GuardConfig")


@dataclass(frozen=True, kw_only=True)
class GuardConfig:
    """Timeouts of every guard; each kind's guard adds its limits and ``staleness_s``."""

    control_rate_hz: float = value(unit="Hz", above=0.0)
    observation_timeout_s: float = value(0.2, unit="s", above=0.0)
    """Longest time without a valid observation."""
    recover_after_s: float = value(1.0, unit="s", at_least=0.0)
    """How long a late policy must be on time again before it commands again."""

    @property
    def staleness_s(self) -> float:
        """Age at which a policy's command is stale, and the longest a policy may be silent."""
        raise NotImplementedError

    @property
    def reach_s(self) -> float:
        """When joints should reach a target, s after its stamp.

        Two periods, so that an interpolating controller never gets a target that is already due.
        """
        return 2.0 * self.period_s

    @property
    def period_s(self) -> float:
        """One control period."""
        return 1.0 / self.control_rate_hz

    @classmethod
    def limits_of(cls, robot: Any) -> dict[str, Any]:
        """Return the robot's own limits by field, which overrides may tighten; ``..._min_m`` are lower corners."""
        raise NotImplementedError

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
            asked = getattr(config, name)
            if not allow_wider and _is_wider(name, asked, allowed):
                raise UserError(
                    f"guard settings: {name}: {_show(asked)} is wider than robot '{robot.name}' allows"
                    f" ({_show(allowed)}); give a tighter limit, or change the robot file."
                )
        return config


def _is_wider(name: str, asked: Any, allowed: Any) -> bool:
    if not isinstance(asked, tuple):
        return bool(asked > allowed)
    return any(a < b if name.endswith("_min_m") else a > b for a, b in zip(asked, allowed))


def _show(limit: Any) -> str:
    return str(list(limit)) if isinstance(limit, tuple) else str(limit)
