"""Names of tasks among Gymnasium's environments."""

from __future__ import annotations

from rlstack.errors import UserError
from rlstack.tasks import TASKS

NAMESPACE = "rlstack"
_HERE = "rlstack.environments"


def environment_id(task: str) -> str:
    """Return what Gymnasium calls a task: ``quadrotor_hover`` is ``rlstack/QuadrotorHover-v0``."""
    return f"{NAMESPACE}/{''.join(word.capitalize() for word in task.split('_'))}-v0"


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
        name = environment_id(task)
        if name not in registry:
            register(
                name,
                entry_point=f"{_HERE}.single:TaskEnvironment",
                vector_entry_point=f"{_HERE}.vector:TaskVectorEnvironment",
                kwargs={"task": task},
            )
