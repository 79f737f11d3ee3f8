"""Lost work while this host's clock differs from those of Slurm and the file server, and after it is right again."""

from datetime import timedelta

from store.test_lost_work import minutes_lost, run_job, timed_out
from support.queue_facts import RUN, at, make_checkpoint, make_job
from support.recorded import locate, note_run, poll, scan


def test_a_save_that_is_dated_again_after_this_hosts_clock_was_behind_changes_the_line(store):
    job = run_job(store)
    scan(store, 5, make_checkpoint(written=15))  # ten minutes behind Slurm and the file server
    poll(store, 21, timed_out(job))
    assert minutes_lost(store) == [15]
    scan(store, 22, make_checkpoint(written=15))
    (line,) = store.lost_work.list_lines(RUN)
    assert (line.loss.saved_at, line.loss.lost, line.is_final) == (at(15), timedelta(minutes=5), True)


def test_a_save_of_the_next_job_that_is_dated_again_is_taken_from_the_job_before_it(store):
    first = run_job(store)
    scan(store, 5, make_checkpoint(written=4))
    poll(store, 21, timed_out(first))
    poll(store, 23, make_job(2, started_at=at(22), submitted_at=at(21)))
    locate(store, 2, RUN, 23)
    saves = (make_checkpoint(written=4), make_checkpoint("b.pt", written=40))
    scan(store, 15, *saves)  # 25 minutes behind
    scan(store, 21, *saves)
    assert minutes_lost(store) == [5]
    assert [line.is_final for line in store.lost_work.list_lines(RUN)] == [True]
    scan(store, 50, *saves)
    assert minutes_lost(store) == [16]
    assert [line.is_final for line in store.lost_work.list_lines(RUN)] == [True]


def test_a_save_that_is_found_after_this_hosts_clock_was_ahead_changes_the_line(store):
    note_run(store, RUN, at(2))
    scan(store, 30)  # at minute 2, so the save below was not there yet
    poll(store, 21, timed_out(make_job(1, started_at=at(3))))  # no poll has seen it run
    locate(store, 1, RUN, 21)
    assert [(line.loss.saved_at, line.is_final) for line in store.lost_work.list_lines(RUN)] == [(None, True)]
    scan(store, 22, make_checkpoint(written=15))
    (line,) = store.lost_work.list_lines(RUN)
    assert (line.loss.saved_at, line.loss.lost, line.is_final) == (at(15), timedelta(minutes=5), True)
    scan(store, 23, make_checkpoint(written=15), make_checkpoint("b.pt", written=10))
    assert store.lost_work.list_lines(RUN) == (line,), "an earlier save changes nothing"
