"""Response of a base to its commanded twist, as parameters of the batch simulator."""

from __future__ import annotations

from dataclasses import dataclass, fields

from rlstack.schema import value

Range = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Response:
    """Delay, lag and slip between a command within the base's limits and what the base does.

    A command acts after ``command_delay_s``. Speeds then follow it as first-order lags. The base moves slower than its
    wheels by the shares ``linear_slip`` and ``angular_slip``; negative values make it faster.

    Each parameter has a range that training draws from; by default, only the parameter itself.
    """

    command_delay_s: float = value(0.0, unit="s", at_least=0.0, at_most=2.0)
    command_delay_range_s: Range | None = value(None, unit="s", at_least=0.0, at_most=2.0)
    linear_time_constant_s: float = value(0.0, unit="s", at_least=0.0, at_most=5.0)
    linear_time_constant_range_s: Range | None = value(None, unit="s", at_least=0.0, at_most=5.0)
    angular_time_constant_s: float = value(0.0, unit="s", at_least=0.0, at_most=5.0)
    angular_time_constant_range_s: Range | None = value(None, unit="s", at_least=0.0, at_most=5.0)
    steering_time_constant_s: float = value(0.0, unit="s", at_least=0.0, at_most=5.0)
    """Lag of the steering angle of an Ackermann base."""
    steering_time_constant_range_s: Range | None = value(None, unit="s", at_least=0.0, at_most=5.0)
    linear_slip: float = value(0.0, unit="1", above=-1.0, at_most=0.99)
    linear_slip_range: Range | None = value(None, unit="1", above=-1.0, at_most=0.99)
    angular_slip: float = value(0.0, unit="1", above=-1.0, at_most=0.99)
    angular_slip_range: Range | None = value(None, unit="1", above=-1.0, at_most=0.99)

    def __post_init__(self) -> None:
        for name in RESPONSE_PARAMETERS:
            low, high = self.range_of(name)
            if not low <= (nominal := getattr(self, name)) <= high:
                raise ValueError(
                    f"{range_key(name)}: {[low, high]} is not allowed: the lowest first, and {name} ({nominal}) within."
                )

    def range_of(self, name: str) -> Range:
        """Return the range that training draws ``name`` from, such as ``linear_slip``."""
        given: Range | None = getattr(self, range_key(name))
        return (getattr(self, name),) * 2 if given is None else given


RESPONSE_PARAMETERS = tuple(field.name for field in fields(Response) if "_range" not in field.name)
"""The parameters of a response, each of which has a range."""


def range_key(name: str) -> str:
    """Return the key of a parameter's range, such as ``command_delay_range_s``."""
    return f"{name[:-2]}_range_s" if name.endswith("_s") else f"{name}_range"
