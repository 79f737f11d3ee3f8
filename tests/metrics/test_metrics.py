"""What a scrape of the daemon gives: sound by promtool, bounded, and true to the report."""

import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ckptd.core.fleet.fleet_totals import FileSystem, FleetTotals, FreeSpace, ResourceShare
from ckptd.core.fleet.prune_totals import FailureCause
from ckptd.core.fleet.service_memory import ServiceMemory
from ckptd.core.fleet.snapshot import Report
from ckptd.core.model import EndCause, Finding, Flag, RunKey, Severity
from ckptd.core.runs.lost_work_totals import LossKey, LossTotal
from ckptd.metrics.bounded_names import BoundedNames
from ckptd.metrics.collector import ReportCollector
from ckptd.metrics.lost_work_metrics import collect_losses
from demo.patience import allow
from metrics.fleet_facts import make_flag, make_report

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def scrape(report, *, flagged_limit=0, before=None):
    collector = ReportCollector("1.2.3", started_at=NOW - timedelta(days=1), flagged_limit=flagged_limit)
    if before is not None:
        collector.publish(before)
    for step in ("poll", "scan", "decide", "publish"):
        collector.observe_step(step, timedelta(seconds=0.2))
    collector.count_failure("scan")
    if report:
        collector.publish(report)
    return read(collector)


def read(collector):
    return collector.exposition.read(is_compressed=False, names_jobs=True).decode()


def samples(text):
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return found


def value(text, name, **labels):
    found = samples(text)
    cluster = {} if (name, tuple(sorted(labels.items()))) in found else {"cluster": "c1"}
    return found[name, tuple(sorted({**cluster, **labels}.items()))]


@pytest.mark.parametrize("flagged_limit", [0, 10])
@pytest.mark.parametrize("report", [None, Report(cluster="c1", made_at=NOW), make_report(NOW)])
def test_promtool_has_nothing_to_say_of_any_answer(report, flagged_limit):
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=scrape(report, flagged_limit=flagged_limit),
        capture_output=True,
        text=True,
        timeout=allow(60),
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_promtool_would_have_found_a_metric_without_help():
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input="# TYPE ckptd_x gauge\nckptd_x 1\n",
        capture_output=True,
        text=True,
        timeout=allow(60),
        check=False,
    )
    assert done.returncode != 0


def test_every_metric_is_explained_by_a_sentence():
    for family in text_string_to_metric_families(scrape(make_report(NOW), flagged_limit=5)):
        assert len(family.documentation.split()) > 3, family.name
        assert family.documentation.endswith("."), family.name


def test_a_hundred_thousand_jobs_of_ten_thousand_runs_make_fewer_than_two_thousand_series():
    report = make_report(NOW, runs=10_000, queued_jobs=100_000, flag_count=3000)
    assert len(samples(scrape(report))) < 2000


def test_whatever_names_a_cluster_has_there_are_fewer_than_two_thousand_series():
    report = make_report(NOW, runs=50)
    shares = {f"partition-{number:05}": ResourceShare(jobs=1, gpus=2) for number in range(5000)}
    checkpoints = {(f"format{number}", state): 1 for number in range(500) for state in ("complete", "damaged")}
    fleet = replace(report.fleet, shares_by_partition=shares, checkpoints_by_format=checkpoints)
    report = replace(
        report,
        fleet=fleet,
        runs_by_locator={f"way {number}": 1 for number in range(1000)},
        losses={
            LossKey(cause, name, f"account-{name}"): LossTotal(seconds=1, gpu_seconds=1)
            for cause in EndCause
            for name in shares
        },
        open_flags=tuple(make_flag(number, NOW) for number in range(1000)),
    )
    found = samples(scrape(report, flagged_limit=300, before=make_report(NOW)))
    assert len(found) < 2000
    jobs = {labels: number for (name, labels), number in found.items() if name == "ckptd_running_jobs"}
    assert sum(jobs.values()) == 5000
    assert jobs[("cluster", "c1"), ("partition", "other")] > 4000
    lost = {labels: number for (name, labels), number in found.items() if name == "ckptd_lost_gpu_seconds_total"}
    assert sum(lost.values()) == 5000 * len(EndCause)
    assert {dict(labels)["cause"] for labels in lost} == set(EndCause)
    by_account = [number for (name, _), number in found.items() if name == "ckptd_account_lost_gpu_seconds_total"]
    assert sum(by_account) == 5000 * len(EndCause)


