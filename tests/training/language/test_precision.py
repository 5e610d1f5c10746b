from __future__ import annotations

import pytest
import torch

from rlstack.training.language import actor
from rlstack.training.language.actor import Precision, reduced


@pytest.mark.parametrize(
    ("precision", "has_it", "expected"),
    [
        ("bfloat16", True, torch.bfloat16),
        ("bfloat16", False, torch.float32),
        ("float32", True, torch.float32),
    ],
)
def test_bfloat16_is_for_processors_that_have_it(
    precision: Precision, has_it: bool, expected: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actor, "multiplies_halves", lambda device: has_it)
    one = torch.ones(2, 2)
    with reduced(precision):
        assert (one @ one).dtype == expected
