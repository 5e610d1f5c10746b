"""Colours of obstacles, as red, green and blue from 0 to 1."""

from __future__ import annotations

Colour = tuple[float, float, float]

WALL: Colour = (0.87, 0.86, 0.83)
CONCRETE: Colour = (0.66, 0.67, 0.67)
WOOD: Colour = (0.73, 0.60, 0.45)
DARK_WOOD: Colour = (0.50, 0.39, 0.30)
CARTON: Colour = (0.79, 0.68, 0.53)
STEEL: Colour = (0.40, 0.47, 0.56)
ORANGE: Colour = (0.84, 0.55, 0.34)
TEXTILE: Colour = (0.49, 0.58, 0.60)
GREEN: Colour = (0.47, 0.60, 0.44)
LAMP: Colour = (0.95, 0.90, 0.76)
BARK: Colour = (0.47, 0.40, 0.34)
