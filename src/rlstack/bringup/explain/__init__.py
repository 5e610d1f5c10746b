"""`rlstack explain`: why a recorded robot did what it did."""