def test_the_partitions_that_lost_most_are_named_and_no_counter_falls_when_another_outgrows_them():
    def lost(seconds):
        return {LossKey(EndCause.FAILURE, name): LossTotal(node_seconds=each) for name, each in seconds.items()}

    places = BoundedNames(2)

    def named(seconds):
        (_, nodes, *_) = collect_losses(lost(seconds), places, BoundedNames(1))
        return {sample.labels["partition"]: sample.value for sample in nodes.samples}

    assert named({"a": 1, "b": 9, "c": 5}) == {"b": 9, "c": 5, "other": 1}
    assert named({"a": 100, "b": 9, "c": 5, "d": 7}) == {"b": 9, "c": 5, "other": 107}


def test_saved_work_that_is_computed_again_has_counters_of_its_own():
    total = LossTotal(seconds=1, redone_seconds=60, redone_gpu_seconds=240)
    losses = {LossKey(EndCause.FAILURE, name): total for name in ("a", "b")}
    text = scrape(replace(make_report(NOW), losses=losses))
    assert value(text, "ckptd_redone_seconds_total", cause="failure") == 120
    assert value(text, "ckptd_redone_gpu_seconds_total", cause="failure") == 480


def test_upper_bounds_and_attempts_of_which_nothing_is_known_stand_beside_the_lower_bounds():
    total = LossTotal(
        seconds=60,
        high_seconds=90,
        high_cpu_seconds=720,
        unknown_count=1,
        redone_seconds=5,
        redone_high_seconds=7,
        redone_unknown_count=3,
    )
    losses = {LossKey(EndCause.FAILURE, name, "lab"): total for name in ("a", "b")}
    text = scrape(replace(make_report(NOW), losses=losses))
    assert value(text, "ckptd_lost_high_seconds_total", cause="failure") == 180
    assert value(text, "ckptd_lost_high_cpu_seconds_total", cause="failure") == 1440
    assert value(text, "ckptd_lost_unknown_attempts_total", cause="failure") == 2
    assert value(text, "ckptd_redone_high_seconds_total", cause="failure") == 14
    assert value(text, "ckptd_redone_unknown_attempts_total", cause="failure") == 6


def test_accounts_have_counters_by_cause_and_the_rest_of_them_is_one():
    losses = {
        LossKey(EndCause.FAILURE, "a", f"lab{number}"): LossTotal(seconds=1, node_seconds=number, redone_seconds=1)
        for number in range(1, 9)
    }
    text = scrape(replace(make_report(NOW), losses=losses), before=replace(make_report(NOW), losses={}))
    assert value(text, "ckptd_account_lost_node_seconds_total", account="lab8", cause="failure") == 8
    assert value(text, "ckptd_account_lost_node_seconds_total", account="other", cause="failure") == 1 + 2


def test_the_rest_of_the_names_counts_from_the_start_because_a_restart_may_choose_other_names():
    def lost(more):
        return {
            LossKey(EndCause.FAILURE, f"p{number:02}", f"a{number:02}"): LossTotal(
                seconds=1, gpu_seconds=1000 + number + more, node_seconds=1000 + number + more
            )
            for number in range(20)
        }

    before, after = (replace(make_report(NOW), losses=lost(more)) for more in (0, 10))
    for report, grown in ((before, 0), (after, 10)):
        text = scrape(report, before=before)
        by_partition = value(text, "ckptd_lost_gpu_seconds_total", cause="failure", partition="other")
        by_account = value(text, "ckptd_account_lost_node_seconds_total", account="other", cause="failure")
        assert (by_partition, by_account) == (8 * grown, 14 * grown)
        named = value(text, "ckptd_lost_gpu_seconds_total", cause="failure", partition="p19")
        assert named == 1019 + grown


