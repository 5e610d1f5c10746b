"""Gymnasium environments: importing this registers every task, such as ``rlstack/QuadrotorHover-v0``.

``gymnasium.make("rlstack.environments:rlstack/QuadrotorHover-v0")`` imports it, too.
"""

from rlstack.environments.registration import environment_id, register_tasks

register_tasks()

__all__ = ["environment_id", "register_tasks"]
