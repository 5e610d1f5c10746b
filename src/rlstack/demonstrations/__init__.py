"""Demonstrations of arm tasks: recorded into datasets, summarised, replayed and filtered."""
