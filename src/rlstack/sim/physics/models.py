"""Selection of physics models: those of the robot file, with overrides by a world or a caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from rlstack.errors import UserError, unknown_name
from rlstack.robots import RobotSpec


@dataclass(frozen=True)
class PhysicsModels:
    """Enabled models; disabled ones are omitted from the compiled code."""

    ground_effect: bool = False
    """More rotor thrust near the floor: :func:`.rotor.ground_effect`."""
    rotor_drag: bool = False
    """Drag proportional to the rotors' speed, instead of linear drag: :func:`.rotor.rotor_drag`."""
    downwash: bool = False
    """Wakes act on vehicles below: :mod:`.air`."""
    wind: bool = False
    """Wind and turbulence: :mod:`.wind`."""
    battery: bool = False
    """The battery's voltage limits the rotors: :mod:`.battery`."""

    def __or__(self, other: PhysicsModels) -> PhysicsModels:
        """Return the union, for a kernel shared by several robots."""
        return PhysicsModels(**{f.name: getattr(self, f.name) or getattr(other, f.name) for f in fields(self)})


NO_MODELS = PhysicsModels()
"""Rotors, motor lag and linear drag only, as in training."""

MODELS = tuple(f.name for f in fields(PhysicsModels))
"""The names of all models, as in a world file's ``physics`` section."""


def check_switches(switches: Mapping[str, bool], where: str) -> None:
    """Refuse switches of unknown models.

    Raises:
        UserError: A name is unknown (nearest names listed).
    """
    for name in switches:
        if name not in MODELS:
            raise UserError(f"{where}: {unknown_name('physics model', name, MODELS)}")


def models_of(
    robot: RobotSpec,
    switches: Mapping[str, bool] | None = None,
    wind: bool = False,
    where: str = "physics",
    *,
    floor: bool = True,
) -> PhysicsModels:
    """Return a robot's enabled models: those of its file, unless overridden, and the wind if there is any.

    Args:
        robot: The robot, whose file has the models' parameters and defaults.
        switches: Overrides of the robot file by a world file or a caller, by name.
        wind: Whether there is wind.
        where: Source of the switches, for errors.
        floor: Whether there is a floor; without one, there is no ground effect.

    Raises:
        UserError: A name is unknown, or a model is switched on without parameters.
    """
    switches = switches or {}
    check_switches(switches, where)
    aerodynamics, battery = getattr(robot, "aerodynamics", None), getattr(robot, "battery", None)
    sections = {name: getattr(aerodynamics, name, None) for name in ("ground_effect", "rotor_drag", "downwash")}
    sections["battery"] = battery
    on = {"wind": switches.get("wind", wind)}
    if on["wind"] and not wind:
        raise UserError(f"{where}: wind is on, and there is none: add the section 'wind' to the world file.")
    for name, section in sections.items():
        on[name] = switches.get(name, section is not None and section.enabled)
        if on[name] and section is None:
            at = "battery" if name == "battery" else f"aerodynamics.{name}"
            raise UserError(
                f"{where}: {name} is on, and {robot.name} has no numbers for it: add the section '{at}' to its robot"
                " file, or leave the switch out."
            )
    return PhysicsModels(**{**on, "ground_effect": on["ground_effect"] and floor})
