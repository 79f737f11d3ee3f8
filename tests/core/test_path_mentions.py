"""What a job's texts name, and that no text makes reading them slow."""

import time
from dataclasses import replace
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptd.core.discovery.path_mentions import (
    COMMAND,
    COMMENT,
    MAX_MENTIONS,
    NAME,
    describe,
    list_mentions,
    list_script_mentions,
    may_load_later,
)
from ckptd.core.model import JobState
from support.queue_facts import make_job

WORK_DIR = "/home/alice"


def job(**changes):
    return make_job(4711, JobState.PENDING, work_dir=PurePosixPath(WORK_DIR), **changes)


def read(script, **changes):
    return list_script_mentions(script, job(**changes))


def sure(script):
    return {mention.path for mention in read(script) if mention.is_sure and not mention.is_place}


def tails(script):
    return {mention.tail for mention in read(script) if mention.tail}


def places(script):
    return {mention.path for mention in read(script) if mention.is_place}


def is_opaque(script):
    return any(mention.path == WORK_DIR and not mention.is_sure and not mention.tail for mention in read(script))


@pytest.mark.parametrize(
    ("script", "path"),
    [
        ("python train.py --resume /x/epoch_3.pt", "/x/epoch_3.pt"),
        ("python train.py --resume=/x/epoch_3.pt", "/x/epoch_3.pt"),
        ("srun python train.py resume_from=/x/epoch_3.pt", "/x/epoch_3.pt"),
        ("python train.py trainer.ckpt_path='/x/last.ckpt'", "/x/last.ckpt"),
        ("CKPT=/x/y; python train.py --load $CKPT", "/x/y"),
        ("export A=/x B=$A/e_1.pt\npython train.py --load ${B}", "/x/e_1.pt"),
        ("python train.py --resume $SLURM_SUBMIT_DIR/e_1.pt", f"{WORK_DIR}/e_1.pt"),
        ("python train.py --resume ckpts/e_1.pt", f"{WORK_DIR}/ckpts/e_1.pt"),
        ("cd /data/a && python train.py --resume ../b/e_1.pt", "/data/b/e_1.pt"),
        ("cd runs\npython train.py --resume e_1.pt", f"{WORK_DIR}/runs/e_1.pt"),
        ("python train.py --load '/data/a b/e 1.pt'", "/data/a b/e 1.pt"),
        ("python train.py --load /data/a\\ b/e_1.pt", "/data/a b/e_1.pt"),
        ("python train.py --load ~/x/best.pt", "~/x/best.pt"),
        ("python train.py --load $HOME/x/best.pt", "~/x/best.pt"),
        ("python - <<EOF\nmodel = torch.load('/x/e_9.pt')\nEOF", "/x/e_9.pt"),
        ("python train.py --resume ${CKPT:-/x/e_4.pt}", "/x/e_4.pt"),
        ("#SBATCH --export=CKPT=/x/e_5.pt", "/x/e_5.pt"),
        ("python train.py \\\n  --resume /x/e_6.pt", "/x/e_6.pt"),
        ("echo don't; python train.py --resume /x/e_7.pt", "/x/e_7.pt"),
        ("if [ -f /x/e_8.pt ]; then python train.py; fi", "/x/e_8.pt"),
        ("python train.py --resume /x/../y//e_1.pt", "/y/e_1.pt"),
        ("python train.py --inits /x/e_1.pt,/x/e_2.pt", "/x/e_2.pt"),
        ("python train.py --ckpt_path=ckpts/epoch=2-step=20.ckpt", f"{WORK_DIR}/ckpts/epoch=2-step=20.ckpt"),
        ("python train.py ckpt_path=ckpts/epoch=2-step=20.ckpt", f"{WORK_DIR}/ckpts/epoch=2-step=20.ckpt"),
        ("CKPT='epoch=02-val_loss=0.50.ckpt'\ntrain --load $CKPT", f"{WORK_DIR}/epoch=02-val_loss=0.50.ckpt"),
        ("python train.py 'ckpt_path=\"c/epoch=2.ckpt\"'", f"{WORK_DIR}/c/epoch=2.ckpt"),
        ("python train.py 'ckpt_path=c/epoch\\=2.ckpt'", f"{WORK_DIR}/c/epoch=2.ckpt"),
        ("python train.py ckpt_path=c/epoch\\\\=2.ckpt", f"{WORK_DIR}/c/epoch=2.ckpt"),
        ("python train.py a=1,ckpt_path=c/epoch=2.ckpt", f"{WORK_DIR}/c/epoch=2.ckpt"),
        ("python train.py --resume 'ckpts/epoch 2.pt'", f"{WORK_DIR}/ckpts/epoch 2.pt"),
        ("python train.py --resume ckpts/epoch\\ 2.pt", f"{WORK_DIR}/ckpts/epoch 2.pt"),
        ("python eval.py ckpts/epoch_{2,3}.pt", f"{WORK_DIR}/ckpts/epoch_3.pt"),
        ("python eval.py {a,b}/epoch_{08..10}.pt", f"{WORK_DIR}/b/epoch_09.pt"),
    ],
)
def test_a_path_that_can_be_filled_in_is_named_for_sure(script, path):
    assert path in sure(script)