def test_users_the_gap_and_the_mail_limit_are_those_of_the_report():
    report = replace(make_report(NOW), backfill_gap=timedelta(hours=2), is_mail_limit_reached=True)
    text = scrape(replace(report, fleet=replace(report.fleet, user_count=17)))
    assert value(text, "ckptd_users") == 17
    assert value(text, "ckptd_backfill_gap_seconds") == 7200
    assert value(text, "ckptd_mail_limit_reached") == 1
    assert value(scrape(make_report(NOW)), "ckptd_mail_limit_reached") == 0


def test_memory_has_series_where_the_service_has_a_limit():
    collector = ReportCollector("1", started_at=NOW)
    collector.publish(make_report(NOW))
    assert "ckptd_memory" not in read(collector)
    collector.record_memory(ServiceMemory(used_bytes=5, limit_bytes=9))
    collector.publish(make_report(NOW))
    text = read(collector)
    assert (value(text, "ckptd_memory_bytes"), value(text, "ckptd_memory_limit_bytes")) == (5, 9)


def test_of_many_file_systems_the_fullest_are_named():
    space = {FileSystem("nfs4", f"/home/u{n}"): FreeSpace(free_bytes=n, free_ratio=n / 500) for n in range(500)}
    report = make_report(NOW)
    text = scrape(replace(report, fleet=replace(report.fleet, space_by_filesystem=space)))
    ratios = {labels: number for (name, labels), number in samples(text).items() if name.endswith("_free_ratio")}
    assert len(ratios) == 20
    assert value(text, "ckptd_filesystem_free_ratio", mountpoint="/home/u0", type="nfs4") == 0
    assert max(ratios.values()) == 19 / 500


@pytest.mark.parametrize("flagged_limit", [0, 5])
def test_every_series_names_the_cluster_also_those_of_the_process(flagged_limit):
    series = samples(scrape(make_report(NOW), flagged_limit=flagged_limit))
    assert ("process_resident_memory_bytes", (("cluster", "c1"),)) in series
    assert {dict(labels).get("cluster") for _, labels in series} == {"c1"}


def test_a_standby_names_its_cluster_before_it_has_a_report():
    collector = ReportCollector("1", started_at=NOW)
    collector.record_leader("c1", is_leader=False)
    assert {dict(labels).get("cluster") for _, labels in samples(read(collector))} == {"c1"}


def test_the_numbers_are_those_of_the_report():
    report = make_report(NOW)
    text = scrape(report)
    assert value(text, "ckptd_jobs", state="PENDING") == 800
    assert value(text, "ckptd_slurm_up", cluster="c1") == 1
    assert value(text, "ckptd_last_poll_timestamp_seconds") == NOW.timestamp() - 20
    assert value(text, "ckptd_checkpoint_age_seconds_count") == report.fleet.age_seconds.count
    assert value(text, "ckptd_step_failures_total", step="scan") == 1
    assert value(text, "ckptd_step_duration_seconds_bucket", step="poll", le="0.25") == 1
    assert value(text, "ckptd_failed_polls_total") == 1
    assert value(text, "ckptd_recent_requeues") == 4
    assert value(text, "ckptd_unreadable_directory_users") == 1
    assert value(text, "ckptd_lost_gpu_seconds_total", cause="time-limit", partition="part1") == 4800
    assert value(text, "ckptd_waiting_notices", channel="mail") == 12
    assert value(text, "ckptd_notice_delay_seconds") == 90
    assert value(text, "ckptd_trash_bytes") == 10**12
    assert value(text, "ckptd_trash_oldest_timestamp_seconds") == NOW.timestamp() - 3 * 86400
    assert value(text, "ckptd_prune_operations_total", action="prune", result="refused") == 2 * len(("", *FailureCause))
    assert value(text, "ckptd_prune_failures_total", action="prune", reason="open") == 12
    assert value(text, "ckptd_prune_operation_bytes_total", action="empty") == 3 * 10**12
    assert value(text, "ckptd_prune_planned_bytes", mode="plan") == 3 * 10**11
    assert value(text, "ckptd_prune_paused", reason="errors") == 1
    assert value(text, "ckptd_last_prune_duration_seconds") == 1.5


