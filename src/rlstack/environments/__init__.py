"""Gymnasium environments: importing this registers every task, such as ``rlstack/QuadrotorHover-v0``.

``gymnasium.make("rlstack.environments:rlstack/QuadrotorHover-v0")`` also imports it.
"""

from __future__ import annotations

from rlstack.errors import UserError
from rlstack.tasks import TASKS


def environment_id(task: str) -> str:
    """Return a task's Gymnasium id: ``rlstack/QuadrotorHover-v0`` for ``quadrotor_hover``."""
    return f"rlstack/{''.join(word.capitalize() for word in task.split('_'))}-v0"


def register_tasks() -> None:
    """Register every task, single and vector, that is not registered yet.

    Raises:
        UserError: Gymnasium is not installed.
    """
    try:
        from gymnasium.envs.registration import register, registry
    except ModuleNotFoundError as error:
        raise UserError("Gymnasium is not installed: pip install 'rlstack[gym]'.") from error
    for task in TASKS.names():
        if (name := environment_id(task)) not in registry:
            register(
                name,
                entry_point=f"{__name__}.single_environment:TaskEnvironment",
                vector_entry_point=f"{__name__}.vector_environment:TaskVectorEnvironment",
                kwargs={"task": task},
            )


register_tasks()
