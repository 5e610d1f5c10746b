"""Learning: recipes, algorithms and their loop, checkpoints, and export to a policy file."""
