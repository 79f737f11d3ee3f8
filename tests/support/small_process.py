"""Calls what forks often in a small process: to fork one of tests, which is large, costs several times as much."""

import traceback

from support.forked_processes import FORKS


def call(function, *arguments):
    """Return what a function of a module returns there; raise an AssertionError with the trace of what it raises."""
    receiving, sending = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=_answer, args=(sending, function, arguments))
    process.start()
    sending.close()
    try:
        result, trace = receiving.recv()
    finally:
        receiving.close()
        process.join()
    assert trace is None, trace
    return result


def _answer(connection, function, arguments):
    try:
        answer = function(*arguments), None
    except Exception:  # noqa: BLE001 - told where it was called from
        answer = None, traceback.format_exc()
    connection.send(answer)
