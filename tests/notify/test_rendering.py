import errno
import re
import tomllib
from dataclasses import replace
from datetime import timedelta, timezone
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckptd.core import notices
from ckptd.core.health import RULES
from ckptd.core.model import Severity
from ckptd.notify import rendering
from ckptd.notify.rendering import Renderer
from ckptd.present.formatting import clean
from ckptd.present.labels import TITLES
from core.histories import at
from core.notice_facts import POLICY, array_of, facts_of, flag, opened, run_of

RENDERER = Renderer()


def digest_of(*flags, facts=None, max_entries=20, **changes):
    planned = notices.plan(opened(*flags), facts or facts_of(*flags, name="train"), POLICY, at(0))
    mine = [replace(each, **changes) for each in planned if each.recipient == planned[0].recipient]
    return notices.compose(mine, max_entries=max_entries)


def render(*flags, renderer=RENDERER, **changes):
    digest = digest_of(*flags, **changes)
    return renderer.render(digest, key=digest.key)


class Reader(HTMLParser):
    """Collects which elements a page has, and that each of them is closed."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.open, self.text = set(), [], ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        if tag not in {"meta", "br", "hr"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_a_message_says_what_happened_the_evidence_what_to_do_and_how_to_mute():
    message = render(flag(severity=Severity.CRITICAL), work_dir="/home/alice/job")
    assert message.subject == "[ckptd c1] critical: Work may be lost at the time limit, job 1 (train)"
    for expected in (
        "CRITICAL: Work may be lost at the time limit",
        "job 1 (train), user alice, checkpoints in /scratch/alice/run",
        "time left: 10 d",
        "What to do:\n     Save sooner.\n",
        'mute = ["at-risk"]',
        "(/home/alice/job)",
        "for 7 days",
    ):
        assert expected in message.text
    page = Reader(message.html)
    assert page.open == []
    assert "What to do: Save sooner." in page.text
    assert "time left" in page.text


@pytest.mark.parametrize(
    "command",
    [
        "#SBATCH --signal=B:USR1@300",
        "#SBATCH --requeue",
        "scontrol requeuehold 17",
        "scontrol update JobId=17 Requeue=1",
        "srun --jobid=17 --overlap --pty top",
        "--comment=ckpt=none",
        "--dependency=afterany:17",
        "torch.load(..., weights_only=True)",
    ],
)
def test_what_is_to_be_typed_is_on_one_line_and_set_apart(command):
    for filler in range(0, 76, 5):
        flagged = flag()
        advice = f"{'x' * filler} do it so: {command}, or ({command}) now. Or {command}."
        flagged = replace(flagged, finding=replace(flagged.finding, recorded_advice=advice))
        message = render(flagged)
        assert message.text.count(command) == 3
        assert message.html.count(f"<code>{command}</code>") == 3
        shown = message.text.partition("What to do:")[2].partition("\n\n")[0]
        assert " ".join(shown.split()) == " ".join(advice.split())


def test_a_message_says_what_is_wrong_then_the_evidence_and_ends_with_the_command():
    evidence = {"restart_count": 3, "release_with": "scontrol release 1", "slurm_job": "1"}
    message = render(flag(rule="job-held"), evidence=evidence, recorded_advice="")
    entry = message.text[message.text.index("1. WARNING") : message.text.index("-- ")]
    assert entry.splitlines()[2:] == [
        "   First seen 2026-03-01 12:00 UTC",
        "   ckptd held this job because it was requeued repeatedly without saving",
        "   further progress. It will not start until you release it.",
        "     restarts of this job: 3",
        "   What to do:",
        "     Find out from its output why it ends without a new checkpoint, and fix the",
        "     cause, or cancel the job (scancel 1). To release it:",
        "       scontrol release 1",
        "",
    ]
    page = Reader(message.html)
    assert page.open == []
    assert message.html.count("<p>ckptd held this job because it was requeued repeatedly") == 1
    assert "(<code>scancel 1</code>). To release it: <code>scontrol release 1</code></p>" in message.html


def test_instants_are_told_in_the_zone_of_the_site():
    message = render(
        flag(),
        renderer=Renderer(zone=timezone(timedelta(hours=2), "CEST")),
        evidence={"started_at": "2026-07-01T12:00:00+00:00"},
    )
    assert "First seen 2026-03-01 14:00 CEST" in message.text
    assert "this attempt started: 2026-07-01 14:00 CEST" in message.text


def test_where_several_clusters_share_the_database_the_commands_name_the_messages_cluster():
    digest = digest_of(flag())
    message = RENDERER.render(digest, key=digest.key, is_one_of_several=True)
    for text in (message.text, message.html):
        assert "ckptd show JOB --cluster c1" in text
        assert "ckptd flags --cluster c1" in text
    assert "--cluster" not in render(flag()).text


def test_administrators_are_told_where_to_change_what_they_get_and_not_how_to_mute():
    digest = digest_of(flag())
    message = RENDERER.render(digest, key=digest.key, is_for_user=False)
    for text in (message.text, message.html):
        assert "mute" not in text
        assert "[health.rules]" in text


@pytest.mark.parametrize("is_for_user", [True, False])
def test_each_sentence_of_a_page_begins_after_a_space(is_for_user):
    digest = digest_of(flag())
    html = RENDERER.render(digest, key=digest.key, is_for_user=is_for_user).html
    assert "You will not be notified again" in html
    assert re.findall(r"[a-z][.:][A-Z]\w+", re.sub(r"<[^>]*>", "", html)) == []


def test_an_array_is_one_entry_with_its_count():
    flags, facts = array_of(10_000)
    message = render(*flags, facts=facts)
    assert "array 77: 10,000 tasks" in message.subject
    assert message.text.count("Work may be lost") == 1


def test_an_entry_of_several_jobs_names_the_job_whose_details_it_shows():
    flags, facts = array_of(3)
    evidence = {"restart_count": 3, "release_with": "scontrol release 77_2", "slurm_job": "77_2"}
    message = render(*flags, facts=facts, evidence=evidence)
    expected = "The details and commands below are those of job 77_2."
    assert expected in message.text
    assert expected in message.html
    assert expected not in render(flag(), evidence=evidence).text


def test_one_job_that_was_flagged_twice_is_not_several_jobs():
    digest = digest_of(flag())
    twice = replace(digest, entries=(replace(digest.entries[0], job_count=2, open_count=1),))
    assert RENDERER.render(twice, key=digest.key).subject.endswith(", job 1 (train)")


def test_a_number_and_its_unit_stay_on_one_line():
    for filler in range(60, 76):
        flagged = flag()
        advice = f"{'x' * filler} ask for 6 min more, or free 1.5 GiB."
        shown = render(replace(flagged, finding=replace(flagged.finding, recorded_advice=advice))).text
        assert "6 min" in shown
        assert "1.5 GiB" in shown


def test_what_is_not_shown_is_counted():
    flags = [flag(each, run=run_of(each), job_id=each) for each in range(50)]
    message = render(*flags)
    assert "30 x Work may be lost at the time limit" in message.text
    assert "and 49 more" in message.subject


def test_a_message_stays_below_its_size_by_showing_less():
    flags = [flag(each, run=run_of(each), job_id=each) for each in range(20)]
    whole = render(*flags)
    limit = (len(whole.text) + len(whole.html)) // 2
    message = render(*flags, renderer=Renderer(max_bytes=limit))
    assert len(message.text.encode()) + len(message.html.encode()) <= limit
    assert "not listed individually" in message.text
    assert "and 19 more" in message.subject


def test_an_administrator_sees_whose_notice_it_is():
    assert (
        "(Intended for bob@example.org; sent to administrators instead.)"
        in render(flag(), meant_for="bob@example.org").text
    )


def test_a_recovery_is_good_news():
    message = render(flag(), kind=notices.NoticeKind.RESOLVED)
    assert "resolved: Work may be lost" in message.subject
    assert "The checkpoint problems that ckptd reported on c1 are resolved." in message.text
    assert "What to do" not in message.text


PLAIN = render(flag(run=run_of("x")), job_name="n", work_dir="/w", evidence={"found": "y"})


@settings(max_examples=50, deadline=None)
@given(st.text(), st.text(), st.text(), st.text())
def test_whatever_users_write_stays_in_its_line_and_is_text(name, directory, value, work_dir):
    message = render(
        flag(run=run_of(f"x{directory}")), job_name=f"n{name}", work_dir=f"/{work_dir}", evidence={"found": f"y{value}"}
    )
    assert message.subject.isprintable()
    assert message.text.replace("\n", "").isprintable()
    assert message.text.count("\n") == PLAIN.text.count("\n")
    assert Reader(message.html).tags == Reader(PLAIN.html).tags


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("a\r\nBcc: x", "a\\r\\nBcc: x"),
        ("caf\udce9", "caf\\xe9"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\u2028", "\\u2028"),
        ("größe", "größe"),
    ],
)
def test_characters_that_are_not_seen_are_shown_as_escapes(text, shown):
    assert clean(text) == shown


def test_long_text_is_cut_in_the_middle():
    assert clean("a" * 400 + "b" * 100_000, 20) == "a" * 9 + "…" + "b" * 9
    assert clean(f"/scratch/{'x' * 4000}/epoch_3.pt").endswith("x/epoch_3.pt")
    assert len(clean("x" * 10**6)) <= 300


def test_a_site_s_template_is_used_and_a_broken_one_falls_back(tmp_path, caplog):
    (tmp_path / "subject.txt").write_text("Site says {{ entries[0].title }}\nBcc: x\n")
    site = Renderer(tmp_path)
    assert render(flag(), renderer=site).subject == "Site says Work may be lost at the time limit Bcc: x"
    assert "What to do" in render(flag(), renderer=site).text
    (tmp_path / "body.txt").write_text("{{ no_such_thing }}")
    assert "What to do" in render(flag(), renderer=Renderer(tmp_path)).text
    assert "site template failed" in caplog.text


@pytest.mark.parametrize(
    ("name", "text", "trouble"),
    [
        ("body.txt", "fine\n{% for entry in entries %}\n", "line 2: Unexpected end of template"),
        ("body.txt", "fine\n\n{{ no_such_thing }}", "line 3: 'no_such_thing' is undefined"),
        ("body.html", "{{ entries[0].adwice }}", "line 1: 'ckptd.notify.rendering.ShownEntry object' has no attribute"),
        ("subject.txt", "{{ 1 // more_count }}", "line 1: "),
        ("body.html", "{% if not is_for_user %}{{ nothing }}{% endif %}", "line 1: 'nothing' is undefined"),
        ("body.html", "{% include 'other.html' %}", "line 1: there is no template 'other.html'"),
        ("body.txt", b"caf\xe9", "'utf-8' codec can't decode"),
    ],
)
def test_a_broken_template_is_named_before_it_is_needed_and_never_keeps_a_message(
    tmp_path, caplog, name, text, trouble
):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    site = Renderer(tmp_path)
    (found,) = site.list_troubles()
    assert found.startswith(f"{tmp_path / name}: {trouble}")
    digest = digest_of(flag())
    message = site.render(digest, key=digest.key, is_for_user=False)
    assert "What to do" in message.text
    assert "site template failed" in caplog.text


def test_a_directory_without_any_template_is_a_mistake(tmp_path):
    (tmp_path / "body.htm").touch()
    assert Renderer(tmp_path).list_troubles() == [
        f"{tmp_path} contains no template; expected at least one of subject.txt, body.txt, body.html"
    ]
    assert Renderer(tmp_path / "x").list_troubles() == [f"{tmp_path}/x is not a directory"]


def test_a_directory_that_this_account_cannot_read_is_a_mistake_and_no_crash(tmp_path, monkeypatch):
    def refuse(_path):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "exists", refuse)
    assert Renderer(tmp_path).list_troubles() == [f"{tmp_path}: Permission denied"]


def test_the_built_in_templates_fit_every_sample(tmp_path):
    for template in Path(rendering.__file__).parent.glob("templates/*"):
        (tmp_path / template.name).write_bytes(template.read_bytes())
    assert Renderer(tmp_path).list_troubles() == []


def test_a_site_s_html_escapes_too(tmp_path):
    (tmp_path / "body.html").write_text("<p>{{ entries[0].about }}</p>")
    assert render(flag(), renderer=Renderer(tmp_path), job_name="<script>").html == "<p>job 1 (&lt;script&gt;)</p>"


def test_every_rule_has_a_title_or_is_called_by_its_name():
    assert set(TITLES) >= {"at-risk", "restart-loop"}
    for rule in {*RULES, "a-new-rule"}:
        assert render(flag(rule=rule)).subject.startswith("[ckptd c1] warning: ")
    assert "A new rule" in render(flag(rule="a-new-rule")).subject


def test_one_task_of_an_array_is_named_as_in_its_commands():
    single = flag(job_id=23)
    evidence = dict(single.finding.evidence) | {"slurm_job": "23_7"}
    single = replace(single, finding=replace(single.finding, evidence=evidence))
    message = render(single)
    assert message.subject.endswith("job 23_7 (train)")
    assert "job 23_7 (train), user alice" in message.text


def test_the_advice_to_mute_neither_repeats_a_section_nor_precedes_other_settings():
    message = render(flag(), work_dir="/home/alice/job")
    where = "add at the end of .ckptd.toml in that directory (/home/alice/job), or extend the `mute` that is there:"
    assert where in message.text
    assert "or extend the <code>mute</code> that is there:" in message.html
    assert tomllib.loads("epochs = 9" + message.text.partition("that is there:")[2])["mail"] == {"mute": ["at-risk"]}
