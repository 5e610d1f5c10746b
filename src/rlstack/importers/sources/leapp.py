"""A LEAPP bundle, such as Isaac Lab exports: a YAML file, ONNX graphs that feed each other, and initial values.

Inputs, outputs and states have names in it. What Isaac Lab's managers compute (scales, default positions, the last
action) is in the graphs, so a mapping says which signal each input is, and mostly no scales.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from rlstack.errors import UserError, unknown_name
from rlstack.importers.mapping import NetworkSettings
from rlstack.importers.network import MAX_BYTES, Network, NetworkInput, check_settings
from rlstack.importers.pipeline import (
    Feedback,
    Part,
    Pipeline,
    Place,
    pipeline_network,
    read_part,
    sizes_of,
    value_of,
)
from rlstack.libraries import import_library
from rlstack.yaml_files import read_bytes, read_yaml


def read_leapp(path: Path, settings: NetworkSettings, folder: Path) -> Network:
    """Return the network of a bundle: its YAML file, or the folder that holds it."""
    check_settings(settings, "leapp", "output")
    path = _description(path)
    where = str(path)
    data = read_yaml(path, "the LEAPP bundle")
    if not isinstance(data, Mapping) or not all(isinstance(data.get(key), Mapping) for key in ("models", "pipeline")):
        raise UserError(f"{where} is no LEAPP bundle: it needs the sections models and pipeline.")
    try:
        return _network(path, data, settings, where)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise UserError(
            f"{where} is not as LEAPP writes it ({type(error).__name__}: {error}). Export the bundle again."
        ) from error


def _description(path: Path) -> Path:
    if not path.is_dir():
        return path
    found = sorted(path.glob("*.yaml"))
    if len(found) != 1:
        raise UserError(f"{path} has {len(found)} YAML files, and a LEAPP bundle has one: give the path of the file.")
    return found[0]


def _network(path: Path, data: Mapping[str, Any], settings: NetworkSettings, where: str) -> Network:
    pipeline = data["pipeline"]
    models: dict[str, Mapping[str, Any]] = {str(name): about for name, about in data["models"].items()}
    hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()}
    parts = [_part(path, name, about, hashes) for name, about in models.items()]
    flows = {
        _place(target, models, where): _place(source, models, where)
        for source, targets in (pipeline.get("data_flow") or {}).items()
        for target in targets
    }
    order = list(models)
    for target, source in flows.items():
        if order.index(source[0]) >= order.index(target[0]):
            raise UserError(f"{where}: data_flow: {'/'.join(source)} comes after {'/'.join(target)}, which it feeds.")
    initial = _initial(path, pipeline.get("initial_values"), hashes)
    feedback = [
        Feedback(_place(source, models, where), _place(target, models, where), initial.get(target))
        for source, targets in (pipeline.get("feedback_flow") or {}).items()
        for target in targets
    ]
    inputs = {}
    several = len(pipeline["inputs"]) > 1
    for node, names in pipeline["inputs"].items():
        for name in names:
            about = _about(models, (node, name), "inputs", where)
            part = next(part for part in parts if part.name == node)
            entry = value_of(part.model, name, "input")
            size = sizes_of(entry)[-1:] if entry is not None else []
            shown = f"{node}/{name}" if several else str(name)
            inputs[node, name] = NetworkInput(shown, size[0] if size else 0, _elements(about))
    output = _output(pipeline["outputs"], settings.output, where)
    names = _elements(_about(models, output, "outputs", where))
    rate = float((pipeline.get("configs") or {}).get("frequency") or 0.0)
    facts = {"source_files": hashes}
    network = pipeline_network(Pipeline(parts, inputs, output, flows, feedback), where, facts)
    return replace(network, rate_hz=rate, action_names=names)


def _part(path: Path, name: str, about: Mapping[str, Any], hashes: dict[str, str]) -> Part:
    parameters = about["parameters"]
    backend, file = str(parameters["backend"]), str(parameters["model_path"])
    where = f"{path}: {name}"
    if backend != "onnx":
        raise UserError(
            f"{where} was exported with '{backend}', which is code rather than a graph. Export it again with"
            " onnx-dynamo or onnx-torchscript."
        )
    found = _inside(path, file)
    data = read_bytes(found, f"the graph {name}", MAX_BYTES)
    hashes[file] = hashlib.sha256(data).hexdigest()
    if hashes[file] != parameters["sha256sum"]:
        raise UserError(
            f"{found} is not the file that {path.name} names: its SHA-256 is {hashes[file][:16]}..., and by the bundle"
            f" {str(parameters['sha256sum'])[:16]}.... Copy the whole bundle again."
        )
    return read_part(name, data, str(found))


def _inside(path: Path, file: str) -> Path:
    named = PurePosixPath(file)
    if named.is_absolute() or ".." in named.parts:
        raise UserError(f"{path}: {file} is not within the bundle's folder.")
    return path.parent / named


def _initial(path: Path, file: Any, hashes: dict[str, str]) -> dict[str, Any]:
    if not file:
        return {}
    load = import_library("safetensors.numpy", "leapp").load
    data = read_bytes(_inside(path, str(file)), "the initial values", MAX_BYTES)
    hashes[str(file)] = hashlib.sha256(data).hexdigest()
    try:
        return dict(load(data))
    except Exception as error:  # safetensors raises kinds of its own
        raise UserError(
            f"{path.parent / str(file)} holds no initial values: {error}. Copy the bundle again."
        ) from error


def _place(text: str, models: Mapping[str, Any], where: str) -> Place:
    node, slash, name = text.partition("/")
    if not slash or node not in models:
        raise UserError(f"{where}: pipeline: '{text}' is not NODE/NAME of one of {', '.join(models)}.")
    return node, name


def _about(models: Mapping[str, Any], place: Place, kind: str, where: str) -> Mapping[str, Any]:
    for about in models[_place("/".join(place), models, where)[0]][kind]:
        if about["name"] == place[1]:
            found: Mapping[str, Any] = about
            return found
    raise UserError(f"{where}: the graph {place[0]} has no {place[1]} among its {kind}.")


def _output(outputs: Mapping[str, Any], chosen: str, where: str) -> Place:
    places = [(str(node), str(name)) for node, names in outputs.items() for name in names]
    named = {"/".join(place): place for place in places}
    if len({name for _, name in places}) == len(places):
        named |= {name: (node, name) for node, name in places}
    if chosen:
        if chosen not in named:
            raise UserError(f"{where}: network.output: {unknown_name('output of the bundle', chosen, sorted(named))}")
        return named[chosen]
    if len(places) != 1:
        raise UserError(
            f"{where} has the outputs {', '.join('/'.join(p) for p in places) or 'none'}. Name the actions in"
            " network.output of the mapping."
        )
    return places[0]


def _elements(about: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a vector's elements: LEAPP has a list for each axis, the last being the vector's."""
    found = about.get("element_names")
    if not isinstance(found, list) or not found or not isinstance(found[-1], list):
        return ()
    return tuple(map(str, found[-1]))


IMPORTER = read_leapp
