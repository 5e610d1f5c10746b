"""`rlstack sweep`: trainings over settings and seeds, and what they say."""
