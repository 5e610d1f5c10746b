"""Read URDF and MJCF files from anyone: no entities, bounded in size, depth and what they make an engine allocate."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from xml.parsers import expat

from rlstack.errors import UserError
from rlstack.yaml_files import read_text

MAX_BYTES = 8 * 2**20
"""Size of a model file; meshes are files of their own."""

MAX_DEPTH = 100
"""Elements within each other: each link of an MJCF is within its parent."""

MAX_ELEMENTS = 50_000
"""Elements of a model and of all that it includes, those of a ``replicate`` counted as often as they are made."""

MAX_MESH_BYTES = 128 * 2**20
"""Size of one mesh, texture or height field, and of all of a model together."""

MAX_NUMBER = 1e30
"""Magnitude of a number: models write 1e30 for no limit."""

_MAX_FILES = 100
"""MJCF files that one includes."""

_COUNTS: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("nuser_actuator", "nuser_body", "nuser_cam", "nuser_geom", "nuser_jnt"), 1_000),
        **dict.fromkeys(("nuser_sensor", "nuser_site", "nuser_tendon", "nkey", "nsample", "num", "interval"), 1_000),
        **dict.fromkeys(("nconmax", "njmax", "nuserdata"), 1_000_000),
        **dict.fromkeys(("iterations", "ls_iterations", "noslip_iterations"), 10_000),
        **dict.fromkeys(("ccd_iterations", "sdf_iterations", "sdf_initpoints"), 10_000),
        **dict.fromkeys(("numslices", "numstacks", "numquads", "maxhullvert", "params"), 10_000),
        **dict.fromkeys(("offwidth", "offheight", "shadowsize"), 16_384),
        **dict.fromkeys(("offsamples",), 64),
        **dict.fromkeys(("count", "cellcount"), MAX_ELEMENTS),
        **dict.fromkeys(("resolution", "gridsize"), 2**26),
    }
)
"""Attributes of an MJCF that say how many of something there are: the greatest product of their numbers."""

_AREAS: Mapping[str, tuple[str, str]] = MappingProxyType({"texture": ("width", "height"), "hfield": ("nrow", "ncol")})
_MAX_AREA = 2**26
"""Pixels of all generated textures and points of all generated height fields together."""

_MAX_ARENA = 2**30
"""Bytes of MuJoCo's working memory."""

_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50, "e": 2**60}


def read_xml(path: Path, what: str) -> str:
    """Return the text of an XML file; raise ``UserError`` if it cannot be read, is too large, or is no text.

    Args:
        path: The file.
        what: Its name in errors, such as ``the model file``.
    """
    return read_text(path, what, max_bytes=MAX_BYTES)


def parse_xml(text: str, where: str) -> ET.Element:
    """Return the root element of an XML document.

    Raises:
        UserError: It is no XML, declares a document type or entities, or is beyond the bounds of this module; ``where``
            names it.
    """
    _check(text, where)
    try:
        return ET.fromstring(text)
    except (ET.ParseError, ValueError, LookupError) as error:
        raise UserError(f"{where} is not valid XML: {error}.") from error


class _TooMuch(Exception):
    """The document is beyond one of the bounds."""


def _check(text: str, where: str) -> None:
    """Parse without building anything, so that a refused document costs no memory."""
    if len(text) > MAX_BYTES:
        raise UserError(f"{where} has more than {MAX_BYTES // 2**20} MiB. Check that it is the right file.")
    parser = expat.ParserCreate()
    depth = elements = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth, elements
        depth, elements = depth + 1, elements + 1
        if depth > MAX_DEPTH:
            raise _TooMuch(f"line {parser.CurrentLineNumber}: more than {MAX_DEPTH} elements are within each other")
        if elements > MAX_ELEMENTS:
            raise _TooMuch(f"line {parser.CurrentLineNumber}: more than {MAX_ELEMENTS:,} elements")

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1

    def declares(*_: object) -> None:
        raise _TooMuch(
            f"line {parser.CurrentLineNumber}: it declares a document type or entities, which models do not need:"
            " remove <!DOCTYPE ...>"
        )

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = declares
    try:
        parser.Parse(text, True)
    except _TooMuch as error:
        raise UserError(f"{where} is refused: {error}.") from error
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise UserError(f"{where} is not valid XML: {error}.") from error


def check_mjcf(path: Path, what: str = "the model file") -> None:
    """Refuse an MJCF, with all that it includes, that would take MuJoCo long or much memory to compile.

    Args:
        path: The file.
        what: Its name in errors.

    Raises:
        UserError: It, or a file that it names, cannot be read, is no XML, or is beyond the bounds of this module.
    """
    _MjcfCheck(path).add(path, what)


def check_meshes(files: Iterable[Path], where: str) -> None:
    """Refuse the meshes of a model that together have more than :data:`MAX_MESH_BYTES`; ``where`` names the model."""
    total = sum(path.stat().st_size for path in set(files))
    if total > MAX_MESH_BYTES:
        raise UserError(
            f"{where} is refused: its meshes have {total / 2**20:.0f} MiB, and at most {MAX_MESH_BYTES // 2**20} MiB"
            " are allowed: simplify them."
        )


