"""Quadrotors: one file for each part of :data:`rlstack.kinds.PARTS`."""
