"""The pages in a real browser: nothing in the console, nothing too wide, nothing that keeps a reader out."""

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ckptd.core.notices import sample_digests
from ckptd.notify.rendering import Renderer
from ckptd.web.query import run_address
from web.conftest import PASSWORD
from web.samples import ALICE, BOB

PAGES = {
    "fleet": "/",
    "flags": "/flags",
    "run": "/run" + run_address(ALICE),
    "hostile": "/run" + run_address(BOB),
    "user": "/users/alice",
    "runbook": "/runbook",
    "missing": "/nowhere",
}
WIDTHS = {"phone": 360, "desk": 1280}
WIDE = """[...document.querySelectorAll('main *')]
    .filter(each => each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).overflowX !== 'visible')
    .map(each => each.outerHTML.slice(0, 80))"""


@pytest.fixture(scope="module")  # its event loop must be gone before other tests fork
def chromium():
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - each process of a test run would keep it

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def complaints():
    """What the browser complained of in this test."""
    return []


@pytest.fixture(scope="module")
def tabs(chromium, guarded, complaints):
    """Opens pages as an operator, those with the same options in the same tab: each tab is a process of its own."""
    opened = {}

    def open_page(path, **options):
        key = repr(options)
        if key not in opened:
            options = {"locale": "en-GB", "timezone_id": "Asia/Tokyo", **options}
            context = chromium.new_context(http_credentials={"username": "olga", "password": PASSWORD}, **options)
            page = opened[key] = context.new_page()
            page.on("console", lambda message: complaints.append(message.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("dialog", lambda dialog: complaints.append(dialog.message))
        opened[key].goto(guarded + path, wait_until="load")
        return opened[key]

    yield open_page
    for page in opened.values():
        page.context.close()


@pytest.fixture
def visit(tabs, complaints):
    """Opens pages; the test fails where the browser complained of anything."""
    complaints.clear()
    yield tabs
    assert [each for each in complaints if "404 (Not Found)" not in each] == []


@pytest.mark.parametrize(("size", "scheme"), [("phone", "dark"), ("desk", "light")])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_and_keeps_nobody_out(visit, name, size, scheme):
    page = visit(PAGES[name], viewport={"width": WIDTHS[size], "height": 800}, color_scheme=scheme)
    if folder := os.environ.get("CKPTD_SCREENSHOTS"):
        page.screenshot(path=Path(folder, f"{name}-{size}-{scheme}.png"), full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTHS[size]
    assert size == "desk" or page.evaluate(WIDE) == []
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 - as above

    found = Axe().run(page).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in {"serious", "critical"}] == []


@pytest.mark.parametrize("form", range(3))
def test_a_mail_fits_on_a_phone(chromium, form):
    digest = sample_digests("user@example.org", datetime.now(UTC))[form]
    (entry, *_) = digest.entries
    rules = ("restarted-without-checkpoint", "checkpoint-overdue", "concurrent-writers")
    notices = [replace(entry.notice, rule=rule, work_dir="/scratch/" + "a" * 300) for rule in rules]
    entries = tuple(replace(entry, notice=notice) for notice in notices)
    page = chromium.new_page(viewport={"width": WIDTHS["phone"], "height": 800})
    page.set_content(Renderer().render(replace(digest, entries=entries), key="key").html)
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTHS["phone"]
    page.close()


def test_numbers_of_jobs_are_not_broken_in_two(visit):
    lines = """[...document.querySelectorAll('th[data-label=Job]')].map(each => {
        const range = document.createRange();
        range.selectNodeContents(each);
        return range.getClientRects().length;
    })"""
    assert visit(PAGES["run"], viewport={"width": 1280, "height": 800}).evaluate(lines) == [1, 1]


def test_times_are_in_the_readers_zone(visit):
    shown = visit("/").locator("time").first
    instant = shown.get_attribute("datetime")
    hour = (int(instant[11:13]) + 9) % 24
    assert f"{hour:02}:{instant[14:16]}" in shown.inner_text()


def test_without_javascript_everything_is_there(visit):
    page = visit("/?user=alice", java_script_enabled=False)
    assert page.locator("tbody tr").count() == 2
    assert "UTC" in page.locator("time").first.inner_text()
    page.locator("select[name=severity]").select_option("warning")
    page.locator("form button").click()
    page.wait_for_load_state()
    assert page.locator("tbody tr").count() == 1
    page.locator("tbody a").first.click()
    page.wait_for_load_state()
    assert page.locator("svg.line").count() == 1


def test_the_keyboard_reaches_the_content_first_and_then_everything(visit):
    page = visit("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("document.activeElement.getAttribute('name') || document.activeElement.getAttribute('href')")
        )
    assert {"q", "user", "severity", "sort", "/run" + run_address(ALICE)} <= reached


def test_the_page_refreshes_itself_and_keeps_the_readers_place(visit):
    page = visit("/")
    page.evaluate("document.querySelector('h1').textContent = 'old'")
    page.locator("tbody a").first.focus()
    focused = page.evaluate("document.activeElement.getAttribute('href')")
    page.evaluate("refresh(document.getElementById('main'), document.querySelector('#refresh span'))")
    page.wait_for_function("document.querySelector('h1').textContent === 'Runs'")
    assert page.evaluate("document.activeElement.getAttribute('href')") == focused
    page.locator("input[name=q]").fill("half a wo")
    page.evaluate("refresh(document.getElementById('main'), document.querySelector('#refresh span'))")
    page.locator("form button").focus()
    page.evaluate("refresh(document.getElementById('main'), document.querySelector('#refresh span'))")
    assert page.locator("input[name=q]").input_value() == "half a wo"
    page.get_by_role("button", name="Pause").click()
    assert page.get_by_role("button", name="Resume").is_visible()


def test_a_focus_that_is_left_somewhere_holds_nothing_up_and_what_was_opened_stays_open(visit):
    page = visit("/flags")
    page.locator("summary").last.click()
    page.evaluate("document.querySelector('.flags li').remove(); document.querySelector('h1').textContent = 'old'")
    page.evaluate("refresh(document.getElementById('main'), document.querySelector('#refresh span'))")
    page.wait_for_function("document.querySelector('h1').textContent === 'Open flags'")
    opened = (
        "[...document.querySelectorAll('details')].map(each => [each.open, each.firstChild === document.activeElement])"
    )
    assert page.evaluate(opened) == [[False, False], [True, True]]
    page.locator("input[name=q]").focus()
    is_busy = "isBusy(document.getElementById('main'))"
    assert not page.evaluate(is_busy)


def test_a_form_that_is_left_half_filled_in_waits_a_while_and_keeps_what_was_chosen(visit):
    page = visit("/flags")
    is_busy = "isBusy(document.getElementById('main'))"
    page.locator("select[name=severity]").select_option("warning")
    page.locator("select[name=rule]").focus()
    assert page.evaluate(is_busy)
    page.evaluate("touchedAt -= 61000; document.querySelector('h1').textContent = 'old'")
    assert not page.evaluate(is_busy)
    page.evaluate("refresh(document.getElementById('main'), document.querySelector('#refresh span'))")
    page.wait_for_function("document.querySelector('h1').textContent === 'Open flags'")
    assert page.locator("select[name=severity]").input_value() == "warning"
    assert page.evaluate("document.activeElement.name") == "rule"
    assert page.locator("form").count() == 1
    page.locator("select[name=severity]").select_option("")
    page.evaluate("document.activeElement.blur()")
    assert not page.evaluate(is_busy), "what was chosen was taken back"


def test_a_list_of_choices_that_has_just_been_reached_is_not_closed(visit):
    page = visit("/flags")
    page.locator("select[name=severity]").focus()
    assert page.evaluate("isBusy(document.getElementById('main'))")


def test_the_page_that_is_shown_is_marked_among_the_pages(visit):
    for path, name in (("/", "Runs"), ("/flags", "Flags"), ("/users/alice", None)):
        marked = visit(path).locator("nav [aria-current=page]")
        assert marked.all_inner_texts() == ([name] if name else [])


def test_a_hostile_name_runs_nothing(visit):
    page = visit(PAGES["hostile"])
    assert "<script>alert('x')</script>" in page.locator("h1").inner_text()
    assert page.locator("main img, main script").count() == 0
