"""Procedural maps for mobile bases, from a seed and a difficulty, shared by the batch simulator and all engines."""
