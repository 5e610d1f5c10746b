"""A checkpoint's own tokens for each word that a policy knows, so that its graph needs no tokeniser but the words'.

Tokenisers of language models split text at spaces first; so the tokens of a word after a space do not depend on its
neighbours, and a table has all of them. Whether that is so is tried.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rlstack.errors import UserError
from rlstack.libraries import import_library
from rlstack.training.language.checkpoints.weights import EXTRA

FILE = "tokenizer.json"
_TRIED = 8
"""Words of a sentence that is tried."""


@dataclass(frozen=True)
class Pieces:
    """Tokens of a checkpoint for the words of a vocabulary.

    Args:
        first: (words + 2, most) tokens of a word that begins a sentence, by the number of the graph's own tokeniser; 0
            after their end, and for no word.
        first_there: 1 where there is one.
        after: (words + 2, most) tokens of a word that follows another.
        after_there: 1 where there is one.
        before: Tokens before a sentence.
        end: Tokens after it.
    """

    first: Tensor
    first_there: Tensor
    after: Tensor
    after_there: Tensor
    before: tuple[int, ...]
    end: tuple[int, ...]

    def of(self, numbers: Sequence[int]) -> list[int]:
        """Return the tokens of a sentence, whose words are numbered by the graph's own tokeniser."""
        found = list(self.before)
        for place, number in enumerate(numbers):
            table, there = (self.after, self.after_there) if place else (self.first, self.first_there)
            found += table[number, : int(there[number].sum())].tolist()
        return [*found, *self.end]


class Reader(nn.Module):
    """Reads sentences by tables of a checkpoint's tokens.

    Args:
        pieces: The tables.
    """

    first: Tensor
    first_there: Tensor
    after: Tensor
    after_there: Tensor
    before: Tensor
    end: Tensor

    def __init__(self, pieces: Pieces) -> None:
        super().__init__()
        for name in ("first", "first_there", "after", "after_there"):
            self.register_buffer(name, getattr(pieces, name), persistent=False)
        for name in ("before", "end"):
            self.register_buffer(name, torch.tensor(getattr(pieces, name), dtype=torch.long), persistent=False)
        self._around = len(pieces.before), len(pieces.end)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return the checkpoint's tokens (batch, n) of words, and 1 where there is one (batch, n).

        Args:
            tokens: (batch, words) of the graph's own tokeniser, whole numbers.
        """
        words = tokens.long()
        ids = torch.cat([self.first[words[:, :1]], self.after[words[:, 1:]]], dim=1).flatten(start_dim=1)
        there = torch.cat([self.first_there[words[:, :1]], self.after_there[words[:, 1:]]], dim=1).flatten(start_dim=1)
        none, always = torch.zeros_like(ids[:, :1]), torch.ones_like(there[:, :1])
        lead, tail = (always.repeat(1, count) for count in self._around)
        return torch.cat([self.before + none, ids, self.end + none], dim=1), torch.cat([lead, there, tail], dim=1)


def read_pieces(
    folder: Path, words: Sequence[str], before: str = "", end: str = "", also: str = ""
) -> tuple[Pieces, int]:
    """Return the tokens of words by a tokeniser's file.

    Args:
        folder: With ``tokenizer.json``.
        words: The vocabulary.
        before: Text before each sentence.
        end: Text after each sentence.
        also: A token by itself.

    Returns:
        The tokens, and the number of ``also``.

    Raises:
        UserError: There is no tokeniser, or its tokens of a word depend on the words around it.
    """
    path = folder / FILE
    if not path.is_file():
        raise UserError(f"{folder} has no {FILE}: copy the tokeniser's file of the checkpoint's language model there.")
    try:
        tokeniser = import_library("tokenizers", EXTRA).Tokenizer.from_file(str(path))
    except UserError:
        raise
    except Exception as error:  # the library raises bare Exceptions
        raise UserError(f"{path} is not a tokeniser's file ({error}): copy it again.") from error
    tokeniser.no_padding()
    tokeniser.no_truncation()

    def parts(words: Sequence[str]) -> list[list[int]]:
        return _parts(tokeniser.encode(before + " ".join(words) + end, add_special_tokens=True), before, words)

    lead, *_, tail = parts([words[0]])
    firsts, afters = [], []
    for word in words:
        _, first, after, _ = parts([word, word])
        if not first or not after:
            raise UserError(f"{path} has no tokens for the word '{word}'.")
        firsts.append(first)
        afters.append(after)
    most = max(map(len, firsts + afters))
    made = Pieces(*_padded(firsts, most), *_padded(afters, most), tuple(lead), tuple(tail))
    turned = [(*words[k:], *words[:k])[:_TRIED] for k in range(len(words))]  # each word comes first in one
    for said in (*turned, words[::-1]):
        meant = tokeniser.encode(before + " ".join(said) + end, add_special_tokens=True).ids
        if made.of([words.index(word) + 2 for word in said]) != meant:
            raise UserError(
                f"{path}: its tokens of words depend on the words around them, so that they cannot be a"
                " table in a policy file: choose a checkpoint whose tokeniser splits text at spaces."
            )
    one = tokeniser.token_to_id(also) if also else 0
    if one is None:
        raise UserError(f"{path} has no token '{also}': it is another tokeniser than the checkpoint's.")
    return made, one


def model_of(folder: Path, name: str, *also: str) -> Path:
    """Return the folder with the tokeniser of a checkpoint's vision-language model, without a download.

    Args:
        folder: The checkpoint's.
        name: The model's, at Hugging Face or a folder.
        also: Further files that it must have.

    Raises:
        UserError: There is none; the sentence says how to get it.
    """
    needed = [*also, FILE]
    places = [folder / "vlm", Path(name)]
    hub = Path(os.environ.get("HF_HUB_CACHE") or Path(os.environ.get("HF_HOME", "~/.cache/huggingface"), "hub"))
    places += sorted((hub.expanduser() / f"models--{name.replace('/', '--')}" / "snapshots").glob("*"))
    for place in places:
        if name and all((place / file).is_file() for file in needed):
            return place
    raise UserError(
        f"checkpoint: {folder} needs {' and '.join(needed)} of its vision-language model '{name}', which are not in"
        f" {folder / 'vlm'}: hf download {name} {' '.join(needed)} --local-dir {folder / 'vlm'}"
    )


def _parts(found: Any, before: str, words: Sequence[str]) -> list[list[int]]:
    """Return the tokens before the words, of each word, and after them, by where each token ends in the text."""
    ends = [len(before.rstrip(" "))]  # a space is the following word's
    for word in words:
        ends.append((ends[-1] + 1 if len(ends) > 1 else len(before)) + len(word))
    parts: list[list[int]] = [[] for _ in range(len(ends) + 1)]
    begun = False
    for token, (_, end), own in zip(found.ids, found.offsets, found.special_tokens_mask):
        begun = begun or not own
        place = (len(ends) if begun else 0) if own else sum(end > one for one in ends)
        parts[place].append(token)
    return parts


def _padded(rows: list[list[int]], most: int) -> tuple[Tensor, Tensor]:
    """Return (rows + 2, most) tokens with two rows of none in front, and 1 where there is a token."""
    table, there = torch.zeros(len(rows) + 2, most, dtype=torch.long), torch.zeros(len(rows) + 2, most)
    for k, row in enumerate(rows, 2):
        table[k, : len(row)] = torch.tensor(row)
        there[k, : len(row)] = 1.0
    return table, there
