"""Replay buffers, datasets and demonstrations; without torch."""
