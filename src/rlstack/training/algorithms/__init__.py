"""Learning algorithms, one module for each, named after it."""
