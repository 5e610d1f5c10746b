"""Policies trained elsewhere: a network from another library and a stated mapping become one policy file.

A source is a module in :mod:`rlstack.importers.sources`, found by its name; its ``IMPORTER`` reads a file of that
library into a :class:`rlstack.importers.network.Network`. Other packages add sources by the entry-point group
``rlstack.importers``.
"""

from rlstack.registry import Registry

SOURCES = Registry("source of policies", "rlstack.importers.sources", "IMPORTER", "rlstack.importers")
"""Sources by the name that ``rlstack import --from`` takes."""
