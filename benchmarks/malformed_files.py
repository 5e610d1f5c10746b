#!/usr/bin/env python3
"""Load malformed and hostile files of every kind that a user gives, and count what is not refused as it must be.

Policy files, robot files, the URDF and MJCF that they name, recipes, worlds, verification records and devices' files
are mutated from good ones: bytes replaced, cut short, cut out and doubled; keys removed, renamed and doubled; values
of other types, not finite, huge, tiny, of the wrong sign, dates and tags; deep nesting, aliases and entities that
expand, text that is not UTF-8; for policies also operators of other kinds and domains, loops, shapes, external data and
edited contracts, sealed anew. Workers load them, each with 1 GB beyond what it has after loading good files.

A file that is refused in a sentence (UserError) is fine. A failure is another exception, a dead worker, more than
--limit seconds or 1 GB, and a file that is accepted although it must not be:

- a policy whose outputs are not finite or beyond its contract's ranges, or that the unchanged one's record vouches for;
- a robot, recipe, world or device's file with a number that is not finite or that its own schema refuses, and a robot
  of which no URDF, or no guard, can be made but with a sentence;
- a URDF or MJCF that passes for the robot although a mass, place or limit in it is not finite;
- a record that counts although its content is not the signed one.

    python benchmarks/malformed_files.py [--inputs 5000] [--kinds policy robot ...] [--seed 0]

--inputs counts files of each kind. The exit status is 1 if there was a failure.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import random
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import yaml

from rlstack import schema
from rlstack.bringup.verification_check import require_verification
from rlstack.errors import UserError
from rlstack.hardware.devices.leader import Leader
from rlstack.hardware.devices.script import Script
from rlstack.kinds import find_kind
from rlstack.policies import load_policy
from rlstack.policies.signing import KEY_VARIABLE, signed
from rlstack.resources import find_resource
from rlstack.robots import load_robot
from rlstack.robots.kind_models import check_file, robot_model
from rlstack.robots.mjcf import to_mjcf
from rlstack.robots.spec import robot_files
from rlstack.robots.urdf import to_urdf
from rlstack.sim.world import load_world

MEMORY_BYTES = 1_000_000_000
LIMIT_S = 10.0
NUMBERS: tuple[Any, ...] = (math.nan, math.inf, -math.inf, 1e308, -1e308, 1e-308, 0, -1, 0.5, 2**63, 10**400, 1e9, -0.0)
OTHERS: tuple[Any, ...] = (None, True, "", "nan", "\x00", "x" * 5000, [], {}, [[]], {"a": {}}, [1e308] * 50, "../" * 40)
LINES = ("<<: *x", "- 2026-13-45", "!!python/object:os.system x", "!!binary x", "? [a]", "\t", "a: &a [*a]", "1e400")
WORDS = (
    "nan",
    "inf",
    "-1",
    "1e308",
    "-1e308",
    "0",
    "",
    "1 2 3 4",
    "x",
    "1e-308",
    "99999999999999999999",
    "&amp;",
    "../..",
)
"""Values that replace numbers, values of any type, lines of YAML, and attributes of XML."""


NUMERIC = {
    "origin": ("xyz", "rpy"),
    "axis": ("xyz",),
    "mass": ("value",),
    "inertia": ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"),
    "box": ("size",),
    "cylinder": ("radius", "length"),
    "sphere": ("radius",),
    "mesh": ("scale",),
    "limit": ("lower", "upper", "velocity", "effort"),
}
"""Numbers of a URDF."""


class Accepted(Exception):
    """A file was accepted although it must not be."""


@dataclass(frozen=True)
class Kind:
    """One kind of file: its good samples, how one is mutated, and how one is loaded and judged."""

    samples: Callable[[], list[bytes]]
    mutate: Callable[[bytes, random.Random], bytes]
    load: Callable[[Path, bytes, int], None]
    """Called with the file, the bytes of the good one and which that is."""
    suffix: str


# Mutations ------------------------------------------------------------------------------------------------------------


def bytes_changed(data: bytes, chance: random.Random) -> bytes:
    """Return bytes that are replaced, cut, doubled, or not UTF-8."""
    found, way = bytearray(data), chance.randrange(6)
    at, to = sorted(chance.randrange(len(found) + 1) for _ in range(2))
    if way == 0:
        return bytes(found[:at])
    if way == 1:
        for _ in range(chance.randrange(1, 9)):
            found[chance.randrange(len(found))] ^= 1 << chance.randrange(8)
    elif way == 2:
        del found[at : min(to, at + 400)]
    elif way == 3:
        found[at:at] = found[at : min(to, at + 2000)]
    elif way == 4:
        found[at:at] = chance.choice(
            (b"\xff\xfe", b"\x00" * 64, b"\xc3\x28", b"PK\x03\x04", os.urandom(8), b"\xed\xa0\x80")
        )
    else:
        found[at:to] = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 64)))
    return bytes(found)


def places(data: Any, found: list[tuple[Any, Any]] | None = None) -> list[tuple[Any, Any]]:
    """Return each container of plain data with each of its keys or indices."""
    found = [] if found is None else found
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, item in items:
        found.append((data, key))
        places(item, found)
    return found


def plain_changed(data: Any, chance: random.Random) -> Any:
    """Return plain data with some keys and values changed."""
    data = copy.deepcopy(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        options = places(data)
        if not options:
            return chance.choice(OTHERS)
        inside, key = chance.choice(options)
        way, old = chance.randrange(8), inside[key]
        if way == 0:
            del inside[key]
        elif way == 1 and isinstance(inside, dict):
            inside[chance.choice((f"{key}x", "", 7, None, "name", "kind"))] = inside.pop(key)
        elif way == 2 and isinstance(inside, list):
            inside.extend([old] * chance.choice((1, 50)))
        elif way == 3:
            inside[key] = chance.choice(OTHERS)
        elif way == 4 and isinstance(old, (int, float)) and abs(old) < 2**63:
            inside[key] = old * chance.choice((-1, 1e3, 1e-3, 1e12, 1e-12))
        elif way == 5:
            other, at = chance.choice(options)
            inside[key] = (
                copy.deepcopy(other[at]) if at in other or (isinstance(other, list) and at < len(other)) else None
            )
        else:
            inside[key] = chance.choice(NUMBERS)
    return data


def yaml_changed(data: bytes, chance: random.Random) -> bytes:
    """Return YAML with changed data or text."""
    way = chance.randrange(10)
    if way < 5:
        return yaml.safe_dump(plain_changed(yaml.safe_load(data), chance), sort_keys=False).encode()
    if way < 7:
        return bytes_changed(data, chance)
    lines = data.decode().splitlines()
    at = chance.randrange(len(lines) + 1)
    if way == 7:
        lines.insert(at, " " * chance.choice((0, 2, 4)) + chance.choice(LINES))
    elif way == 8:
        levels, each = chance.randrange(3, 12), chance.randrange(2, 12)
        lines += ["a0: &a0 [x]"]
        lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * each)}]" for n in range(1, levels)]
    else:
        deep = chance.choice((60, 3000, 200_000))
        lines.insert(at, f"deep: {'[' * deep}{']' * deep}")
    return "\n".join(lines).encode()


def json_changed(data: bytes, chance: random.Random) -> bytes:
    """Return JSON with changed data or text."""
    if chance.random() < 0.25:
        return bytes_changed(data, chance)
    if chance.random() < 0.05:
        return b"[" * chance.choice((60, 200_000))
    return json.dumps(plain_changed(json.loads(data), chance)).encode()


def xml_changed(data: bytes, chance: random.Random) -> bytes:
    """Return XML with changed attributes, elements or text."""
    import re

    text, way = data.decode(), chance.randrange(10)
    if way < 2:
        return bytes_changed(data, chance)
    values = list(re.finditer(r'(\w+)="([^"]*)"', text))
    if way < 6:
        for found in sorted(
            chance.sample(values, min(len(values), chance.choice((1, 1, 2, 5)))), key=lambda m: -m.start()
        ):
            word = chance.choice((*WORDS, chance.choice(values).group(2)))
            name = chance.choice((found.group(1),) * 4 + ("file", "count", "size", "class"))
            text = f'{text[: found.start()]}{name}="{word}"{text[found.end() :]}'
        return text.encode()
    tags = list(re.finditer(r"<[^<>]*>", text))
    one, other = sorted(chance.sample(tags, 2), key=lambda m: m.start())
    if way == 6:
        return (text[: one.start()] + text[one.end() :]).encode()
    if way == 7:
        return (text[: one.start()] + text[one.start() : other.end()] + text[one.start() :]).encode()
    added = (
        "<replicate count='100000'><geom size='1'/></replicate>",
        "<composite prefix='c' type='grid' count='2000 2000 1' spacing='1'/>",
        "<include file='/dev/zero'/>",
        "<include file='model.xml'/>",
        "<asset><texture name='t' builtin='flat' width='100000' height='100000' type='2d'/></asset>",
        "<asset><mesh name='m' file='/dev/zero'/></asset>",
        "<size memory='900G'/>",
        "<custom><numeric name='n' size='2000000000'/></custom>",
        "<body>" * 400 + "</body>" * 400,
        "<body>" * 40_000,
        "<default><default class='main'/></default>",
        "<frame euler='1e300 0 0'/>",
        "<keyframe><key qpos='nan'/></keyframe>",
        "<flexcomp name='f' type='grid' count='500 500 500' spacing='1 1 1'/>",
        "<option timestep='-1' iterations='2000000000'/>",
        "<!-- " + "x" * 100_000,
    )
    bomb = "<!DOCTYPE r [<!ENTITY a 'xxxxxxxxxx'>" + "".join(
        f"<!ENTITY {chr(98 + n)} '{f'&{chr(97 + n)};' * 10}'>" for n in range(8)
    )
    if way == 8:
        return (text[: one.end()] + chance.choice(added) + text[one.end() :]).encode()
    start = 1 + text.index("?>") + 1 if text.startswith("<?xml") else 0
    entity = chance.choice(("&i;", "&x;", "&a;"))
    return (text[:start] + bomb + "]>" + text[start:].replace('="', f'="{entity}', 1)).encode()


def policy_changed(data: bytes, chance: random.Random) -> bytes:
    """Return a policy file with changed bytes, graph or contract; the latter two sealed anew."""
    from rlstack.policies.serialization import METADATA_KEY, _canonical

    way = chance.randrange(10)
    if way < 2:
        return bytes_changed(data, chance)
    model = onnx.ModelProto.FromString(data)
    (entry,) = [p for p in model.metadata_props if p.key == METADATA_KEY]
    contract = json.loads(entry.value)
    if way < 5:
        contract = plain_changed(contract, chance)
    else:
        graph_changed(model, chance)
    if chance.random() < 0.1:
        return model.SerializeToString()
    import hashlib

    del model.metadata_props[:]
    body = model.SerializeToString(deterministic=True)
    try:
        if isinstance(contract, dict):
            contract["sha256"] = ""
            contract["sha256"] = hashlib.sha256(body + _canonical(contract)).hexdigest()
        text = _canonical(contract).decode()
    except (ValueError, TypeError):
        text = json.dumps(contract)
    tail = onnx.ModelProto(metadata_props=[onnx.StringStringEntryProto(key=METADATA_KEY, value=text)])
    return body + tail.SerializeToString(deterministic=True)


def graph_changed(model: Any, chance: random.Random) -> None:
    """Change the graph of a model in place."""
    helper, graph = onnx.helper, model.graph
    node = chance.choice(graph.node)
    way = chance.randrange(14)
    if way == 0:
        node.op_type = chance.choice(
            ("Loop", "If", "Scan", "RandomNormal", "Tile", "Expand", "Abs", "PythonOp", "Gemm", "")
        )
    elif way == 1:
        node.domain = chance.choice(("com.microsoft", "ai.onnx.ml", "evil", "ai.onnx.preview.training"))
    elif way == 2:
        del graph.node[chance.randrange(len(graph.node))]
    elif way == 3:
        graph.node.extend([node] * chance.choice((1, 3000)))
    elif way == 4 and node.input:
        node.input[chance.randrange(len(node.input))] = chance.choice((*(i.name for i in graph.input), "gone", ""))
    elif way == 5 and node.output:
        node.output[0] = chance.choice((*(i.name for i in graph.output), "gone", ""))
    elif way == 6 and graph.initializer:
        one = chance.choice(graph.initializer)
        one.dims[:] = chance.choice(([2**40], [-1], [2**31, 2**31], [0], [], list(one.dims)[::-1], [10**6, 10**4]))
    elif way == 7 and graph.initializer:
        one = chance.choice(graph.initializer)
        one.data_location = onnx.TensorProto.EXTERNAL
        one.external_data.add(key="location", value=chance.choice(("/etc/passwd", "../x", "weights.bin", "/dev/zero")))
    elif way == 8 and graph.initializer:
        one = chance.choice(graph.initializer)
        values = bytearray(one.raw_data)
        if len(values) >= 4:
            at = 4 * chance.randrange(len(values) // 4)
            values[at : at + 4] = np.float32(chance.choice((np.nan, np.inf, 3e38, -3e38, 1e-40))).tobytes()
            one.raw_data = bytes(values)
    elif way == 9 and graph.initializer:
        chance.choice(graph.initializer).data_type = chance.choice((0, 1, 2, 7, 8, 9, 11, 16, 99))
    elif way == 10:
        side = chance.choice((graph.input, graph.output))
        shape = chance.choice(side).type.tensor_type.shape
        if shape.dim:
            chance.choice(shape.dim).dim_value = chance.choice((0, -1, 1, 2**40, 10**7))
    elif way == 11:
        body = helper.make_graph([], "b", [], [])
        graph.node.append(helper.make_node("Loop", ["", ""], ["never"], body=body))
    elif way == 12:
        model.opset_import.extend([helper.make_opsetid(chance.choice(("", "evil")), chance.choice((0, 1, 9, 999)))])
        model.ir_version = chance.choice((0, 3, 8, 99, model.ir_version))
    else:
        for attribute in node.attribute:
            attribute.i, attribute.f = chance.choice((2**62, -1, 0)), chance.choice((math.nan, 1e38, 0.0))
        node.attribute.extend([helper.make_attribute(chance.choice(("axis", "value", "to", "perm")), 2**40)])


# Loading and judging --------------------------------------------------------------------------------------------------


def finite(data: Any, where: str) -> None:
    """Raise :class:`Accepted` for a number in plain data that is not finite."""
    for inside, key in places({"": data}):
        item = inside[key]
        if isinstance(item, float) and not math.isfinite(item):
            raise Accepted(f"{where}: {key} is {item}")


def judged(instance: Any, where: str) -> None:
    """Refuse an instance with a number that is not finite or that its own schema would refuse."""
    data = without_none(schema.to_data(instance))
    finite(data, where)
    try:
        schema.load(type(instance), data, where)
    except UserError as error:
        raise Accepted(f"{where} was loaded, and its schema says: {error}") from error


def without_none(data: Any) -> Any:
    """Return plain data without keys whose value is None, which are defaults."""
    if isinstance(data, dict):
        return {key: without_none(item) for key, item in data.items() if item is not None}
    return [without_none(item) for item in data] if isinstance(data, list) else data


def load_one_policy(path: Path, good: bytes, index: int) -> None:
    """Load, step and check the proof of a policy."""
    robot = _robot_of(index)
    policy = load_policy(path, robot=robot)
    contract, chance = policy.contract, np.random.default_rng(0)
    for _ in range(3):
        inputs = {}
        for port in contract.inputs:
            shape = [n if isinstance(n, int) else 3 for n in port.shape]
            inputs[port.name] = chance.normal(0.0, 1.0, shape)
        try:
            outputs = policy.step(inputs)
        except ValueError:  # refused inputs or outputs: nothing is commanded
            continue
        for port in contract.outputs:
            low, high = (np.asarray(x, dtype=float) for x in port.limits) if port.limits is not None else (-1e9, 1e9)
            value = outputs[port.name]
            if not np.isfinite(value).all() or (value < low).any() or (value > high).any():
                raise Accepted(f"its output {port.name} is {value}")
    if path.read_bytes() != good:
        record = path.with_name("verify.json")
        record.write_bytes(_policy_sample(index).with_name("verify.json").read_bytes())
        try:
            require_verification(path, robot)
        except UserError:
            return
        raise Accepted("the record of the unchanged file vouches for it")


def load_one_robot(path: Path, good: bytes, index: int) -> None:
    """Load a robot and make its URDF and its guard."""
    robot = load_robot(path)
    judged(robot, "the robot file")
    assert len(robot.sha256) == 64
    find_kind(robot.kind).load("guard").CONFIG.from_robot(robot)
    model = robot_model(robot)
    if not np.isfinite(model.inertial.inertia_kg_m2).all():
        raise Accepted("its inertia is not finite")
    to_urdf(robot)


def load_one_model(path: Path, good: bytes, index: int) -> None:
    """Check a URDF or MJCF against the Crazyflie's file."""
    model = check_file(load_robot("crazyflie"), path)
    numbers = [model.inertial.mass_kg, *model.inertial.inertia_kg_m2.ravel(), *model.inertial.centre_m]
    numbers += [x for joint in model.joints for x in (*joint.position, *joint.axis)]
    if not np.isfinite(numbers).all() or any(np.isnan([j.lower, j.upper, j.effort]).any() for j in model.joints):
        raise Accepted("a number of it is not finite")


