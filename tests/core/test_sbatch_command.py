from dataclasses import replace
from datetime import timedelta
from pathlib import PurePosixPath

import pytest

from ckptd.core.job_actions import sbatch_command, sbatch_options
from ckptd.core.job_actions.sbatch_command import JobSubmission, ResubmitMark
from ckptd.core.model import Unknown
from core.histories import at, attempt, job

SCRIPT = "#!/bin/bash\n#SBATCH --qos=long\nsleep 1\n"
MARK = ResubmitMark(2, "0123456789abcdef")
JOB = job(
    name="two words",
    comment="ckpt=x; a -J 'b",
    partition="gpu1",
    account="lab",
    qos="long",
    time_limit=timedelta(minutes=90),
    work_dir=PurePosixPath("/home/alice/my run"),
)
OWN = ["sbatch", "--parsable", "--propagate=NONE", "--job-name=two words"]
OWN += ["--comment=ckpt=x; a -J 'b ckptd-resubmit=2.0123456789abcdef", "--chdir=/home/alice/my run"]
SHOWN = {
    "Command": "(null)", "NumNodes": "2", "NumTasks": "8", "cpus-per-task": "4", "NTPerNode": "0", "Feature": "(null)",
    "tres-per-node": "gres:gpu:a100:2,gres:shard:1", "tres-alloc": "cpu=32,mem=10G,node=2,billing=32", "ReqNodes": "",
    "STDOUT": "/home/alice/out-%j", "STDERR": "/home/alice/out-%j", "STDIN": "/dev/null", "Nice": "5",
    "OverSubscribe": "NO", "Requeue": "0", "Reservation": "(null)",
}  # fmt: skip


NO_MAIL = {"ExcNodeList": "(null)", "MailUser": "", "MailType": ""}


def command(line=None, attributes=None, script=SCRIPT, of=JOB, shown=NO_MAIL):
    return sbatch_command.plan_command(
        of, JobSubmission(script, attributes or {"Command": "(null)"}, line, shown), MARK
    )


def test_the_users_own_options_are_kept_and_what_holds_beside_them_is_said():
    line = "sbatch --gres=gpu:2 -n4 --signal=B:USR1@120 --mail-type=END -t 80"
    assert command(line) == [
        *OWN, "--partition=gpu1", "--account=lab",
        "--gres=gpu:2", "--ntasks=4", "--signal=B:USR1@120", "--mail-type=END", "--time=80",
    ]  # fmt: skip


def test_what_the_script_says_is_not_said_again():
    script = "#!/bin/bash\n#SBATCH -p gpu1,gpu2 -A lab -t 90 -q long\n"
    assert command("sbatch", script=script) == OWN


def test_options_that_were_served_or_serve_people_are_left_out():
    line = "sbatch -H -W -Q --begin=tomorrow -d afterok:7 --uid=0 --clusters=a --test-only --array=1-9%3 --requeue"
    assert command(line)[len(OWN) :] == ["--partition=gpu1", "--account=lab", "--time=90", "--requeue"]
    assert "--dependency=singleton" in command("sbatch -d afterok:7,singleton")


def test_a_federated_job_goes_on_within_the_clusters_that_its_user_named():
    federated = replace(JOB, job_id=67108866)
    assert "--clusters=a,b" in command("sbatch -M a,b", of=federated)
    answer = command(attributes=SHOWN, of=federated)
    assert isinstance(answer, Unknown)
    assert "clusters" in answer.reason


@pytest.mark.parametrize("directive", ["--clusters=a,b", "-M b", "--cluster=b"])
def test_a_script_that_names_clusters_is_submitted_to_its_own(directive):
    script = f"#!/bin/bash\n#SBATCH {directive}\n"
    assert "--clusters=a" in command("sbatch", {"Command": "(null)", "Cluster": "a"}, script)
    assert "--clusters=a" in command(None, {**SHOWN, "Cluster": "a"}, script)
    answer = command("sbatch", {"Command": "(null)", "Cluster": "N/A"}, script)
    assert isinstance(answer, Unknown)
    assert "names clusters" in answer.reason
    assert not [word for word in command("sbatch", SHOWN | {"Command": "", "Cluster": "a"}) if "clusters" in word]


