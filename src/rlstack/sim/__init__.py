"""Simulators: the batch simulator, and physics engines behind the backend protocol."""