def load_one_arm(path: Path, good: bytes, index: int) -> None:
    """Load an arm whose file names the model, and make its URDF."""
    file = path.with_suffix(".yaml")
    data = yaml.safe_load(robot_files()["so100"].read_text())
    data["model"] = path.name
    for key in ("links", "arms"):
        data.pop(key, None)
    file.write_text(yaml.safe_dump(data))
    robot = load_robot(file)
    for element in ET.fromstring(to_urdf(robot)).iter():
        for name, text in element.attrib.items():
            if name in NUMERIC.get(element.tag, ()) and not np.isfinite([float(word) for word in text.split()]).all():
                raise Accepted(f"its URDF has <{element.tag} {name}='{text}'>")


def load_one_recipe(path: Path, good: bytes, index: int) -> None:
    """Load a recipe."""
    from rlstack.training.recipe import load_recipe

    judged(load_recipe(path), "the recipe")


def load_one_world(path: Path, good: bytes, index: int) -> None:
    """Load a world, and look at what it is made of."""
    world = load_world(path)
    for obstacle in world.obstacles:
        finite(schema.to_data(obstacle), f"the obstacle {obstacle.name}")
    if not np.isfinite(np.array(world.starts_m)).all():
        raise Accepted("a start is not finite")
    world.distance(np.zeros((1, 3)))


