"""Kinds of robots: one module each, whose ``ROBOT`` is the dataclass that a robot file of that kind is read into."""
