"""Backends that are real robots; none yet."""
