"""A plain ONNX graph: one or several inputs, one output of actions, and recurrent states of any number and layout."""

from __future__ import annotations

from pathlib import Path

from rlstack.errors import UserError, unknown_name
from rlstack.importers.mapping import NetworkSettings
from rlstack.importers.network import MAX_BYTES, Network, NetworkInput, check_settings
from rlstack.importers.pipeline import Feedback, Pipeline, inputs_of, pipeline_network, read_part, sizes_of, value_of
from rlstack.yaml_files import read_bytes

_PART = "graph"


def read_onnx(path: Path, settings: NetworkSettings, folder: Path) -> Network:
    """Return the network of an ONNX file.

    Its inputs are the observation, except those that ``settings.states`` names; these start at zero.
    """
    where = str(path)
    check_settings(settings, "onnx", "output", "states")
    part = read_part(_PART, read_bytes(path, "the ONNX file", MAX_BYTES), where)
    inputs, outputs = inputs_of(part.model), [entry.name for entry in part.model.graph.output]
    for state, source in settings.states.items():
        if state not in inputs:
            raise UserError(f"{where}: network.states: {unknown_name('input of the graph', state, inputs)}")
        if source not in outputs:
            raise UserError(f"{where}: network.states: {unknown_name('output of the graph', source, outputs)}")
    seen = [name for name in inputs if name not in settings.states]
    given = [name for name in outputs if name not in settings.states.values()]
    if settings.output and settings.output not in outputs:
        raise UserError(f"{where}: network.output: {unknown_name('output of the graph', settings.output, outputs)}")
    if not seen or (len(given) != 1 and not settings.output):
        raise UserError(
            f"{where} has the inputs {', '.join(inputs)} and the outputs {', '.join(outputs)}. Name the actions in"
            " network.output and every recurrent input with the output that feeds it in network.states."
        )
    entries = {}
    for name in seen:
        entry = value_of(part.model, name, "input")
        sizes = sizes_of(entry) if entry is not None else []
        entries[_PART, name] = NetworkInput(name, sizes[-1] if sizes else 0)
    feedback = [Feedback((_PART, source), (_PART, state)) for state, source in settings.states.items()]
    action = (_PART, settings.output or given[0])
    return pipeline_network(Pipeline([part], entries, action, feedback=feedback), where, {})


IMPORTER = read_onnx
