"""Simulators: the batch simulator, and backends that put an engine behind the common protocol."""