@pytest.mark.parametrize(
    ("script", "tail"),
    [
        ("python train.py --resume $CKPTS/epoch_3.pt", "epoch_3.pt"),
        ("CKPT=$SCRATCH/run/epoch_3.pt\npython train.py --load $CKPT", "run/epoch_3.pt"),
        ("python train.py --resume_from_checkpoint checkpoint-300", "checkpoint-300"),
        ("python train.py --resume ckpts/e_1.pt", "ckpts/e_1.pt"),
        ("python train.py --load */epoch_3.pt", "epoch_3.pt"),
        ("python train.py --load ~bob/run/epoch_3.pt", "run/epoch_3.pt"),
        ("python train.py --load $CKPTS/epoch=2-step=20.ckpt", "epoch=2-step=20.ckpt"),
        ("python - <<EOF\nload(Path('ckpts')/'epoch_2.pt')\nEOF", "epoch_2.pt"),
    ],
)
def test_of_a_path_that_cannot_be_filled_in_its_literal_end_is_named(script, tail):
    assert tail in tails(script)


@pytest.mark.parametrize(
    "script",
    [
        "python train.py --resume $X",
        "python train.py --resume=$1",
        'python train.py --resume "$(ls -t ckpts/*.pt | head -1)"',
        "CKPT=`newest`; python train.py",
        "python train.py --load $DIR/$NAME",
        "python train.py --resume epoch_$N.pt",
    ],
)
def test_a_path_that_may_be_anything_stands_for_what_is_near_the_job(script):
    assert is_opaque(script)


@pytest.mark.parametrize(
    ("script", "path"),
    [
        ("python pretrain.py --load /x/run --ckpt-step 2000", "/x/run"),
        ("python train.py --resume_epoch=3 --load-dir ckpts", f"{WORK_DIR}/ckpts"),
        ("python train.py --resume-from-step 300", WORK_DIR),
    ],
)
def test_the_number_of_a_checkpoint_stands_for_all_where_it_is_loaded_from(script, path):
    assert (path, False) in {(mention.path, mention.is_sure) for mention in read(script)}


def test_how_often_checkpoints_are_saved_is_no_number_of_one():
    for option in ("--checkpointing_steps 500", "--save-ckpt-every-step 10", "--ckpt-interval 5", "--epoch 3"):
        assert not any(not mention.is_sure for mention in read(f"python train.py --load /x/run {option}"))


def test_a_pattern_stands_for_all_of_its_directory():
    (mention,) = read("python train.py --load /x/run/epoch_*.pt")
    assert (mention.path, mention.is_sure) == ("/x/run", False)


@pytest.mark.parametrize(
    "load", ["f'ckpts/epoch_{epoch}.pt'", "'ckpts/epoch_{}.pt'.format(2)", "'ckpts/epoch_%02d.pt' % 2"]
)
def test_a_name_that_a_program_formats_stands_for_all_of_its_directory(load):
    found = read(f"python - <<EOF\nmodel = torch.load({load})\nEOF")
    assert (f"{WORK_DIR}/ckpts", False) in {(mention.path, mention.is_sure) for mention in found}


@pytest.mark.parametrize(
    "script",
    [
        "# python train.py --resume /x/e_1.pt",
        "mkdir -p /x/run_1",
        "python train.py --resume --epochs 100",
        "python train.py --checkpoint-every $N",
        "module load cuda/12.1",
    ],
)
def test_what_names_no_checkpoint_is_left_out(script):
    assert read(script) == ()


def test_where_a_job_saves_is_a_place_and_no_checkpoint_that_it_loads():
    script = "#SBATCH -o /x/logs/a\nOUTPUT_DIR=/x/run\npython train.py --save-dir /x/run --output_dir=$OUTPUT_DIR"
    assert "/x/run" in places(script)
    assert sure(script) == set()


def test_only_what_is_written_out_is_literal():
    literal = {mention.path for mention in read("A=/x\ntrain --load /x/e_1.pt $A/e_2.pt") if mention.is_literal}
    assert "/x/e_1.pt" in literal
    assert "/x/e_2.pt" not in literal


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"comment": "resume_from=/x/epoch_3.pt"}, "/x/epoch_3.pt"),
        ({"comment": "goes on from /x/epoch_3.pt, then stops"}, "/x/epoch_3.pt"),
        ({"name": "/x/epoch_3.pt"}, "/x/epoch_3.pt"),
        ({"name": "cont-epoch_3.pt"}, f"{WORK_DIR}/epoch_3.pt"),
        ({"command": "/home/alice/train.sh --resume ../bob/epoch_3.pt"}, "/home/bob/epoch_3.pt"),
    ],
)
def test_a_jobs_name_comment_and_command_line_name_paths_too(changes, path):
    found = {mention.path: mention for mention in list_mentions(job(**changes))}
    assert path in found
    assert found[path].source == {"comment": COMMENT, "name": NAME, "command": COMMAND}[next(iter(changes))]


