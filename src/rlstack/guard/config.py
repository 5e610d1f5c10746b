"""Guard configuration: a robot's own limits, changed by what an operator gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from rlstack import schema
from rlstack.errors import UserError, unknown_name
from rlstack.robots import RobotSpec
from rlstack.schema import value

Config = TypeVar("Config")


@dataclass(frozen=True, kw_only=True)
class GuardConfig:
    """How long the guard of any robot waits; each kind's guard adds its limits and ``staleness_s``."""

    control_rate_hz: float = value(unit="Hz", above=0.0)
    observation_timeout_s: float = value(0.2, unit="s", above=0.0)
    """Longest time without a valid observation."""
    recover_after_s: float = value(1.0, unit="s", at_least=0.0)
    """How long a late policy must be in time again before it commands again."""

    @property
    def staleness_s(self) -> float:
        """Age from which a policy's command is stale, and the longest silence of a policy."""
        raise NotImplementedError

    @property
    def reach_s(self) -> float:
        """When joints are to have come to a target, s after its stamp.

        Two periods: for a controller that interpolates, the target must not be due already.
        """
        return 2.0 * self.period_s

    @property
    def period_s(self) -> float:
        """One control period."""
        return 1.0 / self.control_rate_hz


def load_config(
    kind: type[Config],
    robot: RobotSpec,
    own: Mapping[str, Any],
    others: Mapping[str, Any],
    overrides: Mapping[str, Any],
    *,
    allow_wider: bool,
) -> Config:
    """Return a guard's settings.

    Args:
        kind: Their dataclass.
        robot: Whose guard it is.
        own: The robot's own limits by field, which overrides may make tighter; a ``..._min_m`` is a lower corner.
        others: Other values that follow from the robot, which overrides may change at will.
        overrides: Any field.
        allow_wider: Let overrides widen the robot's limits.

    Raises:
        UserError: An unknown field, a value out of range, or a wider limit without ``allow_wider``.
    """
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    for name in overrides:
        if name not in names:
            raise unknown_name("guard setting", name, names)
    config = schema.load(kind, {**others, **own, **overrides}, "guard settings")
    if not allow_wider:
        for name in own:
            asked, allowed = getattr(config, name), own[name]
            if _is_wider(name, asked, allowed):
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
