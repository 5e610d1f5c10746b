"""Measurements of `rlstack bench`."""
