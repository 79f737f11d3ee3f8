"""The threads that scan: some at work, and more that wait for owners whose file systems or processes do not answer."""

import threading
from collections.abc import Callable
from concurrent import futures

PATIENCE_SECONDS = 3.0


class ScanPool:
    """Runs a few tasks at a time. One that takes long gives its place to the next, so that it delays others little."""

    def __init__(self, at_work: int, most: int, patience_seconds: float = PATIENCE_SECONDS) -> None:
        """Let `at_work` tasks run, beside those that have run for `patience_seconds`; all together at most `most`."""
        self._places = threading.Semaphore(at_work)
        self._most = most
        self._is_shut_down = False
        self._patience_seconds = patience_seconds
        self._threads = futures.ThreadPoolExecutor(most, thread_name_prefix="scan")

    def submit(self, work: Callable[[], None]) -> None:
        """Run a task as soon as there is a place.

        Raises:
            RuntimeError: the pool was shut down.

        """
        self._threads.submit(self._run, work)

    def shutdown(self) -> None:
        """Start no further task, and do not wait for running ones."""
        self._is_shut_down = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._places.release(self._most)  # whoever waits for a place sees that there is nothing left to do

    def _run(self, work: Callable[[], None]) -> None:
        self._places.acquire()
        if self._is_shut_down:
            return
        leave = _Once(self._places.release)
        timer = threading.Timer(self._patience_seconds, leave)
        timer.daemon = True
        timer.start()
        try:
            work()
        finally:
            timer.cancel()
            leave()


class _Once:
    """Calls a function the first time that it is called itself, from whichever thread."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._lock = threading.Lock()
        self._is_done = False

    def __call__(self) -> None:
        with self._lock:
            if not self._is_done:
                self._is_done = True
                self._call()
