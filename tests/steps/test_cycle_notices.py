"""From the queue to the mailbox: flags of a cycle, its notices, a real relay."""

from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from ckptd.core.model import Finding, JobState, Severity, Unknown
from ckptd.core.notices import NoticeMode, NoticePolicy
from ckptd.slurm.failure_reasons import FailureReason
from ckptd.steps import decide, poll, remind
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.state import begin
from support.mail_server import PASSWORD, MailServer
from support.migrated import open_record
from support.outbox_sender import make_channel, make_sender
from support.parts import make_parts
from support.queue_facts import CLUSTER, at, look, make_job

ALICE = "alice@example.org"  # by the site's rule


@dataclass(frozen=True)
class Failing:
    """A rule that holds for every running job of a name that fails."""

    name = "restarted-without-checkpoint"

    def evaluate(self, history, now):
        return [
            Finding(
                rule=self.name,
                severity=Severity.CRITICAL,
                run=history.key,
                job_id=job.job_id,
                user=history.user,
                evidence={"found": "none"},
                recorded_advice="Save early and often.",
            )
            for job in history.jobs
            if job.name.startswith("fails")
        ]


class Asked:
    """A source that is only asked whom a job wants mailed."""

    def __init__(self):
        self.mail_users, self.calls = {}, []

    def read_mail_user(self, job):
        self.calls.append(job.job_id)
        return self.mail_users.get(job.job_id)


@pytest.fixture
def fleet(tmp_path):
    store = open_record(f"sqlite:///{tmp_path}/record.db")
    parts = make_parts(
        CLUSTER,
        Asked(),
        store,
        rules=(Failing(),),
        max_poll_age=timedelta(minutes=10),
        min_job_duration=timedelta(minutes=10),
        notice_policy=NoticePolicy(mode=NoticeMode.ON, user_rule="{user}@example.org"),
    )
    yield parts, begin(parts, at(0))
    store.close()


@pytest.fixture
def server(tmp_path):
    started = MailServer(tmp_path)
    started.start()
    yield started
    started.stop()


def judge(fleet, minutes, *jobs):
    parts, state = fleet
    poll.record_queue(parts, state, look(minutes, *jobs), (), at(minutes))
    return decide.decide(parts, state, at(minutes))


def send(fleet, server, tmp_path, minutes):
    password_file = tmp_path / "password"
    password_file.write_text(PASSWORD)
    channels = {"mail": make_channel(server.port, server.certificate, password_file)}
    options = {"cluster": CLUSTER, "channels": channels, "policy": fleet[0].notice_policy}
    sender = make_sender(fleet[0].store, clock=lambda: at(minutes), **options)
    return sender.send_due(at(minutes))


def test_more_than_a_thousand_tasks_that_fail_in_two_waves_make_one_mail(fleet, server, tmp_path):
    tasks = [
        make_job(number, name="fails", array_job_id=1, array_task_id=number, mail_user="alice@uni.example")
        for number in range(1, 1_201)
    ]
    assert len(judge(fleet, 0, *tasks[:700]).opened) == 700
    assert len(judge(fleet, 1, *tasks).opened) == 500
    judge(fleet, 2, *(replace(task, name="works") for task in tasks[:100]), *tasks[100:])
    assert send(fleet, server, tmp_path, 30) == 1
    assert send(fleet, server, tmp_path, 3000) == 0
    (mail,) = server.inbox.mails
    assert mail["To"] == "alice@uni.example"
    assert "array 1 (fails): 1,200 tasks, 1,100 of them still affected" in mail["Subject"]
    assert "Save early and often." in mail.get_body(["plain"]).get_content()


LATE = Unknown(what="mail user", reason="timed out: scontrol took over 30 s")
NO_SUCH_JOB = Unknown(what="mail user", reason="failed: slurm_load_jobs error: Invalid job id specified")


def test_a_job_that_there_is_news_about_is_asked_once_whom_it_wants_mailed(fleet, server, tmp_path):
    source = fleet[0].source
    source.mail_users = {1: "al@uni.example", 3: "not an address"}
    jobs = [make_job(number, name="fails", user=f"user{number}", uid=number) for number in range(1, 4)]
    tasks = [make_job(10 + each, name="fails", array_job_id=10, array_task_id=each, uid=9) for each in range(3)]
    judge(fleet, 0, make_job(4, name="works"), *jobs, *tasks)
    judge(fleet, 1, *jobs, *tasks)
    assert sorted(source.calls) == [1, 2, 3, 10]
    assert send(fleet, server, tmp_path, 30) == 4
    assert {mail["To"] for mail in server.inbox.mails} == {
        "al@uni.example",
        "user2@example.org",
        "user3@example.org",
        "alice@example.org",
    }