def load_one_record(path: Path, good: bytes, index: int) -> None:
    """Check whether a record counts for its policy."""
    policy = path.with_name("policy.onnx")
    if not policy.exists():
        policy.write_bytes(_policy_sample(0).read_bytes())
    path.replace(path.with_name("verify.json"))
    require_verification(policy, _robot_of(0))
    if json.loads(path.with_name("verify.json").read_bytes()) != json.loads(good):
        raise Accepted("the record counts, and its content is not the signed one")


def load_one_device(path: Path, good: bytes, index: int) -> None:
    """Read a leader arm's calibration or a script."""
    robot: Any = load_robot("so100")
    device: Any = (Leader, Script)[index](str(path), robot)
    judged(
        device._arm if index == 0 else device._moves[0], "the device's file"
    ) if index == 0 or device._moves else None


POLICIES = (("quadrotor_hover", "crazyflie"), ("arm_reach", "panda"), ("base_navigation", "turtlebot3_burger"))


def _policy_sample(index: int) -> Path:
    found = find_resource(f"policies/{POLICIES[index][0]}/policy.onnx")
    assert found is not None
    return found


@lru_cache
def _robot_of(index: int) -> Any:
    return load_robot(POLICIES[index][1])


@lru_cache
def _read(folder: str, names: tuple[str, ...] = ()) -> list[bytes]:
    found = find_resource(folder)
    assert found is not None
    return [path.read_bytes() for path in sorted(found.glob("*.yaml")) if not names or path.stem in names]


