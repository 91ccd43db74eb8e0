"""The page in a real browser: every screen is used as a person would, by mouse, keyboard and thumb."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="tests of the page need playwright, of the extra [dev]")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (apt install chromium)")
expect = playwright.expect
PATIENCE = 60_000  # milliseconds: what is awaited ends the wait at once, and a machine with other work may be slow
expect.set_options(timeout=PATIENCE)
AXE = "axe-core@4"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page on which no script fails and nothing is asked of other hosts."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    opened = context.new_page()
    opened.set_default_timeout(PATIENCE)
    wrong: list[str] = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("request", lambda request: wrong.append(request.url) if not _local(request.url) else None)
    yield opened
    context.close()
    assert wrong == []


def _local(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "data:", "blob:"))


@pytest.fixture(scope="session")
def axe(tmp_path_factory: Any) -> str:
    """axe-core, which is no part of the package: fetched for these tests, or they are skipped."""
    folder = tmp_path_factory.mktemp("axe")
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed, which fetches axe-core")
    packed = subprocess.run([npm, "pack", AXE], cwd=folder, capture_output=True, text=True, timeout=120)
    archives = list(folder.glob("*.tgz"))
    if packed.returncode or not archives:
        pytest.skip("axe-core cannot be fetched here")
    with tarfile.open(archives[0]) as archive:
        script = archive.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


def open_screen(page: Any, address: str) -> None:
    page.goto(address)
    expect(page.locator("main#main")).to_be_visible()


def test_rows_are_sorted_and_a_decision_is_explained(page: Any, sites: Any) -> None:
    open_screen(page, sites("table"))
    expect(page.locator("article.card h2")).to_have_text(re.compile(r"Row \d+"))  # the least confident is shown at once
    first = page.locator(".row .number").first.inner_text()
    page.get_by_label("Order").select_option("most confident first")
    expect(page.locator(".row .number").first).not_to_have_text(first)
    page.get_by_role("button", name=re.compile("^Wrong")).click()
    expect(page.locator(".row").first).to_contain_text("is ")
    page.locator(".row").first.click()
    expect(page.locator("article.card .prediction")).to_contain_text("labelled")
    expect(page.locator("article.card .sheet").first).to_contain_text("age")
    assert page.locator("article.card .facts-of").count() >= 2


def test_an_excluded_prototype_and_a_relabelled_one_show_before_and_after(page: Any, sites: Any) -> None:
    open_screen(page, f"{sites('table')}/#/decisions/data/12")
    heaviest = page.locator("article.card .facts-of").first
    index = heaviest.locator(".index").inner_text()
    page.get_by_role("button", name=f"Exclude candidate {index[1:]}", exact=True).click()
    expect(page.locator(".change")).to_contain_text("→")
    expect(page.locator("article.card .index").first).not_to_have_text(index)
    expect(page.get_by_role("button", name="1 draft")).to_be_visible()
    select = page.locator("article.card .relabel").first
    was = select.input_value()
    select.select_option("0" if was == "1" else "1")
    expect(page.get_by_role("button", name="2 drafts")).to_be_visible()
    page.reload()  # drafts are still there
    expect(page.get_by_role("button", name="2 drafts")).to_be_visible()
    page.keyboard.press("d")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"Exclude {index}")
    dialog.get_by_role("button", name="Discard all").click()
    dialog.get_by_role("button", name="Close").click()
    expect(page.locator(".change")).to_have_count(0)
    expect(page.locator("article.card .index").first).to_have_text(index)
    page.keyboard.press("u")  # and discarding them can be undone
    expect(page.get_by_role("button", name="2 drafts")).to_be_visible()


def test_the_rows_of_a_prototype_are_listed(page: Any, sites: Any) -> None:
    open_screen(page, f"{sites('table')}/#/decisions/data/12")
    expect(page.locator(".row").first).to_be_visible()
    everything = page.locator(".row").count()
    page.get_by_role("button", name=re.compile("^Its rows")).first.click()
    expect(page.locator(".only")).to_contain_text("heaviest first")
    assert 0 < page.locator(".row").count() <= everything
    page.get_by_role("button", name="Show all").click()
    expect(page.locator(".only")).to_have_count(0)


def test_the_slider_moves_coverage_and_error(page: Any, sites: Any) -> None:
    open_screen(page, f"{sites('table')}/#/threshold")
    answered = page.locator(".figure", has_text="Answered").locator("dd").first
    slider = page.get_by_role("slider")
    slider.focus()
    page.keyboard.press("Home")
    expect(answered).to_have_text("100 %")
    expect(page.locator(".figure", has_text="Proven")).to_contain_text("≤")
    page.keyboard.press("End")
    expect(answered).not_to_have_text("100 %")
    page.get_by_role("button", name="Look at these rows").click()
    expect(page.get_by_role("button", name=re.compile("^Abstains"))).to_have_attribute("aria-pressed", "true")


def test_a_label_error_is_accepted_undone_rejected_and_saved(page: Any, sites: Any) -> None:
    site = sites("table", "labels")
    open_screen(page, f"{site}/#/labels")
    issue = page.locator(".question")
    expect(issue).to_contain_text("is labelled")
    page.wait_for_function("!document.querySelector('progress')")
    first = issue.inner_text()
    page.keyboard.press("a")
    expect(issue).not_to_have_text(first)
    page.keyboard.press("u")
    expect(issue).to_contain_text(first.split("\n")[0])
    page.get_by_role("button", name=re.compile("^Accept")).click()
    expect(issue).not_to_have_text(first)
    second = issue.inner_text()
    page.get_by_role("button", name=re.compile("^Reject")).click()
    expect(page.locator(".question, .empty").first).not_to_have_text(second)
    page.get_by_role("button", name="2 drafts").click()
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_role("button", name="No drafts")).to_be_visible()
    expect(page.locator(".tally")).to_contain_text("2 settled before")


def test_the_first_threshold_answers_at_least_half_of_the_rows(page: Any, sites: Any) -> None:
    open_screen(page, f"{sites('table')}/#/threshold")
    page.wait_for_function("!document.querySelector('progress')")
    shares = page.locator(".figure", has_text="Answered").locator("dd").first
    expect(shares).to_have_text(re.compile(r"^(100|[5-9]\d(\.\d)?) %$"))


def test_a_server_that_comes_back_is_found_again(page: Any, sites: Any) -> None:
    page.route("**/api/model*", lambda route: route.abort())
    page.goto(sites("table"))
    expect(page.get_by_role("status")).to_contain_text("does not answer")
    page.unroute("**/api/model*")
    expect(page.locator("main#main")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_label_errors_are_asked_for_until_all_candidates_are_decided(page: Any, sites: Any) -> None:
    early = {"total": 0, "decided": 0, "to_decide": 150, "candidates": 150, "confirmed": 0, "rows": []}
    page.route("**/api/labels*", lambda route: route.fulfill(json=early), times=1)
    open_screen(page, f"{sites('table')}/#/labels")
    expect(page.locator("progress")).to_be_visible()
    expect(page.locator(".question")).to_contain_text("is labelled")
    expect(page.locator("progress")).to_have_count(0)


def test_a_text_is_typed(page: Any, sites: Any) -> None:
    open_screen(page, f"{sites('text')}/#/try")
    page.get_by_label("Your text").fill("this wrench is old and good")
    expect(page.locator(".prediction strong")).to_have_text("tool")
    expect(page.locator("article.card mark").first).to_be_visible()
    page.get_by_label("Your text").fill("this melon is old and good")
    expect(page.locator(".prediction strong")).to_have_text("fruit")


def test_a_form_is_filled_in(page: Any, sites: Any) -> None:
    open_screen(page, f"{sites('table')}/#/try")
    page.get_by_label("age").fill("70")
    expect(page.locator(".prediction strong")).to_have_text("older")
    page.get_by_label("age").fill("15")
    expect(page.locator(".prediction strong")).to_have_text("younger")


def test_an_image_is_dropped(page: Any, sites: Any, few_digits: Any) -> None:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray((few_digits[0][1] * 15.9375).astype(np.uint8)).save(file, "PNG")
    open_screen(page, f"{sites('images')}/#/try")
    dropped = page.evaluate_handle(
        "bytes => { const data = new DataTransfer();"
        " data.items.add(new File([new Uint8Array(bytes)], 'one.png', {type: 'image/png'})); return data; }",
        list(file.getvalue()),
    )
    page.dispatch_event(".drop", "drop", {"dataTransfer": dropped})
    expect(page.locator(".prediction strong")).to_have_text(str(few_digits[1][1]))
    page.locator(".drop input").set_input_files({"name": "no.png", "mimeType": "image/png", "buffer": b"none"})
    expect(page.get_by_role("alert")).to_contain_text("not an image")
    noise = np.random.default_rng(0).integers(0, 256, (1500, 2400, 3), dtype=np.uint8)  # some 11 MB
    Image.fromarray(noise).save(file := io.BytesIO(), "PNG")
    page.locator(".drop input").set_input_files(
        {"name": "photo.png", "mimeType": "image/png", "buffer": file.getvalue()}
    )
    expect(page.locator("article.card h2")).to_have_text("photo.png")
    expect(page.locator(".prediction strong")).to_be_visible()


def test_the_map_shows_the_selected_row(page: Any, sites: Any) -> None:
    open_screen(page, f"{sites('images')}/#/decisions/data/3")
    expect(page.locator("article.card .prediction")).to_be_visible()
    page.get_by_role("link", name="Map").click()
    expect(page.locator(".linked li").first).to_contain_text("%")
    page.wait_for_function(  # the map may come after the card
        "() => { const c = document.querySelector('.map-two > canvas');"
        " return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(Boolean); }"
    )
    page.locator(".map-two > canvas").hover(position={"x": 5, "y": 5})
    page.go_back()
    expect(page.locator("article.card h2")).to_have_text("Row 3")


def test_keys_go_through_rows_and_screens(page: Any, sites: Any) -> None:
    open_screen(page, sites("text"))
    expect(page.locator(".row[aria-current]")).to_have_count(1)
    first = page.locator(".row[aria-current] .quiet").inner_text()
    page.keyboard.press("j")
    expect(page.locator(".row[aria-current] .quiet")).not_to_have_text(first)
    page.keyboard.press("k")
    expect(page.locator(".row[aria-current] .quiet")).to_have_text(first)
    for key, heading in {"2": "When should it answer?", "3": "Map of the candidates", "5": "Try your own"}.items():
        page.keyboard.press(key)
        expect(page.get_by_role("heading", name=heading)).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_key_acts_on_what_is_shown(page: Any, sites: Any) -> None:
    """A key pressed at the very moment the first row is marked goes to the second, before any effect has run."""
    page.add_init_script(
        "new MutationObserver((_, watching) => { if (document.querySelector('.row[aria-current]')) {"
        " watching.disconnect();"
        " document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'j', bubbles: true})); }"
        " }).observe(document, {subtree: true, childList: true, attributes: true});"
    )
    open_screen(page, sites("text"))
    expect(page.locator("li:nth-child(2) > .row")).to_have_attribute("aria-current", "true")


def test_it_fits_a_phone(page: Any, sites: Any) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    screens = {
        "images": ("map", "labels", "try", "decisions"),
        "table": ("threshold", "try", "decisions/data/3"),
        "text": ("decisions/data/3",),
    }
    for kind, names in reversed(screens.items()):
        page.goto(sites(kind))
        for name in names:
            page.evaluate("hash => { location.hash = hash; }", f"#/{name}")
            page.wait_for_timeout(250)
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= 390, f"{kind} {name} is {wide} pixels wide"
    page.locator(".row").first.click()
    expect(page.locator("article.card")).to_be_visible()
    expect(page.locator(".row-list")).not_to_be_visible()
    page.get_by_role("link", name="← Rows").click()
    expect(page.locator(".row-list")).to_be_visible()


@pytest.mark.parametrize(("scheme", "rules"), [("light", {}), ("dark", {"runOnly": ["color-contrast"]})])
def test_axe_finds_no_violation(page: Any, sites: Any, axe: str, scheme: str, rules: dict[str, Any]) -> None:
    """By every rule; in the dark all but colours is as it was in the light."""
    page.emulate_media(color_scheme=scheme)
    found = []
    all_screens = {
        "table": ("decisions/data/3", "threshold", "labels", "try"),
        "images": ("", "map", "try"),
        "text": ("", "try"),
    }
    for kind, screens in all_screens.items():
        open_screen(page, sites(kind))
        page.evaluate(axe)
        for screen in screens:
            page.evaluate("hash => { location.hash = hash; }", f"#/{screen}")
            page.wait_for_timeout(400)
            if kind == "text" and not screen:
                page.locator("article.card .relabel").first.select_option(index=1)
                page.keyboard.press("Escape")
                page.get_by_role("button", name=re.compile("draft")).click()
            answer = page.evaluate("rules => axe.run(rules)", rules)
            found += [
                (kind, screen, wrong["id"], node["target"], node.get("failureSummary", "")[:300])
                for wrong in answer["violations"]
                for node in wrong["nodes"][:3]
            ]
    assert found == []


def test_own_code_is_small_and_what_is_vendored_has_its_licence() -> None:
    static = Path(__file__).parents[2] / "src" / "protoattend" / "app" / "static"
    own = [path for path in static.iterdir() if path.suffix in (".js", ".css", ".html")]
    assert sum(len(path.read_text().splitlines()) for path in own) <= 1600
    assert {path.name for path in (static / "vendor").iterdir()} >= {"LICENSE-htm", "LICENSE-preact"}