@pytest.mark.parametrize(("answers_at", "address"), [(1, "al@uni.example"), (4, "al@uni.example"), (9, ALICE)])
def test_a_notice_waits_some_minutes_for_a_late_answer_and_goes_to_the_site_s_address_only_then(
    fleet, server, tmp_path, answers_at, address
):
    source, job = fleet[0].source, make_job(1, name="fails")
    for minute in range(10):
        source.mail_users = {1: LATE if minute < answers_at else "al@uni.example"}
        changes = judge(fleet, minute, job)
        assert len(changes.opened) == (minute == 0)  # nobody else waits for the answer
        assert len(source.calls) == min(minute, answers_at, 5) + 1  # and nobody asks once the address is settled
        assert send(fleet, server, tmp_path, minute) == 0
    assert send(fleet, server, tmp_path, 30) == 1
    assert [mail["To"] for mail in server.inbox.mails] == [address]


def test_a_notice_that_waits_for_its_address_outlives_the_daemon(fleet, server, tmp_path):
    parts, source = fleet[0], fleet[0].source
    source.mail_users = {1: LATE}
    judge(fleet, 0, make_job(1, name="fails"))
    source.mail_users = {1: "al@uni.example"}
    restarted = parts, begin(parts, at(1))
    assert len(judge(restarted, 1, make_job(1, name="fails")).opened) == 0
    assert send(restarted, server, tmp_path, 30) == 1
    assert [mail["To"] for mail in server.inbox.mails] == ["al@uni.example"]


def test_what_waits_is_told_at_the_site_s_address_once_its_job_has_left_slurm(fleet, server, tmp_path):
    parts, state = fleet
    parts.source.mail_users = {1: LATE}
    judge(fleet, 0, make_job(1, name="fails"))
    state.change(PolledQueue, lambda queued: replace(queued, tracked={}))
    decide.decide(parts, state, at(1))
    assert send(fleet, server, tmp_path, 30) == 1
    assert [mail["To"] for mail in server.inbox.mails] == [ALICE]


def test_what_is_over_before_its_address_is_known_is_no_recovery_sent_alone(fleet, server, tmp_path):
    parts = fleet[0]
    parts.source.mail_users = {1: LATE}
    judge(fleet, 0, make_job(1, name="fails"))
    judge(fleet, 1, make_job(1, name="works"))
    parts.source.mail_users = {1: "al@uni.example"}
    judge(fleet, 2, make_job(1, name="works"))
    assert send(fleet, server, tmp_path, 30) == 1
    (mail,) = server.inbox.mails
    assert (mail["To"], "resolved" in mail["Subject"]) == ("al@uni.example", False)
    assert "Resolved before this message was sent" in mail.get_body(["plain"]).get_content()


def test_a_job_that_comes_up_while_others_are_asked_for_is_asked_for_next(fleet, server, tmp_path):
    parts, state = fleet
    second = make_job(2, name="fails", user="bob", uid=1001)

    class Busy(Asked):
        def read_mail_user(self, job):
            if not self.calls:
                poll.record_queue(parts, state, look(0, make_job(1, name="fails"), second), (), at(0))
            return super().read_mail_user(job)

    source = Busy()
    parts = replace(parts, source=source)
    source.mail_users = {1: "al@uni.example", 2: "bo@uni.example"}
    assert len(judge((parts, state), 0, make_job(1, name="fails")).opened) == 2
    assert source.calls == [1]
    judge((parts, state), 1, make_job(1, name="fails"), second)
    assert send(fleet, server, tmp_path, 30) == 2
    assert {mail["To"] for mail in server.inbox.mails} == {"al@uni.example", "bo@uni.example"}


@pytest.mark.parametrize(("trouble", "asked"), [(LATE, 1), (NO_SUCH_JOB, 3)])
def test_while_slurm_does_not_say_whom_jobs_want_mailed_few_are_asked_and_not_at_once_again(fleet, trouble, asked):
    source = fleet[0].source
    source.mail_users = dict.fromkeys(range(1, 10), trouble)
    jobs = [make_job(number, name="fails", uid=number) for number in range(1, 10)]
    for minute, calls in [(0, asked), (0.4, asked), (0.6, asked * 2)]:
        judge(fleet, minute, *jobs)
        assert len(source.calls) == calls


def test_of_very_many_jobs_at_once_so_many_are_asked_for_in_half_a_minute(fleet):
    jobs = [make_job(number, name="fails", uid=number) for number in range(1, 451)]
    for minute, calls in [(0, 200), (0.4, 200), (0.6, 400), (1.2, 450), (1.8, 450)]:
        judge(fleet, minute, *jobs)
        assert len(fleet[0].source.calls) == calls
    assert fleet[0].store.outbox.list_unaddressed(CLUSTER) == ()