def _robots() -> list[bytes]:
    unguarded = "crowdnav_robot"  # holonomic
    return [path.read_bytes() for name, path in robot_files().items() if name != unguarded]


def _signed_record() -> list[bytes]:
    record = json.loads(_policy_sample(0).with_name("verify.json").read_bytes())
    small = {key: record[key] for key in record if key not in ("trials", "reality")}
    return [json.dumps(signed(small)).encode()]


def _devices() -> list[bytes]:
    robot = load_robot("so100")
    servos = [{"id": n + 1, "joint": drive.name, "zero": 2048} for n, drive in enumerate(robot.drives)]
    moves = [{"steps": 3, "linear": [0.1, 0.0, 0.0]}, {"steps": 2, "angular": [0.0, 0.0, 0.2], "said": "save"}]
    return [yaml.safe_dump(data).encode() for data in ({"port": "/dev/null", "servos": servos}, {"moves": moves})]


KINDS: Mapping[str, Kind] = {
    "policy": Kind(
        lambda: [_policy_sample(n).read_bytes() for n in range(len(POLICIES))], policy_changed, load_one_policy, ".onnx"
    ),
    "robot": Kind(_robots, yaml_changed, load_one_robot, ".yaml"),
    "urdf": Kind(lambda: [to_urdf(load_robot("crazyflie")).encode()], xml_changed, load_one_model, ".urdf"),
    "mjcf": Kind(lambda: [to_mjcf(load_robot("crazyflie")).encode()], xml_changed, load_one_model, ".xml"),
    "arm": Kind(lambda: [to_urdf(load_robot("so100"), frames=False).encode()], xml_changed, load_one_arm, ".urdf"),
    "recipe": Kind(lambda: _read("policies"), yaml_changed, load_one_recipe, ".yaml"),
    "world": Kind(lambda: _read("sim"), yaml_changed, load_one_world, ".yaml"),
    "record": Kind(_signed_record, json_changed, load_one_record, ".json"),
    "device": Kind(_devices, yaml_changed, load_one_device, ".yaml"),
}


