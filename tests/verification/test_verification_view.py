"""The page of a verification, as it is told of progress and columns."""

from __future__ import annotations

import urllib.request

import pytest

from rlstack.verification import verification_view
from rlstack.verification.schedule import Progress
from rlstack.verification.verification_view import VerificationView, columns_html
from rlstack.view.recording import ReplayedTrial
from rlstack.view.server import ViewServer
from tests.view.test_film import recording

pytest.importorskip("viser")


def test_progress_figures_and_the_newest_columns_trials_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ViewServer()
    page = verification_view._Page(server)
    try:
        page.take("progress", ("batch", 25, 100, 12.3))
        assert page._part.content == "batch: 25 of 100, about 12 s left" and page._bar.value == 25.0
        page.take("column", ("batch", [("Success", "97.5%")], [ReplayedTrial("Worst", (recording(steps=5),))]))
        assert "97.5%" in page._columns.content
        page.draw()
        assert server.viser.scene.get_handle_by_name("/replay/0") is None, "nobody looked"
        monkeypatch.setattr(ViewServer, "watched", True)
        page.draw()
        assert server.viser.scene.get_handle_by_name("/replay/0/title").text == "batch: Worst"
        page.take("column", ("mujoco", [("Success", "<b>")], []))  # its trials cannot be shown: the last ones go on
        page.draw()
        assert server.viser.scene.get_handle_by_name("/replay/0/title").text == "batch: Worst"
        assert "<td><b></td>" not in page._columns.content
    finally:
        server.close()


def test_columns_keep_their_order() -> None:
    text = columns_html({"batch": [("a", "1")], "mujoco": [("a", "2")]})
    assert text.index("batch") < text.index("mujoco")


def test_the_page_is_there_while_the_verification_runs_and_ends_with_it() -> None:
    with VerificationView() as view:
        view.progress(Progress("batch", 1, 10, 1.0, 5.0))
        view.column("batch", [("Success", "100%")], [ReplayedTrial("Best", (recording(steps=5),))])
        with urllib.request.urlopen(view.url, timeout=20.0) as answer:
            assert answer.status == 200
        process = view.process
        assert process.is_alive()
    assert not process.is_alive()
