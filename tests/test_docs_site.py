"""The documentation site builds without a warning, needs no network, and says what the code says."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

from rlstack.cli import VERBS
from tests.support.checkout import ROOT, bare_environment

pytest.importorskip("material", reason="the extra docs")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**bare_environment(), "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_no_page_needs_the_network(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        loaded = re.findall(r'<(?:script|img|iframe)[^>]* src="(https?:[^"]*)', page.read_text(encoding="utf-8"))
        loaded += re.findall(r'<link[^>]* rel="(?:stylesheet|preconnect)"[^>]* href="(https?:[^"]*)', page.read_text())
        assert not loaded, f"{page.name} loads {loaded}"


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.mark.integration
@pytest.mark.skipif(BROWSER is None, reason="this machine has no Chromium")
def test_the_search_finds_pages_that_are_opened_as_files(site: Path) -> None:
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 800})
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "results" / "arms.html").as_uri())
        page.click("input.md-search__input")
        page.keyboard.type("emergency stop")
        page.click(".md-search-result__item a[href*='guard.html']", timeout=30_000)
        page.wait_for_url("**/guard.html*")
        assert page.locator("mark").count() > 0
        browser.close()
    assert asked and all(url.startswith(("file:", "data:", "blob:")) for url in asked), asked


def test_the_commands_are_those_of_the_program(site: Path) -> None:
    page = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    for name in VERBS:
        assert f'<h2 id="{name.replace(" ", "-")}">' in page
        assert f"usage: rlstack {name}" in page, name


def test_the_examples_are_shown_in_their_order(site: Path) -> None:
    page = (site / "examples.html").read_text(encoding="utf-8")
    names = sorted(path.name for path in (ROOT / "examples").glob("0*"))
    places = [page.index(f">{name}<a") for name in names]
    assert len(names) >= 4 and places == sorted(places)


def test_files_that_pages_link_to_are_there(site: Path) -> None:
    copied = site / "files" / "src" / "rlstack" / "robots" / "crazyflie.yaml.txt"
    assert copied.read_bytes() == (ROOT / "src" / "rlstack" / "robots" / "crazyflie.yaml").read_bytes()


def tool(name: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_lists_and_tables_get_the_blank_lines_that_they_need() -> None:
    spaced = tool("docs_site").spaced
    assert spaced("Two:\n- one\n  more\n- two\n\n| a |") == "Two:\n\n- one\n  more\n- two\n\n| a |"
    assert spaced("```\na\n- b\n```") == "```\na\n- b\n```\n"


def test_the_python_reference_has_arguments_and_examples() -> None:
    reference = tool("python_reference")
    page = reference.page("Policies", ("rlstack.policies", "rlstack.policies.robot_contract"))
    assert '```python\ncontract = contract_for(robot, ["position"' in page
    assert "### contract_for\n" in page and "\n**Args**\n" in page and "\n- `rate_hz`: Steps per second, Hz.\n" in page
    assert ":func:" not in page and "``" not in page.replace("```", "")
