"""The error of a policy whose values cannot be used."""


class PolicyOutputError(ValueError):
    """The policy returned a value that is not finite; its recurrent state is unchanged."""