def test_while_slurm_is_in_trouble_nobody_is_asked_and_what_waits_is_told_all_the_same(fleet, server, tmp_path):
    parts, state = fleet
    parts.source.mail_users = {1: LATE}
    judge(fleet, 0, make_job(1, name="fails"))
    state.change(PolledQueue, lambda queued: replace(queued, slurm_trouble="slurmctld does not answer"))
    for minute in range(1, 7):
        decide.decide(parts, state, at(minute))
    assert parts.source.calls == [1]
    assert send(fleet, server, tmp_path, 30) == 1
    assert [mail["To"] for mail in server.inbox.mails] == [ALICE]


@pytest.mark.parametrize(("asked", "told"), [("al@uni.example", "al@uni.example"), (LATE, ALICE)])
def test_nobody_gets_the_mail_about_a_job_of_another_user_that_had_the_same_id(fleet, server, tmp_path, asked, told):
    fleet[0].source.mail_users = {1: asked}
    judge(fleet, 0, make_job(1, name="fails"))
    fleet[0].source.mail_users = {1: "bo@uni.example"}
    bobs = make_job(1, name="fails", user="bo", uid=2000, submitted_at=at(1), started_at=at(1))
    assert len(judge(fleet, 2, bobs).opened) == 1
    judge(fleet, 3, bobs)
    assert send(fleet, server, tmp_path, 60) == 2
    texts = {mail["To"]: mail.get_body(["plain"]).get_content() for mail in server.inbox.mails}
    assert texts.keys() == {told, "bo@uni.example"}
    assert "user bo" not in texts[told]
    assert "user alice" not in texts["bo@uni.example"]


def test_where_mail_goes_to_administrators_it_waits_for_no_address(fleet, server, tmp_path):
    policy = NoticePolicy(mode=NoticeMode.ADMIN, user_rule="{user}@example.org", admins=("root@example.org",))
    fleet = replace(fleet[0], notice_policy=policy), fleet[1]
    fleet[0].source.mail_users = {1: LATE}
    judge(fleet, 0, make_job(1, name="fails"))
    assert send(fleet, server, tmp_path, 11) == 1
    assert [mail["To"] for mail in server.inbox.mails] == ["root@example.org"]


def test_the_end_is_told_at_the_address_of_the_beginning_whatever_slurm_says_now(fleet, server, tmp_path):
    parts = fleet[0]
    parts.source.mail_users = {1: "al@uni.example"}
    judge(fleet, 0, make_job(1, name="fails"))
    assert send(fleet, server, tmp_path, 11) == 1
    parts.source.mail_users = {1: LATE}
    restarted = parts, begin(parts, at(12))
    judge(restarted, 12, make_job(1, name="works"))
    assert send(restarted, server, tmp_path, 30) == 1
    told = [(mail["To"], "resolved" in mail["Subject"]) for mail in server.inbox.mails]
    assert told == [("al@uni.example", False), ("al@uni.example", True)]


def test_what_still_holds_is_told_again_each_week_four_times_and_its_end_once(fleet, server, tmp_path):
    day = 24 * 60
    fleet[0].source.mail_users = {1: "al@uni.example"}
    job = make_job(1, name="fails")
    judge(fleet, 0, job)
    assert send(fleet, server, tmp_path, 11) == 1
    told_on = []
    for number in range(1, 60):
        if remind.repeat_notices(*fleet, at(number * day)):
            told_on.append(number)
        send(fleet, server, tmp_path, number * day + 11)
    assert told_on == [7, 14, 21, 28]
    judge(fleet, 60 * day, replace(job, name="works"))
    send(fleet, server, tmp_path, 61 * day)
    subjects = [mail["Subject"].partition(": ")[0] for mail in server.inbox.mails]
    assert subjects == ["[ckptd alpha] critical"] * 5 + ["[ckptd alpha] resolved"]
    assert {mail["To"] for mail in server.inbox.mails} == {"al@uni.example"}
    assert "(you were notified before)" in server.inbox.mails[4].get_body(["plain"]).get_content()


def test_a_hostile_job_reaches_its_own_user_in_one_line_of_one_mail(fleet, server, tmp_path):
    name = "fails\r\nBcc: victim@example.org\r\n\r\n<script>alert(1)</script> \udcff\u202e"
    judge(fleet, 0, make_job(1, name=name, mail_user="alice@uni.example\nbob@uni.example"))
    assert send(fleet, server, tmp_path, 30) == 1
    (mail,) = server.inbox.mails
    assert mail.envelope.rcpt_tos == ["alice@example.org"]
    assert mail["Bcc"] is None
    assert "\\r\\nBcc: victim" in mail["Subject"]
    assert "<script>" not in mail.get_body(["html"]).get_content()


