import html
import re
from html.parser import HTMLParser

import httpx
import pytest

from ckptd.core.model import Finding, Flag, RunKey, Severity
from ckptd.web import app
from ckptd.web.pages import ENVIRONMENT, name_run, show_path
from ckptd.web.query import AddressError, parse_job, run_address
from web.samples import ALICE, BOB, EVIL, NOW


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
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;\\n\\x1b[31m\\u202e\\xff" in ask("/", "olga").text


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
    assert list_jobs(ask("/", "olga").text) == ["90190190", "101", "102"]


def list_jobs(text):
    return re.findall(r'<td data-label="Job">(\d+)</td>', text)


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
    assert set(list_jobs(ask("/" + query, "olga").text)) == shown


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
    assert drawn.count('href="#mark-complete"') == 5
    assert drawn.count('href="#mark-deleted"') == 2
    assert drawn.count('href="#mark-pruned"') == 1
    assert drawn.count('href="#mark-damaged"') == 1
    assert drawn.count('href="#mark-restart"') == 1
    assert drawn.count('class="loss lost"') == 1
    assert drawn.count('class="loss foretold"') == 1
    assert drawn.count('class="limit"') == 1
    assert drawn.count('href="#mark-expected"') >= 1


def test_a_users_page_has_the_runs_that_ended_with_how_and_what_is_left(ask):
    text = ask("/users/alice", "alice").text
    assert list_jobs(text) == ["101", "102"]
    ended = text[text.index("Ended runs") :]
    assert "finished-train" in ended
    assert '<td data-label="Last job">50</td>' in ended
    assert '<td data-label="Ended by">completed</td>' in ended
    assert '<td data-label="Checkpoints on disk">1, 3.0 GiB</td>' in ended
    (link,) = re.findall(r'href="(/run[^"]*finished[^"]*)"', ended)
    assert "completed" in ask(link.replace("&amp;", "&"), "alice").text


def test_a_run_says_what_its_limit_would_take(ask):
    text = ask("/run" + run_address(ALICE), "alice").text
    assert re.search(
        r"work lost if job 101 runs until its limit</dt><dd>\d+ min [^<]*"
        r"<small>[1-9]\d* more checkpoints? expected before then<",
        text,
    )
    assert re.search(r"towards its goal</dt><dd>epoch 45 of 200 <small>only \d+ more epochs expected before", text)
    assert "scan was incomplete" not in text


def test_a_run_says_what_its_attempts_lost_and_how_often_to_save(ask):
    text = ask("/run" + run_address(ALICE), "alice").text
    assert '<td data-label="Lost work">25 min unsaved (0.4 node-hours)</td>' in text
    assert "Work lost by all ended attempts: 25 min unsaved (0.4 node-hours); unknown for 1 attempt whether" in text
    assert (
        "Recommended checkpoint interval: not known yet, because no scan has seen a checkpoint "
        "while it was being written." in text
    )


def test_a_run_with_very_many_attempts_and_flags_shows_the_latest_and_the_worst(ask, monkeypatch):
    monkeypatch.setattr(app, "ATTEMPTS_SHOWN", 1)
    monkeypatch.setattr(app, "LARGEST_SHOWN", 0)
    text = ask("/run" + run_address(ALICE), "alice").text
    assert re.findall(r'data-label="Restart number">(\d)', text) == ["1"]
    assert "1 earlier attempt not shown; the JSON API has all." in text
    assert "1 more flag not shown; the JSON API has all." in text
    assert "Timeline of the run" in text
    assert len(ask("/api/v1/run" + run_address(ALICE), "alice").json()["attempts"]) == 2


def test_tiles_lead_to_what_they_count(ask):
    for page, name in (("/", "olga"), ("/users/alice", "alice"), ("/users/bob", "olga")):
        tiles = re.findall(r'<dt><a href="(/\?[^"]*)">([^<]*)</a></dt><dd>(\d+)</dd>', ask(page, name).text)
        assert {"runs", "runs with a running job", "with any flag"} <= {text for _, text, _ in tiles}
        for address, text, count in tiles:
            listed = ask(html.unescape(address), name).text
            assert listed.count('<th class="long" scope="row"') == int(count), (page, text)


def test_one_of_a_kind_is_told_in_the_singular(ask):
    assert "<p>1 flag</p>" in ask("/flags", "alice").text
    assert "<p>2 flags</p>" in ask("/flags", "olga").text


def test_what_a_run_has_none_of_is_neither_a_tile_nor_in_the_legend(ask):
    text = ask("/jobs/102", "alice", follow_redirects=True).text
    assert "checkpoint interval</dt>" not in text
    assert "next save" not in text
    assert "time limit of job 102" in text
    legend = re.findall(r"</svg> ([^<]+)</li>", text)
    assert legend == ["running", "now", "time limit"]
    shown = ask("/run" + run_address(ALICE), "alice").text
    assert "checkpoint interval</dt>" in shown
    assert {"pruned", "damaged", "lost work", "restart"} <= set(re.findall(r"</svg> ([^<]+)</li>", shown))


def test_a_flag_speaks_as_mail_does():
    evidence = {"earlier_run_time_seconds": 5400, "reason": EVIL, "unknown": None, "directory": "/near"}
    finding = Finding(
        rule="restarted-without-checkpoint",
        severity=Severity.WARNING,
        run=RunKey("c", 1, "/near"),
        job_id=7,
        user="alice",
        evidence=evidence,
        recorded_advice="Look with `ckptd show 7` & ask for #SBATCH --requeue.",
    )
    shown = ENVIRONMENT.get_template("macros.html").module.flag_list([Flag(finding=finding, opened_at=NOW)])
    assert "<strong>Restarted without a checkpoint</strong> <small>restarted-without-checkpoint</small>" in shown
    assert "<p>Look with <code>ckptd show 7</code> &amp; ask for <code>#SBATCH --requeue</code>.</p>" in shown
    assert "<dt>run time before this restart</dt><dd>1 h 30 min</dd>" in shown
    assert "<dt>damage</dt><dd>&lt;script&gt;" in shown
    assert "unknown" not in shown
    assert "<dt>directory" not in shown


def test_a_flag_shows_what_is_wrong_then_what_to_do_and_the_command():
    finding = Finding(
        rule="job-held",
        severity=Severity.WARNING,
        run=RunKey("c", 1, "/near"),
        job_id=1,
        user="alice",
        evidence={"restart_count": 3, "release_with": "scontrol release 1", "slurm_job": "1"},
    )
    shown = ENVIRONMENT.get_template("macros.html").module.flag_list([Flag(finding=finding, opened_at=NOW)])
    assert "<p>ckptd held this job because it was requeued repeatedly without saving further progress." in shown
    assert "(<code>scancel 1</code>). To release it: <code>scontrol release 1</code></p>" in shown
    assert "slurm job" not in shown


def test_flags_are_found_by_their_titles(ask):
    assert "<p>1 flag</p>" in ask("/flags?q=lost+at+the+time", "olga").text
    assert '<option value="at-risk">Work may be lost at the time limit</option>' in ask("/flags", "olga").text


def test_a_run_says_what_could_not_be_seen(ask):
    text = ask("/run" + run_address(BOB), "bob").text
    assert "The last scan was incomplete: locked: permission denied." in text


def test_a_run_says_which_name_led_to_no_directory(ask):
    text = ask("/run" + run_address(BOB), "olga").text
    assert '<p class="notice warning">/data/&lt;script&gt;alert' in text
    assert (
        "named by its comment, does not exist or is not a directory; "
        "ckptd uses the directory from a search of the working directory."
    ) in text
    assert "does not exist or is not a directory" not in ask("/run" + run_address(ALICE), "olga").text


def test_a_run_without_a_directory_is_called_by_its_job(ask):
    called = "Job 102 (no-directory), directory unknown"
    (link,) = re.findall(rf'<a href="(/run[^"]*)">{re.escape(called)}</a>', ask("/", "alice").text)
    text = ask(link.replace("&amp;", "&"), "alice").text
    assert f"<h1>{called}</h1>" in text
    assert f"<title>{called} " in text
    assert "job:102" not in text


def test_a_run_without_a_directory_whose_job_has_a_hostile_name_is_called_by_text():
    shown = show_path(name_run(RunKey("c", 1, "job:7@20261121T044428Z"), "5_7", EVIL))
    assert shown.startswith("Job 5_7 (&lt;script&gt;alert")
    assert "<script" not in shown
    assert name_run(RunKey("c", 1, "job:7@20261121T044428Z")) == "Job 7, directory unknown"


def test_a_job_leads_to_its_run(ask):
    answer = ask("/jobs/101", "alice")
    assert answer.status_code == 303
    assert ask(answer.headers["location"], "alice").status_code == 200


@pytest.mark.parametrize(
    ("named", "found"), [("101", (101, None)), ("101_0", (101, 0)), ("4294967295_7", (2**32 - 1, 7))]
)
def test_an_address_names_a_job_as_slurm_does(named, found):
    assert parse_job(named) == found


@pytest.mark.parametrize("named", ["", "0", "abc", "1_", "_1", "1_2_3", "1_x", "9" * 300, "1_" + "9" * 300, "٣"])
def test_what_names_no_job_is_refused(named):
    with pytest.raises(AddressError, match="a whole number from"):
        parse_job(named)


def test_a_task_that_is_not_on_record_is_said_to_be_absent(ask):
    assert [ask(f"/jobs/{named}", "olga").status_code for named in ("101_7", "101_x")] == [404, 400]


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
    assert "ckptd_recent_requeues" in text
