"""URDF and MJCF from anyone: read, or refused in a sentence, soon and in little memory."""

from __future__ import annotations

import os
import time
import tracemalloc
from pathlib import Path

import pytest

from rlstack.errors import UserError
from rlstack.robots import load_robot
from rlstack.robots.kind_models import check_file
from rlstack.robots.mjcf import new_world
from rlstack.robots.model import read_model
from rlstack.robots.xml_files import MAX_BYTES, MAX_DEPTH, MAX_MESH_BYTES, check_mjcf, parse_xml

ENTITIES = "".join(f'<!ENTITY e{k} "{f"&e{k - 1};" * 10}">' for k in range(1, 10))
BOMB = f'<!DOCTYPE robot [<!ENTITY e0 "0123456789">{ENTITIES}]>'
OUTSIDE = '<!DOCTYPE robot [<!ENTITY secret SYSTEM "file:///etc/hostname">]>'
BODY = "<worldbody><body name='base_link'><geom size='0.1'/></body></worldbody>"


def mjcf(inside: str = "", body: str = BODY) -> str:
    return f"<mujoco>{inside}{body}</mujoco>"


def deep(levels: int) -> str:
    return "<robot name='r'>" + "<link name='a'>" * levels + "</link>" * levels + "</robot>"


HOSTILE = {
    "entities that expand": (f"{BOMB}<robot name='&e9;'><link name='a'/></robot>", "declares a document type"),
    "an entity of another file": (f"{OUTSIDE}<robot name='r'><link name='&secret;'/></robot>", "declares a document"),
    "deep": (deep(50_000), f"more than {MAX_DEPTH} elements are within each other"),
    "many elements": ("<robot name='r'>" + "<a/>" * 60_000 + "</robot>", "more than 50,000 elements"),
    "large": ("<robot name='r'>" + " " * MAX_BYTES + "</robot>", "it has more than 8 MiB"),
    "cut off": ("<robot name='r'><link name='a'", "is not valid XML"),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("suffix", [".urdf", ".xml"])
def test_hostile_models_are_refused_in_a_sentence_soon(name: str, suffix: str, tmp_path: Path) -> None:
    text, sentence = HOSTILE[name]
    if suffix == ".xml":
        text = text.replace("robot", "mujoco")
    path = tmp_path / f"model{suffix}"
    path.write_text(text)
    tracemalloc.start()
    begin = time.process_time()
    with pytest.raises(UserError, match=sentence) as refusal:
        check_file(load_robot("crazyflie"), path)
    assert time.process_time() - begin < 2.0 and tracemalloc.get_traced_memory()[1] < 100e6
    tracemalloc.stop()
    assert str(path) in str(refusal.value) and len(str(refusal.value)) < 400


ENDLESS = {
    "<replicate count='900'><replicate count='900'><geom size='1'/></replicate></replicate>": "more than 50,000 parts",
    "<composite prefix='c' type='grid' count='4000 4000 1'/>": "at most 50,000 is allowed",
    "<flexcomp name='f' type='grid' count='900 900 900'/>": "at most 50,000 is allowed",
    "<geom size='nan'/>": "must be finite numbers",
    "<geom size='1e308'/>": "must be finite numbers",
}
WHOLE = {
    "<asset><texture name='t' builtin='flat' width='60000' height='60000' type='2d'/></asset>": "have more than",
    "<asset><texture name='t' builtin='flat' width='60000' type='skybox'/></asset>": "have more than",
    "<asset><hfield name='h' nrow='100000' ncol='100000' size='1 1 1 1'/></asset>": "have more than",
    "<size memory='20G'/>": "at most 1G is allowed",
    "<size nkey='100000000'/>": "at most 1,000 is allowed",
    "<option iterations='2000000000'/>": "at most 10,000 is allowed",
    "<visual><quality shadowsize='1000000'/></visual>": "at most 16,384 is allowed",
    "<custom><numeric name='n' size='1000000000'/></custom>": "at most 50,000 is allowed",
    "<extension><plugin plugin='mujoco.sdf.bolt'/></extension>": "loads a plugin",
    "<include file='model.xml'/>": "is included twice, or includes itself",
    "<include file='gone.xml'/>": "there is no such file beside the model",
    "<asset><mesh name='m' file='pipe.stl'/></asset>": "it is not a regular file",
    "<asset><mesh name='m' file='large.stl'/></asset>": "have more than 128 MiB",
}


@pytest.mark.parametrize("inside", [*ENDLESS, *WHOLE])
def test_what_would_make_mujoco_endless_is_refused_before_it_reads_it(inside: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.stl")
    with (tmp_path / "large.stl").open("wb") as file:
        file.truncate(MAX_MESH_BYTES + 1)
    path, body = tmp_path / "model.xml", BODY.replace("<geom", inside + "<geom") if inside in ENDLESS else BODY
    path.write_text(mjcf("" if inside in ENDLESS else inside, body))
    for read in (read_model, lambda path: new_world(world=path)):
        with pytest.raises(UserError, match={**ENDLESS, **WHOLE}[inside]):
            read(path)


def test_ordinary_models_with_includes_are_read(tmp_path: Path) -> None:
    (tmp_path / "parts.xml").write_text("<mujoco><worldbody><geom name='nan' size='0.1'/></worldbody></mujoco>")
    path = tmp_path / "model.xml"
    path.write_text(
        mjcf("<include file='parts.xml'/><size memory='10M'/>", BODY.replace("<geom", "<geom solimp='1e30'"))
    )
    check_mjcf(path)
    path.write_text(mjcf("<include file='parts.xml'/>"))
    assert read_model(path).links == ("base_link",)


def test_what_one_includes_is_checked_like_it(tmp_path: Path) -> None:
    (tmp_path / "parts.xml").write_text(f"{BOMB}<mujoco/>")
    path = tmp_path / "model.xml"
    path.write_text(mjcf("<include file='parts.xml'/>"))
    with pytest.raises(UserError, match=r"parts\.xml is refused: line 1: it declares"):
        check_mjcf(path)


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        ("<box size='1 2'/>", "size of its box: '1 2' is not allowed: must be 3 finite numbers"),
        ("<cylinder radius='1'/>", "length of its cylinder: '' is not allowed"),
        ("<sphere radius='-1'/>", "radius='-1' of its sphere must be at least 0"),
        ("<mesh filename='m' scale='1 nan 1'/>", "scale of its mesh: '1 nan 1' is not allowed"),
        ("<sphere radius='1e308'/>", "of at most 1e\\+30"),
    ],
)
def test_shapes_of_a_urdf_have_finite_sizes(shape: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "model.urdf"
    path.write_text(f"<robot name='r'><link name='a'><visual><geometry>{shape}</geometry></visual></link></robot>")
    with pytest.raises(UserError, match=sentence):
        read_model(path)


def test_a_document_without_a_type_is_parsed() -> None:
    assert parse_xml("<?xml version='1.0'?><robot name='&lt;r&gt;'/>", "it").get("name") == "<r>"