@pytest.mark.parametrize("option", ["--wait", "-W", "--test-only"])
def test_a_script_on_which_sbatch_would_wait_or_submit_nothing_is_left_alone(option):
    answer = command("sbatch", script=f"#!/bin/bash\n#SBATCH {option}\n")
    assert isinstance(answer, Unknown)


def test_one_task_of_an_array_goes_on_alone():
    task = replace(JOB, array_job_id=1, array_task_id=0)
    assert command("sbatch --array=0-9%3", of=task)[6] == "--array=0"


def test_known_texts_with_blanks_do_not_confuse():
    line = "sbatch -J two words --comment=ckpt=x; a -J 'b -D /home/alice/my run -c 3"
    assert command(line)[-1] == "--cpus-per-task=3"


def test_a_script_keeps_its_argument():
    line, shown = "sbatch -c3 ./job.sh --two", {"Command": "/home/alice/job.sh --two"}
    assert command(line, shown)[-3:] == ["--cpus-per-task=3", "/dev/stdin", "--two"]
    assert command(None, {**SHOWN, **shown})[-2:] == ["/dev/stdin", "--two"]


def test_blanks_in_the_directory_of_a_script_begin_no_argument():
    assert "/dev/stdin" not in command(None, {**SHOWN, "Command": f"{JOB.work_dir}/job.sh"})
    assert command(None, {**SHOWN, "Command": f"{JOB.work_dir}/job.sh one"})[-2:] == ["/dev/stdin", "one"]


@pytest.mark.parametrize("tail", ["x y", "a  b", "'a b'", 'x "y', "a\tb", "a\nb", "a "])
def test_arguments_that_cannot_be_told_apart_are_not_guessed(tail):
    answer = command(f"sbatch job.sh {tail}", {"Command": f"/home/alice/job.sh {tail}"})
    assert isinstance(answer, Unknown)
    assert "cannot be parsed" in answer.reason


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(None, id="no accounting"),
        pytest.param("sbatch -o out dir-%j -c 9", id="a value with a blank"),
        pytest.param("sbatch -c 9 : -c 3", id="several components"),
    ],
)
def test_in_doubt_the_jobs_attributes_count(line):
    assert command(line, SHOWN)[len(OWN) :] == [
        "--partition=gpu1", "--account=lab", "--time=90",
        "--nodes=2", "--ntasks=8", "--cpus-per-task=4", "--output=/home/alice/out-%j", "--nice=5", "--mem=5242880K",
        "--exclusive", "--no-requeue", "--open-mode=append", "--gres=gpu:a100:2,shard:1",
    ]  # fmt: skip


def test_in_doubt_mail_and_excluded_nodes_are_what_scontrol_shows():
    shown = {"ExcNodeList": "n[1-2]", "MailUser": "a@b", "MailType": "END,TIME_LIMIT_90"}
    argv = command(None, SHOWN, shown=shown)
    assert {"--exclude=n[1-2]", "--mail-user=a@b", "--mail-type=END,TIME_LIMIT_90"} <= set(argv)
    garbled = Unknown(what="attributes", reason="cannot be told apart")
    assert command(None, SHOWN, shown=garbled) == garbled
    assert command("sbatch -c3", shown=garbled)[-1] == "--cpus-per-task=3", "the command line tells it all"


def test_in_doubt_no_file_is_emptied_unless_the_script_says_so():
    assert "--open-mode=append" in command("sbatch -o out dir-%j", SHOWN)
    script = "#!/bin/bash\n#SBATCH --open-mode=truncate\n"
    assert not [word for word in command(None, SHOWN, script=script) if word.startswith("--open-mode")]


