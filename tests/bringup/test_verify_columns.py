"""What a verification tells who watches it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rlstack.bringup import verify
from rlstack.errors import UserError


@pytest.mark.parametrize("shown", [True, False])
def test_a_columns_figures_are_told_before_its_trials_are_found(shown: bool) -> None:
    told: list[Any] = []

    def replay(records: Any, plans: Any) -> list[str]:
        assert len(told) == 1
        if not shown:
            raise UserError("no renderer")
        return ["the best", "the worst"]

    figures = [SimpleNamespace(title="Success", text="98%", detail=False), SimpleNamespace(detail=True)]
    request = SimpleNamespace(on_column=lambda *column: told.append(column))
    work = object.__new__(verify._Work)
    work._verifier = SimpleNamespace(  # type: ignore[assignment]
        request=request, score=lambda record, beside: SimpleNamespace(figures=figures), replay=replay
    )
    work.records = {"batch": ("a record", {})}
    work._tell(SimpleNamespace(name="batch"))  # type: ignore[arg-type]
    first = ("batch", [("Success", "98%")], ())
    assert told == [first, (*first[:2], ["the best", "the worst"])][: 1 + shown]