def test_a_user_with_many_flags_of_a_rule_is_one_flagged_user():
    flag = make_flag(1, NOW)
    same, other = (
        replace(flag, finding=replace(flag.finding, job_id=2, run=RunKey("c1", uid, "/x")))
        for uid in (flag.finding.run.uid, flag.finding.run.uid + 1)
    )
    for open_flags, users in [((flag, same), 1), ((flag, same, other), 2)]:
        text = scrape(replace(make_report(NOW), open_flags=open_flags))
        assert value(text, "ckptd_flagged_users", rule=flag.finding.rule) == users


def test_text_that_is_not_utf8_does_not_spoil_the_answer():
    report = Report(
        cluster="c\udcff1",
        made_at=NOW,
        jobs_by_state={"RUN\nNING": 1},
        fleet=FleetTotals(shares_by_partition={'a"b\\c\n\udc80': ResourceShare(jobs=1)}),
        open_flags=(
            Flag(
                finding=Finding(
                    rule="at-risk",
                    severity=Severity.WARNING,
                    run=RunKey("c1", 1, "/x"),
                    job_id=1,
                    user="\udce4" * 500,
                    evidence={},
                    recorded_advice="",
                ),
                opened_at=NOW,
            ),
        ),
    )
    text = scrape(report, flagged_limit=5)
    assert value(text, "ckptd_running_jobs", cluster="c\\udcff1", partition='a"b\\c\n\\udc80') == 1
    users = [dict(labels)["user"] for name, labels in samples(text) if name == "ckptd_flag_opened_timestamp_seconds"]
    assert [len(user) for user in users] == [64]


def test_jobs_are_named_only_where_the_site_asks_for_it():
    assert "job_id" not in scrape(make_report(NOW))


def test_the_worst_flags_are_named_and_what_is_left_out_is_counted():
    flags = tuple(make_flag(number, NOW) for number in range(30))
    text = scrape(replace(make_report(NOW), open_flags=flags), flagged_limit=4)
    named = [dict(labels) for name, labels in samples(text) if name == "ckptd_flag_opened_timestamp_seconds"]
    assert [each["severity"] for each in named] == ["critical"] * 4
    assert {each["job_id"] for each in named} == {"29", "26", "23", "20"}
    assert value(text, "ckptd_omitted_flags") == 26


def test_a_configuration_that_was_refused_is_told_until_a_good_one_comes():
    collector = ReportCollector("1", started_at=NOW)
    name = "ckptd_config_last_reload_successful"
    collector.record_reload(None, NOW + timedelta(hours=1))
    text = read(collector)
    assert value(text, name) == 0
    assert value(text, "ckptd_config_last_reload_success_timestamp_seconds") == NOW.timestamp()
    collector.record_reload(0, NOW + timedelta(hours=2))
    text = read(collector)
    assert value(text, name) == 1
    assert value(text, "ckptd_config_last_reload_success_timestamp_seconds") == NOW.timestamp() + 7200


def test_a_database_that_can_be_read_but_not_written_is_not_up():
    collector = ReportCollector("1", started_at=NOW)

    def is_up():
        collector.publish(make_report(NOW))
        return value(read(collector), "ckptd_database_up")

    assert is_up() == 1
    collector.record_database_step("poll", is_up=False)  # its disk is full
    collector.record_database_step("publish", is_up=True)  # which only reads
    assert is_up() == 0
    collector.record_database_step("poll", is_up=True)
    assert is_up() == 1