def test_a_run_that_goes_on_well_is_told_as_resolved_once_and_one_that_ended_is_not(fleet, server, tmp_path):
    first, second = make_job(1, name="fails"), make_job(2, name="fails", user="bob", uid=1001)
    judge(fleet, 0, first, second)
    assert send(fleet, server, tmp_path, 11) == 2
    changes = judge(fleet, 12, replace(first, name="works"))
    assert {flag.finding.user for flag in changes.resolved} == {"alice", "bob"}
    assert send(fleet, server, tmp_path, 30) == 1
    *_, mail = server.inbox.mails
    assert (mail["To"], "resolved" in mail["Subject"]) == ("alice@example.org", True)
    threads = {each["References"] for each in server.inbox.mails if each["To"] == "alice@example.org"}
    assert len(threads) == 1


def test_a_job_that_is_requeued_and_waits_is_no_recovery_but_what_it_then_does_well_is_one(fleet, server, tmp_path):
    first = make_job(1, name="fails")
    waiting = replace(first, name="works", state=JobState.PENDING, restart_count=1, started_at=None, ends_at=None)
    second = replace(waiting, name="fails", state=JobState.RUNNING, started_at=at(200), submitted_at=at(12))
    judge(fleet, 0, first)
    assert send(fleet, server, tmp_path, 11) == 1
    assert len(judge(fleet, 12, waiting).resolved) == 1
    for minute in range(13, 200, 20):
        judge(fleet, minute, waiting)
        assert send(fleet, server, tmp_path, minute) == 0
    assert len(judge(fleet, 201, second).opened) == 1
    assert len(judge(fleet, 210, replace(second, name="works")).resolved) == 1
    on_record = fleet[0].store.flags.read(include_resolved=True)
    assert ["ended_with_attempt" in each.finding.evidence for each in on_record] == [True, False]
    assert send(fleet, server, tmp_path, 300) == 1
    assert ["resolved" in mail["Subject"] for mail in server.inbox.mails] == [False, True]


def test_the_last_moments_of_a_job_are_no_recovery(fleet, server, tmp_path):
    judge(fleet, 0, make_job(1, name="fails"))
    assert send(fleet, server, tmp_path, 11) == 1
    assert len(judge(fleet, 12, make_job(1, name="works", state=JobState.COMPLETING)).resolved) == 1
    judge(fleet, 13, make_job(1, name="works", state=JobState.COMPLETED, ends_at=at(12)))
    assert send(fleet, server, tmp_path, 300) == 0


def test_a_user_who_gave_an_address_that_nobody_has_hears_all_of_it_at_the_site_s_and_once(fleet, server, tmp_path):
    day = 24 * 60
    fleet[0].source.mail_users = {1: "al@uni.example"}
    server.inbox.unknown = {"al@uni.example"}
    judge(fleet, 0, make_job(1, name="fails"))
    assert send(fleet, server, tmp_path, 11) == 1
    for number in range(1, 9):  # a week later it is told again
        remind.repeat_notices(*fleet, at(number * day))
        send(fleet, server, tmp_path, number * day + 11)
    judge(fleet, 9 * day, make_job(1, name="works"))
    send(fleet, server, tmp_path, 10 * day)
    assert [mail["To"] for mail in server.inbox.mails] == [ALICE] * 3
    subjects = [mail["Subject"].partition(": ")[0] for mail in server.inbox.mails]
    assert subjects == ["[ckptd alpha] critical"] * 2 + ["[ckptd alpha] resolved"]


def test_an_address_that_may_not_be_asked_for_yet_is_asked_for_later(fleet):
    class Limited(Asked):
        available = 30

        def read_mail_user(self, job):
            if not self.available:
                return Unknown(what="mail user", reason=f"{FailureReason.DEFERRED}: too many")
            self.available -= 1
            return super().read_mail_user(job)

    parts, state = fleet
    parts = replace(parts, source=Limited())
    jobs = [make_job(number, name="fails", uid=number) for number in range(1, 81)]
    for minute, calls in [(0, 30), (0.4, 30), (0.6, 60), (1.2, 80)]:
        judge((parts, state), minute, *jobs)
        assert len(parts.source.calls) == len(set(parts.source.calls)) == calls
        parts.source.available = 30
    assert parts.store.outbox.list_unaddressed(CLUSTER) == ()