@pytest.mark.parametrize(
    ("words", "lost"),
    [
        ("--signal=B:USR1@300", "--signal"),
        ("--sig USR1", "--sig"),
        ("--export=NONE", "--export"),
        ("--export-file=3", "--export-file"),
        ("-m cyclic", "-m"),
        ("-HO", "-HO"),
        ("-Z", "-Z"),
        ("--hint=nomultithread", "--hint"),
    ],
)
def test_in_doubt_of_a_line_with_an_option_that_nothing_shows_nothing_is_submitted(words, lost):
    answer = command(f"sbatch -o out dir-%j {words} -c 9", SHOWN)
    assert isinstance(answer, Unknown)
    assert answer.reason == f"its submit line cannot be parsed: {lost}"


def test_words_of_known_texts_and_arguments_are_no_lost_options():
    line = "sbatch -J two words -o out dir --comment=ckpt=x; a -J 'b -xn1 --mem-per-cpu=1G job.sh --signal=1"
    argv = command(line, {**SHOWN, "Command": "/home/alice/job.sh --signal=1"})
    assert argv[-2:] == ["/dev/stdin", "--signal=1"]


def test_an_option_of_a_plugin_is_kept_or_nothing_is_submitted():
    assert command("sbatch --container-image=a.sqsh -c 9")[-2:] == ["--container-image=a.sqsh", "--cpus-per-task=9"]
    for line in ("sbatch --container-image a.sqsh -c 9", "sbatch -o out dir --container-image=a.sqsh"):
        answer = command(line, SHOWN)
        assert isinstance(answer, Unknown)
        assert answer.reason == "its submit line cannot be parsed: --container-image"


@pytest.mark.parametrize(
    ("attributes", "word"),
    [
        ({"tres-per-job": "gres:gpu:4"}, "--gpus=4"),
        ({"tres-per-job": "gres/gpu=4"}, "--gpus=4"),
        ({"tres-per-task": "cpu=2,gres/gpu:a100:1"}, "--gpus-per-task=a100:1"),
        ({"tres-per-socket": "gpu"}, "--gpus-per-socket=1"),
    ],
)
def test_gpus_are_asked_for_as_they_were(attributes, word):
    assert word in command(None, attributes)


def test_resources_for_which_there_is_no_option_are_not_dropped():
    assert isinstance(command(None, {"tres-per-job": "license:matlab:1"}), Unknown)


def test_a_mark_is_replaced_by_the_next_and_found_again():
    again = replace(JOB, comment="ckptd-resubmit=1.aaaaaaaaaaaaaaaa")
    (comment,) = [word for word in command("sbatch", of=again) if word.startswith("--comment=")]
    assert comment == "--comment=ckptd-resubmit=2.0123456789abcdef"
    assert sbatch_command.mark_of(comment.removeprefix("--comment=")) == MARK
    assert sbatch_command.mark_of("ckptd-resubmit=1.aaaaaaaaaaaaaaaab") is None
    assert len(sbatch_command.name_end(attempt(0, 60))) == len(MARK.end)


def test_a_mark_names_the_end_that_it_was_for_and_not_when_the_daemon_first_saw_the_job():
    """A record that begins anew, or another daemon's, knows the same job by it."""
    first = attempt(0, 60)
    again = replace(first, job=first.job._replace(first_seen_at=at(50)), first_seen_at=at(50))
    assert sbatch_command.name_end(again) == sbatch_command.name_end(first)
    others = (attempt(0, 60, job_id=2), attempt(0, 60, restart_count=1), attempt(1, 60))
    assert len({sbatch_command.name_end(each) for each in (first, *others)}) == 4


def test_a_command_line_that_takes_long_to_read_is_not_read():
    answer = command(f"sbatch {'-H ' * 50_000}")
    assert isinstance(answer, Unknown)
    assert "too long" in answer.reason


def test_text_of_users_stays_inside_its_option():
    wild = replace(JOB, name="--uid=0", comment="a b;--exclusive\n#SBATCH -p x")
    argv = command("sbatch", of=wild)
    given = sbatch_options.parse_words(argv[1:])
    assert {option.name: option.value for option in given.options}["job-name"] == "--uid=0"
    assert "uid" not in {option.name for option in given.options}
