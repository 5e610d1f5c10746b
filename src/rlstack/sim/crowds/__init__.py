"""Crowds of pedestrians around mobile bases: walking models, scenes, moving obstacles."""
