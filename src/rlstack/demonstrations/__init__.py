"""Demonstrations of arms' tasks: recorded into datasets, shown, replayed and judged."""
