"""What the tasks of quadrotors share."""
