"""One module for each simulated backend; its name is the backend's name."""
