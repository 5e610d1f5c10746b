"""The commands `rlstack train` and `rlstack export`, whose options depend on the recipe."""

from __future__ import annotations


def train(arguments: list[str]) -> int:
    """Train, or resume a run; return the exit status."""
    from rlstack.bringup.teleop import teleop_device
    from rlstack.training.command import train_command

    return train_command(arguments, teleop_device)


def export(arguments: list[str]) -> int:
    """Export the policy of a run again; return the exit status."""
    from rlstack.training.command import export_command

    return export_command(arguments)