# Workers --------------------------------------------------------------------------------------------------------------


def outcome(kind: Kind, samples: list[bytes], seed: int, folder: Path) -> tuple[str, str]:
    """Mutate and load one file; return "refused", "loaded" or a failure's name, and the sentence."""
    chance = random.Random(seed)
    index = chance.randrange(len(samples))
    path = folder / f"model{kind.suffix}"
    path.write_bytes(kind.mutate(samples[index], chance))
    try:
        kind.load(path, samples[index], index)
    except UserError as error:
        return "refused", str(error)
    except Accepted as error:
        return "ACCEPTED", str(error)
    except MemoryError:
        return "MEMORY", traceback.format_exc(limit=-2)
    except Exception as error:
        return "EXCEPTION", "".join(traceback.format_exception(error, limit=-3)[-4:])
    return "loaded", ""


def work(name: str, begin: int, end: int, step: int, answers: int) -> None:
    """Load files in this process, a line of JSON for each."""
    os.environ["MALLOC_ARENA_MAX"] = "1"
    kind = KINDS[name]
    with tempfile.TemporaryDirectory() as there, os.fdopen(answers, "w", buffering=1) as out:
        folder = Path(there)
        samples = kind.samples()
        for index, sample in enumerate(samples):  # the good ones, which must load
            path = folder / f"model{kind.suffix}"
            path.write_bytes(sample)
            kind.load(path, sample, index)
        held = 1024 * int(Path("/proc/self/status").read_text().split("VmSize:")[1].split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY_BYTES, held + MEMORY_BYTES))
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):  # libraries' own messages
            os.dup2(nowhere, stream)
        print(json.dumps(["ready", held, ""]), file=out)
        for seed in range(begin, end, step):
            print(json.dumps(["start", seed, ""]), file=out)
            what, said = outcome(kind, samples, seed, folder)
            print(json.dumps([what, seed, said[:2000]]), file=out)


