"""From a job that restarts with nothing to continue from to an alert and a mail, through every real server."""

import html
import logging
import os
import shutil
from pathlib import Path

import pytest

from demo import ports
from demo.watcher import Watcher
from support.mail_server import PASSWORD, USER, MailServer, wait_until
from support.prometheus_server import Alertmanager, Prometheus, wait_for

FOLDER = Path(__file__).parents[2] / "deploy/prometheus"
SETTINGS = """
[slurm]
poll_interval = "1s"
timeout = "4s"
[scan]
interval = "2s"
write_grace = "5s"
allowed_roots = ["{homes}"]
[health]
min_job_duration = "30s"
[health.rules.restarted-without-checkpoint]
min_loss = "1s"
[health.rules.volatile-path]
enabled = false  # the homes are below /tmp
[metrics]
flagged_jobs = 10
[web]
listen = "{listen}"
[service]
state_directory = "{state}"
[mail]
mode = "on"
sender = "ckptd@example.org"
recipient = "{{user}}@example.org"
allowed_domains = ["people.example"]
admins = ["root@example.org"]
relays = ["127.0.0.1:PORT"]
username = "USERNAME"
password_file = "FOLDER/password"
ca_file = "FOLDER/certificate.pem"
critical_window = "3s"
"""
NEVER_SAVES = (
    "#!/bin/bash\n#SBATCH --requeue --time=60 --comment=ckpt=checkpoints\nmkdir -p checkpoints\nexec sleep 600\n"
)
NAME = "CkptdRestartedWithoutCheckpoint"
# For a while every answer about a job overruns its time, as on a machine that is busy.
SLOW_AT_FIRST = """#!/bin/sh
if [ "$1 $2" = "show job" ]; then
    mkdir "{marker}-$3" 2>/dev/null
    if [ $(($(date +%s) - $(stat -c %Y "{marker}-$3"))) -lt 15 ]; then exec sleep 60; fi
fi
exec {scontrol} "$@"
"""


@pytest.fixture
def inbox(tmp_path):
    logging.getLogger("mail.log").setLevel(logging.CRITICAL)
    server = MailServer(tmp_path)
    server.start()
    server.inbox.port = server.port
    yield server.inbox
    server.stop()


@pytest.fixture
def slow_programs(tmp_path):
    """A directory for PATH whose scontrol is too late with its first answers."""
    folder = tmp_path / "programs"
    folder.mkdir()
    script = folder / "scontrol"
    script.write_text(SLOW_AT_FIRST.format(marker=tmp_path / "asked", scontrol=shutil.which("scontrol")))
    script.chmod(0o755)
    return folder


@pytest.fixture
def watcher(cluster, inbox, tmp_path, slow_programs, monkeypatch):
    (tmp_path / "password").write_text(PASSWORD)
    settings = SETTINGS.replace("PORT", str(inbox.port)).replace("USERNAME", USER)
    watching = Watcher(cluster, settings.replace("FOLDER", str(tmp_path)), port=ports.find_free_ports(1)[0])
    with monkeypatch.context() as during_start:
        during_start.setenv("PATH", f"{slow_programs}:{os.environ['PATH']}")
        watching.start()
    yield watching
    watching.stop()
    shutil.rmtree(watching.state)


def make_impatient(rules):
    """Let one flag of one user make the alert fire at once; otherwise it is as shipped."""
    before, name, after = rules.partition(f"- alert: {NAME}\n")
    rule, following, rest = after.partition("- alert:")
    for shipped, quick in (("[1h])) > 5", "[1h])) > 0"), (">= 2", ">= 1"), ("for: 5m", "for: 2s")):
        assert rule.count(shipped) == 1
        rule = rule.replace(shipped, quick)
    return before + name + rule + following + rest


def test_a_restart_without_a_checkpoint_makes_the_alert_fire_and_one_mail_arrive_and_its_end_resolves_the_alert(
    cluster, user, inbox, watcher, tmp_path
):
    rules = tmp_path / "alert.rules.yml"
    text = (FOLDER / "alert.rules.yml").read_text()
    rules.write_text(make_impatient(text))
    manager_config = FOLDER / "alertmanager.example.yml"
    address = f"{user.name}@people.example"
    job = cluster.submit(
        user, NEVER_SAVES, "--job-name=no-saves", f"--mail-user={address}", "--mail-type=TIME_LIMIT_90"
    )
    cluster.wait_for("the job to run", lambda: cluster.read_job(job, "%T") == "RUNNING")
    with Alertmanager(tmp_path, manager_config) as manager:
        target, where = watcher.address, manager.address
        with Prometheus(tmp_path, target, rule_files=[rules], alertmanager=where) as prometheus:
            wait_for("the job in metrics", lambda: prometheus.query('ckptd_jobs{state="RUNNING"} >= 1'))
            assert prometheus.query("ckptd_slurm_up")[0][1] == 1
            assert not [each for each in manager.list_alerts() if each["labels"]["alertname"] == NAME]
            assert not [each for each in inbox.mails if each["To"] == address]

            cluster.command("scontrol", "requeue", str(job))
            (alert,) = wait_for(
                "the alert",
                lambda: [each for each in manager.list_alerts() if each["labels"]["alertname"] == NAME],
                seconds=120,
            )
            assert alert["labels"]["severity"] == "warning"  # one user's job wakes nobody
            assert alert["annotations"]["summary"].endswith("restarted without a usable checkpoint within an hour")
            assert prometheus.query('ckptd_flagged_users{rule="restarted-without-checkpoint"}')[0][1] == 1
            query = 'ckptd_flag_opened_timestamp_seconds{rule="restarted-without-checkpoint"}'
            named = wait_for("the flag by its job", lambda: prometheus.query(query))
            assert [(labels["job_id"], labels["user"]) for labels, _ in named] == [(str(job), user.name)]
            assert prometheus.query('ckptd_restarts_total{kind="requeue"}')[0][1] >= 1

            wait_until(lambda: [each for each in inbox.mails if each["To"] == address], 150)
            cluster.cancel_jobs(user)
            wait_for(
                "the end of the alert",
                lambda: not prometheus.query(f'ALERTS{{alertname="{NAME}",alertstate="firing"}}'),
                seconds=60,
            )
    assert_is_the_one_mail(
        inbox, address, f"job {job} (no-saves), user {user.name}, checkpoints in {user.home}/checkpoints"
    )


def assert_is_the_one_mail(inbox, address, about):
    """The job was cancelled and its alert is over: what else could have been mailed has been."""
    told = [(each["To"], each["Subject"]) for each in inbox.mails if "(no-saves)" in str(each)]
    assert [to for to, _ in told] == [address], told
    (mail,) = (each for each in inbox.mails if each["To"] == address)  # other people's jobs are there, too
    assert mail.session.ssl
    assert mail.session.authenticated
    assert mail.envelope.rcpt_tos == [mail["To"]] == [address]
    assert "critical: Restarted without a checkpoint" in mail["Subject"]
    for part in ("plain", "html"):
        text = mail.get_body([part]).get_content()
        assert "Save a first checkpoint within a few minutes of the start" in " ".join(text.split())
        assert 'mute = ["restarted-without-checkpoint"]' in html.unescape(text)
    assert about in mail.get_body(["plain"]).get_content()