class _MjcfCheck:
    """Adds up what an MJCF and the files that it includes make."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._elements = self._area = self._bytes = 0
        self._files: list[Path] = []

    def add(self, path: Path, what: str) -> None:
        """Check one file, and those that it includes."""
        where = str(path)
        if len(self._files) >= _MAX_FILES:
            raise UserError(f"{self._path} is refused: it includes more than {_MAX_FILES} files.")
        self._files.append(path)
        root = parse_xml(read_xml(path, what), where)
        folders = _folders(root, path)
        for element, times in _made(root):
            self._elements += times
            if self._elements > MAX_ELEMENTS:
                raise UserError(f"{where} is refused: it makes more than {MAX_ELEMENTS:,} parts (<{element.tag}>).")
            self._element(element, times, where, folders)

    def _element(self, element: ET.Element, times: int, where: str, folders: tuple[Path, ...]) -> None:
        tag, at = element.tag, f"{where} is refused: <{element.tag}"
        if tag in ("plugin", "extension"):
            raise UserError(f"{at}> loads a plugin of MuJoCo, which models here do not have: remove it.")
        for name, text in element.attrib.items():
            _check_numbers(text, f"{at} {name}", name)
            if name in _COUNTS and (most := _COUNTS[name]) < (found := _product(text)):
                raise UserError(f"{at} {name}='{text[:40]}'>: at most {most:,} is allowed, and it is {found:g}.")
        if tag == "size" and _bytes(element.get("memory", "0")) > _MAX_ARENA:
            raise UserError(f"{at} memory='{element.get('memory')}'>: at most {_MAX_ARENA // 2**30}G is allowed.")
        if tag == "numeric" and _product(element.get("size", "0")) > MAX_ELEMENTS:
            raise UserError(f"{at} size='{element.get('size')}'>: at most {MAX_ELEMENTS:,} is allowed.")
        if tag in ("composite", "flexcomp"):
            self._elements += times * int(_product(element.get("count", "1")))
        if tag in _AREAS:
            one, other = (_product(element.get(name, "0")) for name in _AREAS[tag])
            # a cube's texture has six squares of its width, whatever its height says
            self._area += int(min(max(one * other, 6.0 * one * one if tag == "texture" else 0.0), 1e18))
            if self._area > _MAX_AREA:
                raise UserError(f"{at}>: with it, textures and height fields have more than {_MAX_AREA:,} points.")
        self._files_of(element, at, folders)

    def _files_of(self, element: ET.Element, at: str, folders: tuple[Path, ...]) -> None:
        for name in ("file", "fileback", "filedown", "filefront", "fileleft", "fileright", "fileup"):
            if not (named := element.get(name)):
                continue
            found = next((p for folder in folders if (p := folder / named).exists()), None)
            if found is None:
                raise UserError(f"{at} {name}='{named}'>: there is no such file beside the model.")
            if not found.is_file():
                raise UserError(f"{at} {name}='{named}'>: it is not a regular file.")
            if element.tag in ("include", "model"):
                if any(found.samefile(known) for known in self._files):
                    raise UserError(f"{at} {name}='{named}'>: it is included twice, or includes itself.")
                self.add(found, "the included file")
                continue
            self._bytes += found.stat().st_size
            if self._bytes > MAX_MESH_BYTES:
                raise UserError(
                    f"{at} {name}='{named}'>: with it, meshes and pictures have more than"
                    f" {MAX_MESH_BYTES // 2**20} MiB."
                )


def _folders(root: ET.Element, path: Path) -> tuple[Path, ...]:
    """Return the folders in which files that an MJCF names may be."""
    base = path.absolute().parent
    named = [c.get(key) for c in root.iter("compiler") for key in ("meshdir", "texturedir", "assetdir")]
    return (base, *(base / name for name in dict.fromkeys(named) if name))


def _made(root: ET.Element) -> Iterator[tuple[ET.Element, int]]:
    """Yield each element, and how often MuJoCo makes it."""
    todo = [(root, 1)]
    while todo:
        element, times = todo.pop()
        yield element, times
        if element.tag == "replicate":
            count = _product(element.get("count", "1"))
            times = int(min(times * max(count, 1.0), 1e12))
        todo += [(child, times) for child in element]


def _check_numbers(text: str, at: str, name: str) -> None:
    """Refuse an attribute of numbers with one that is not finite or is huge; names may be anything."""
    if name in ("name", "class", "file", "model"):
        return
    for word in text.split():
        try:
            number = float(word)
        except ValueError:
            return
        if not abs(number) <= MAX_NUMBER:
            raise UserError(f"{at}='{text[:40]}'>: must be finite numbers of at most {MAX_NUMBER:g}.")


def _product(text: str) -> float:
    """Return the product of the numbers of an attribute; 0 if it has none, which MuJoCo refuses itself."""
    try:
        return math.prod(max(abs(float(word)), 1.0) for word in text.split()) if text.split() else 0.0
    except ValueError:
        return 0.0


def _bytes(text: str) -> float:
    """Return the bytes of MuJoCo's ``memory``, such as 10M."""
    unit = _UNITS.get(text[-1:].lower(), 1)
    try:
        return float(text[:-1] if unit > 1 else text) * unit
    except ValueError:
        return 0.0