def attack(name: str, seeds: range, limit_s: float = LIMIT_S) -> tuple[Counter[str], list[str]]:
    """Load files of one kind in a worker, which is started again if it dies; return counts and failures."""
    counts: Counter[str] = Counter()
    failures: list[str] = []
    begin = seeds.start
    while begin < seeds.stop:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.close(reading)
                work(name, begin, seeds.stop, seeds.step, writing)
                status = 0
            except BaseException:
                traceback.print_exc()
            os._exit(status)
        os.close(writing)
        at, ready = begin, False
        ended = "HANG"
        with os.fdopen(reading, "rb", buffering=0) as answers:
            rest = b""
            while select.select([answers], [], [], limit_s if ready else 180.0)[0]:
                got = answers.read(65536)
                if not got:
                    ended = "DIED"
                    break
                *lines, rest = (rest + got).split(b"\n")
                for line in lines:
                    what, seed, said = json.loads(line)
                    if what == "ready":
                        ready = True
                    elif what == "start":
                        at = seed
                    else:
                        begin = seed + seeds.step
                        counts[what] += 1
                        if what.isupper():
                            failures.append(f"{name} {seed}: {what} {said}")
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if not ready:
            raise SystemExit(f"{name}: a good file did not load")
        if begin < seeds.stop:
            counts[ended] += 1
            failures.append(f"{name} {at}: {ended} ({os.waitstatus_to_exitcode(status)})")
            begin = at + seeds.step
    return counts, failures


def main() -> int:
    """Attack each kind and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=5000, help="of each kind")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds for one file")
    parser.add_argument("--show", type=int, default=5, help="failures of each kind that are printed")
    options = parser.parse_args()
    failed = total = 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ[KEY_VARIABLE] = str(Path(folder) / "key")
        Path(os.environ[KEY_VARIABLE]).write_text("ab" * 32)
        os.chmod(os.environ[KEY_VARIABLE], 0o600)
        for name in options.kinds:
            begin = time.perf_counter()
            counts, failures = attack(name, range(options.seed, options.seed + options.inputs), options.limit)
            total += sum(counts.values())
            failed += len(failures)
            shown = ", ".join(f"{count:,} {what}" for what, count in sorted(counts.items()))
            print(f"{name}: {sum(counts.values()):,} files in {time.perf_counter() - begin:.0f} s: {shown}", flush=True)
            for failure in failures[: options.show]:
                print(f"  {failure}", flush=True)
    print(f"{total:,} files, {failed} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