def test_an_ordinary_job_names_nothing():
    assert list_mentions(job(name="train_7", command="/home/alice/train.sh")) == ()
    assert describe(job(name="train_7"), None, reads_scripts=False).is_empty
    assert list_mentions(job(comment="ckpt=/x/run")) == ()
    (mention,) = list_mentions(job(comment="ckpt='/x/a b',from=/x/run/epoch_3.pt"))
    assert mention.path == "/x/run/epoch_3.pt"


def test_what_was_read_of_a_job_stays_with_it_until_it_is_another():
    known = describe(job(comment="/x/e_1.pt"), None, reads_scripts=True)
    assert known.is_script_awaited
    known = replace(known, script_mentions=known.mentions, resolved={"/x/e_1.pt": "/y/e_1.pt"}, is_script_awaited=False)
    again = describe(job(comment="/x/e_2.pt"), known, reads_scripts=True)
    assert again.script_mentions == known.script_mentions
    assert not again.is_script_awaited
    other = describe(job(comment="/x/e_2.pt", uid=7), known, reads_scripts=True)
    assert other.script_mentions is None
    assert other.resolved == {}


WAITING = ("PENDING", "REQUEUE_HOLD", "SPECIAL_EXIT", "CONFIGURING", "UNKNOWN")
LOADED = ("RUNNING", "SUSPENDED", "COMPLETING", "COMPLETED")


@pytest.mark.parametrize("state", [*WAITING, *LOADED])
def test_a_job_that_has_yet_to_start_has_yet_to_load(state):
    assert may_load_later(make_job(1, JobState(state))) is (state in WAITING)


# made where they are read: each is a megabyte, which all workers would keep
HOSTILE = {
    "quotes": lambda: "\"'" * 500_000,
    "open quotes": lambda: "'" + '"' * 999_999,
    "open variables": lambda: "${" * 500_000,
    "variables": lambda: "$A " * 333_333,
    "nested defaults": lambda: "${a:-" * 150_000 + "}" * 150_000,
    "variables of variables": lambda: "A=xxxxxxxx\n" + "A=$A$A\n" * 100 + "--load $A " * 90_000,
    "slashes": lambda: "/" * 1_000_000,
    "steps upwards": lambda: "../" * 333_333,
    "paths": lambda: "".join(f"--load /x/y{n}/epoch_{n}.pt\n" for n in range(35_000)),
    "assignments": lambda: "a=" * 500_000,
    "one long value": lambda: "--load=" + "$X/" * 330_000,
    "brackets": lambda: "(" * 1_000_000,
    "backslashes": lambda: "\\" * 999_999,
    "empty lines": lambda: "\n" * 1_000_000,
    "bytes that are no text": lambda: "\udcff/" * 500_000,
    "commas": lambda: "/a/b_1," * 140_000,
    "patterns": lambda: "*/" * 500_000,
    "directories": lambda: "cd a\n" * 200_000,
    "comments": lambda: "a#" * 500_000,
    "dots and digits": lambda: "1.a" * 330_000,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_megabyte_of_hostile_text_is_read_in_a_bounded_time_and_what_is_left_out_may_be_anything(what):
    text = HOSTILE[what]()
    began = time.process_time()
    found = read(text)
    assert time.process_time() - began < 5
    assert len(found) <= MAX_MENTIONS + 1
    assert any(mention.path == WORK_DIR and not mention.is_sure for mention in found)


def test_a_megabyte_of_hostile_text_in_a_name_a_comment_and_a_command_line_is_read_in_a_bounded_time():
    text = "".join(make()[:50_000] for make in HOSTILE.values())
    began = time.process_time()
    assert len(list_mentions(job(name=text, comment=text, command=f"x {text}"))) <= MAX_MENTIONS + 1
    assert time.process_time() - began < 15


TEXT = st.text(alphabet=st.sampled_from("ab1/.$\"'\\{}()=;|&# \n~*[]-_,:\udcff"), max_size=60)


@given(text=TEXT)
def test_any_text_gives_paths_that_are_absolute_and_without_steps_upwards(text):
    for mention in read(text):
        assert mention.path == "" or mention.path[0] in "/~"
        assert ".." not in PurePosixPath(mention.path).parts[1:] or mention.path.startswith("~")
        assert not mention.tail.startswith(("/", "../"))
        assert "\0" not in mention.path + mention.tail
