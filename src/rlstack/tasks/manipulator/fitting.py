"""Tasks of arms for an arm of another size: where they take place, and how large what they handle is.

The tasks' numbers are for a table half a metre deep before a Panda. A robot file with a section ``work`` says where its
own is and how wide its gripper opens. What a recipe sets by itself stays as it is said, in metres.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from rlstack.kinds.manipulator.spec import WorkArea
from rlstack.tasks.manipulator.trials import ObjectRange, Range, Region

USUAL = WorkArea(x_m=(0.25, 0.75), y_m=(-0.4, 0.4), z_m=(0.015, 0.55), opening_m=0.08)
"""What the tasks' numbers are for."""


def fitted(task: Any, work: WorkArea | None) -> Any:
    """Return a task as it is for an arm that works there; None: as it is.

    Regions lie there as they lie in :data:`USUAL`, heights counted from the table. Objects are as large, and as heavy,
    to the opening: of the same stuff they would be lighter, and boxes of 10 g do not stay between fingers that press
    with 20 N in physics steps of 5 ms. Tolerances and speeds are the same.
    """
    if work is None:
        return task
    usual = type(task)()
    changes: dict[str, Any] = {"workspace": Region(x_m=work.x_m, y_m=work.y_m, z_m=work.z_m)}
    scale = work.opening_m / USUAL.opening_m
    for field in fields(task):
        mine = getattr(task, field.name)
        if isinstance(mine, Region):
            changes.setdefault(field.name, _moved(mine, work))
        elif isinstance(mine, ObjectRange):
            changes[field.name] = _scaled(mine, scale)
    return replace(
        task, **{name: _unsaid(getattr(task, name), getattr(usual, name), new) for name, new in changes.items()}
    )


def _unsaid(mine: Any, usual: Any, new: Any) -> Any:
    """Return a region or range of objects with what was not said by itself as it is in ``new``."""
    same = [field.name for field in fields(mine) if getattr(mine, field.name) == getattr(usual, field.name)]
    return replace(mine, **{name: getattr(new, name) for name in same})


def _moved(region: Region, work: WorkArea) -> Region:
    high = work.z_m[1] / USUAL.z_m[1]
    return Region(
        x_m=_onto(region.x_m, USUAL.x_m, work.x_m),
        y_m=_onto(region.y_m, USUAL.y_m, work.y_m),
        z_m=(high * region.z_m[0], high * region.z_m[1]),
    )


def _onto(range_: Range, usual: Range, mine: Range) -> Range:
    scale = (mine[1] - mine[0]) / (usual[1] - usual[0])
    low, high = (round(mine[0] + scale * (end - usual[0]), 6) for end in range_)
    return low, high


def _scaled(objects: ObjectRange, scale: float) -> ObjectRange:
    def times(range_: Range, factor: float) -> Range:
        return range_[0] * factor, range_[1] * factor

    return replace(objects, half_m=times(objects.half_m, scale), mass_kg=times(objects.mass_kg, scale))
