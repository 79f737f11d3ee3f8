"""The agent sends the answers that it has at once: each time that it sends some, the main process wakes up."""

import socket

from ckptd.checkpoints.agent.answer_queue import AnswerQueue
from ckptd.checkpoints.agent.line_buffer import LineBuffer


def test_answers_that_come_one_after_another_are_sent_together():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        queue = AnswerQueue(ours)
        for index in range(3):
            queue.add({"index": index})
        assert not queue.is_empty
        queue.send()
        assert queue.is_empty
        assert theirs.recv(1000) == b'{"index": 0}\n{"index": 1}\n{"index": 2}\n'


def test_a_line_is_complete_when_its_end_was_read():
    buffer = LineBuffer()
    assert buffer.take_lines(b"one\ntw") == [b"one"]
    assert len(buffer) == 2
    assert buffer.take_lines(b"") == []
    assert buffer.take_lines(b"o") == []
    assert buffer.take_lines(b"\n\nthree\n") == [b"two", b"", b"three"]
    assert not buffer
