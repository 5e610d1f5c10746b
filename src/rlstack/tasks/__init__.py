"""Tasks as pure functions of batched state: observations, rewards, endings, episodes."""

from rlstack.registry import Registry

TASKS = Registry("task", "rlstack.tasks.catalog", "TASK", "rlstack.tasks", files=True)
"""Each entry is the configuration dataclass of a task; its defaults are the task as published."""
