import re
from html.parser import HTMLParser

import httpx
import pytest

from ckptd.web.listing import run_address
from web.samples import ALICE, BOB


class Tags(HTMLParser):
    """Collects what a page is made of."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.scripts = set(), set(), 0

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        self.scripts += tag == "script" and dict(attrs)["src"].startswith("/static/")


PAGES = [
    "/",
    "/flags",
    "/run" + run_address(ALICE),
    "/run" + run_address(BOB),
    "/users/alice",
    "/users/bob",
    "/jobs/90190190",
]


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_given_to_an_operator(ask, path):
    answer = ask(path, "olga", follow_redirects=True)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize("path", PAGES)
def test_hostile_names_appear_as_text(ask, path):
    text = ask(path, "olga", follow_redirects=True).text
    assert "<script>alert" not in text
    assert "<img" not in text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e\ud800-\udfff]", text)


def test_a_hostile_name_is_shown_escaped(ask):
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;\\n\\x1b[31m\\u202e\\udcff" in ask("/", "olga").text


def test_a_run_whose_path_is_not_utf8_has_a_page_that_its_link_leads_to(ask):
    text = ask("/", "olga").text
    link = next(each for each in re.findall(r'href="(/run[^"]*)"', text) if "bob" in each).replace("&amp;", "&")
    assert "damaged-checkpoint" in ask(link, "olga").text


@pytest.mark.parametrize("path", [*PAGES, "/nowhere", "/api/v1/jobs", "/static/style.css"])
def test_every_answer_forbids_what_pages_do_not_need(ask, path):
    headers = ask(path, "olga").headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert "server" not in headers


@pytest.mark.parametrize("path", PAGES)
def test_no_page_needs_a_style_or_script_inside_it(ask, path):
    reader = Tags()
    reader.feed(ask(path, "olga", follow_redirects=True).text)
    assert "style" not in reader.tags
    assert not [name for name in reader.attributes if name == "style" or name.startswith("on")]
    assert reader.scripts == 1


def test_flagged_runs_come_first(ask):
    numbers = re.findall(r">(\d+)</a> <span class=\"name\"", ask("/", "olga").text)
    assert numbers == ["90190190", "101", "102"]


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("?q=RESNET", {"101"}),
        ("?q=90190190", {"90190190"}),
        ("?user=alice", {"101", "102"}),
        ("?severity=critical", {"90190190"}),
        ("?severity=warning", {"90190190", "101"}),
        ("?rule=at-risk", {"101"}),
        ("?partition=cpu&user=alice", {"102"}),
        ("?state=PENDING", set()),
        ("?offset=2&limit=1", {"102"}),
        ("?q=&user=&sort=user", {"101", "102", "90190190"}),
    ],
)
def test_an_address_filters_and_orders(ask, query, shown):
    text = ask("/" + query, "olga").text
    assert set(re.findall(r">(\d+)</a> <span class=\"name\"", text)) == shown


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("?colour=red", "colour"),
        ("?state=HAPPY", "state"),
        ("?limit=0", "limit"),
        ("?limit=1&limit=2", "limit"),
        ("?offset=-1", "offset"),
        ("?sort=up", "sort"),
        ("?q=" + "x" * 5000, "q"),
    ],
)
def test_an_address_that_asks_nonsense_is_told_which_part(ask, query, name):
    answer = ask("/" + query, "olga")
    assert answer.status_code == 400
    assert name in answer.text


def test_a_time_line_shows_attempts_checkpoints_losses_and_the_limit(ask):
    text = ask("/run" + run_address(ALICE), "alice").text
    drawn = text[text.index('<svg class="line"') : text.index("<figcaption>")]
    assert drawn.count('class="bar ') == 2
    assert drawn.count('class="bar failed"') == 1
    assert drawn.count('href="#mark-good"') == 5
    assert drawn.count('href="#mark-gone"') == 3
    assert drawn.count('href="#mark-damaged"') == 1
    assert drawn.count('href="#mark-restart"') == 1
    assert drawn.count('class="loss lost"') == 1
    assert drawn.count('class="loss foretold"') == 1
    assert drawn.count('class="limit"') == 1
    assert drawn.count('href="#mark-expected"') >= 1


def test_a_job_leads_to_its_run(ask):
    answer = ask("/jobs/101", "alice")
    assert answer.status_code == 303
    assert ask(answer.headers["location"], "alice").status_code == 200


def test_pages_can_only_be_read(guarded):
    assert httpx.post(guarded + "/flags", auth=("olga", "a good password")).status_code == 405


def test_what_is_not_there_is_said_in_a_sentence(ask):
    for path in ("/nowhere", "/users/nobody", "/jobs/55555", "/run?cluster=x&uid=1&directory=/x"):
        answer = ask(path, "olga")
        assert answer.status_code == 404
        assert "<h1>Not Found</h1>" in answer.text


def test_the_runbook_has_a_section_for_every_alert_and_shows_its_text_as_text(start):
    text = httpx.get(start(local_users=False) + "/runbook").text
    assert '<h2 id="ckptddown">CkptdDown</h2>' in text
    assert "<code>systemctl status ckptd; journalctl -u ckptd -n 50</code>" in text
    assert "`" not in text
    assert "ckptd_restarts_total" in text
