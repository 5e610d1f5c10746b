"""Packages whose requirements do not fit rlstack's, each in a Python environment and worker processes of its own."""
