"""What the exploration task is made of."""
