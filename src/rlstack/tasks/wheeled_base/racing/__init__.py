"""What the racing task is made of."""
