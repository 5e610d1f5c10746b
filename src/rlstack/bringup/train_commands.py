"""The commands `rlstack train` and `rlstack export`, whose options depend on the recipe."""

from __future__ import annotations


def train(arguments: list[str]) -> int:
    """Train, or resume a run; return the exit status."""
    from rlstack.bringup.teleop import teleop_device
    from rlstack.training.command import train_command

    return train_command(arguments, teleop_device)


def export(arguments: list[str]) -> int:
    """Export the policy of a run again, or with ``--format`` a policy file in another form; return the exit status."""
    if any(word.split("=")[0] == "--format" for word in arguments):
        import tyro

        from rlstack.bringup.export_command import ExportPolicy

        return tyro.cli(ExportPolicy, args=arguments, prog="rlstack export").run()
    from rlstack.training.command import export_command

    return export_command(arguments)
