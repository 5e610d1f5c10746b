"""Tasks of quadrupeds."""
