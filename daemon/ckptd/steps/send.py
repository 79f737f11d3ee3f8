"""Sends the messages of the outbox one after another: claim, render, send, record the outcome.

It runs on its own thread, so that a dead relay delays nothing else. After a channel was unreachable, it is not used for
a while, and its messages wait.
"""

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ckptd.core import notices
from ckptd.core.model import EVERY_RULE, Unknown
from ckptd.core.notices import Notice, Recipient
from ckptd.core.notices.delivery import MessageClaim, NoticeState, SendOutcome, SendResult
from ckptd.errors import CkptdError
from ckptd.present.formatting import format_count
from ckptd.steps.parts import Parts, SendParts
from ckptd.steps.rate_limit import MailRateLimit
from ckptd.steps.results import IDLE, StepResult
from ckptd.steps.snapshots import MessageCounts
from ckptd.steps.state import State

log = logging.getLogger("ckptd")

FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(minutes=5)
MINUTE = timedelta(minutes=1)


@dataclass(kw_only=True)
class _Pause:
    """The pause after a channel was unreachable."""

    until: datetime
    length: timedelta


def run(parts: Parts, state: State, now: datetime) -> StepResult:
    """Send due messages; nothing if mail is not built, as in some commands."""
    if parts.post is None:
        return IDLE
    post = parts.post
    sender = state.own(Sender, lambda: Sender(post=post, clock=parts.runner.read_time, publish=state.publish))
    sender.post = post
    return StepResult(sender.send_due(now) > 0)


def change_parts(parts: Parts, state: State, _now: datetime) -> None:
    """Use the new configuration from the next message on, even within a running step."""
    sender = state.find(Sender)
    if sender is not None and parts.post is not None:
        sender.post = parts.post


def stop(state: State, timeout_seconds: float) -> None:
    """Start no further message, and wait for the one in progress."""
    sender = state.find(Sender)
    if sender is not None:
        sender.close(timeout_seconds)


@dataclass(kw_only=True)
class Sender:
    """Sends due messages. `results` counts them by channel and result since the start."""

    post: SendParts
    clock: Callable[[], datetime]
    publish: Callable[[MessageCounts], None] = field(default=lambda _counts: None)  # after each message
    results: Counter[tuple[str, str]] = field(default_factory=Counter)
    _rate_limit: MailRateLimit = field(default_factory=MailRateLimit)
    _pauses: dict[str, _Pause] = field(default_factory=dict)
    _sent_at: deque[datetime] = field(default_factory=deque)
    _is_stopping: threading.Event = field(default_factory=threading.Event)
    _is_limit_reached: bool = False
    _is_busy: threading.Lock = field(default_factory=threading.Lock)

    def close(self, timeout_seconds: float) -> None:
        """Start no further message, and wait until the outcome of the one in progress is recorded."""
        self._is_stopping.set()
        if self._is_busy.acquire(timeout=timeout_seconds):
            self._is_busy.release()

    def send_due(self, now: datetime) -> int:
        """Send until nothing is due, no channel answers or the rate limit is reached; return the number sent."""
        post = self.post
        dropped_count = post.store.claims.drop_undelivered(post.cluster, post.channels, now, post.lease)
        if dropped_count:
            dropped_text = format_count(dropped_count, "notice")
            log.error(
                "notices dropped because delivery failed for days or their channel is no longer configured: %s",
                dropped_text,
            )
        sent_count = 0
        while (channels := self._open_channels(now)) and self._has_rate_left(now):
            with self._is_busy:
                if self._is_stopping.is_set():
                    break
                limits = self._rate_limit.restrict(self.post, now)
                self._publish_limit(is_reached=limits is not None and limits.is_for_critical)
                claim = self.post.store.claims.take(self.post.cluster, channels, now, self.post.lease, limits)
                if claim is None:
                    if limits and limits.is_for_critical and self._rate_limit.record_summary(self.post, now):
                        continue
                    break
                sent_count += self._send(claim)
            now = self.clock()
        return sent_count

    def _publish_limit(self, *, is_reached: bool) -> None:
        if is_reached is not self._is_limit_reached:
            self._is_limit_reached = is_reached
            self._publish_counts()

    def _publish_counts(self) -> None:
        self.publish(MessageCounts(dict(self.results), self._is_limit_reached))

    def _open_channels(self, now: datetime) -> list[str]:
        return [name for name in self.post.channels if name not in self._pauses or self._pauses[name].until <= now]

    def _has_rate_left(self, now: datetime) -> bool:
        while self._sent_at and self._sent_at[0] <= now - MINUTE:
            self._sent_at.popleft()
        return len(self._sent_at) < self.post.max_per_minute

    def _send(self, claim: MessageClaim) -> int:
        """Send one message; a failure is recorded with it and does not stop the next one."""
        left_out: dict[int, NoticeState] = {}
        is_handed_over = False
        try:
            wanted = self._without_muted(self._without_withheld(claim, left_out), left_out)
            digest = self._compose(wanted) if wanted else None
            if digest is not None:
                left_out |= {_number(notice): NoticeState.DROPPED for notice in digest.dropped}
            if digest is None or not digest.entries:
                outcome = SendOutcome(result=SendResult.SENT)
            else:
                is_for_user = self._is_for_user(claim.recipient)
                is_one_of_several = len(self.post.store.clusters.read_status()) > 1
                message = self.post.renderer.render(
                    digest, key=claim.message_key, is_for_user=is_for_user, is_one_of_several=is_one_of_several
                )
                is_handed_over = True
                self._sent_at.append(self.clock())
                outcome = self.post.channels[claim.recipient.channel].send(message)
        except Exception as error:  # the unit of work is one message
            is_unexpected = not isinstance(error, CkptdError)  # a database that is away needs no traceback
            address, reason = ascii(claim.recipient.address), ascii(str(error))
            log.error("send failed: message to %s: %s", address, reason, exc_info=is_unexpected)  # noqa: TRY400
            result = SendResult.UNCERTAIN if is_handed_over else SendResult.DEFERRED
            outcome = SendOutcome(result=result, reason=f"{type(error).__name__}: {error}")
        instead = self._readdress(claim, outcome, left_out)
        self.post.store.claims.finish(claim, outcome, self.clock(), left_out, instead)
        if is_handed_over:
            self._handle_outcome(claim, outcome)
        return int(is_handed_over and outcome.result is SendResult.SENT)

    def _readdress(self, claim: MessageClaim, outcome: SendOutcome, left_out: Collection[int]) -> tuple[Notice, ...]:
        """Return notices for others: of a job's address that does not exist, or of a former administrator."""
        if outcome.result not in {SendResult.SENT, SendResult.REFUSED}:
            return ()  # the next try decides
        is_unknown = outcome.result is SendResult.REFUSED and outcome.is_about_address
        refused = [notice for notice in claim.notices if is_unknown and _number(notice) not in left_out]
        withdrawn = [notice for notice in claim.notices if self._is_withdrawn(notice)]
        if not refused and not withdrawn:
            return ()
        policy, now = self.post.policy, self.clock()
        notified = self.post.store.outbox.read_notified({notice.topic for notice in (*refused, *withdrawn)})
        instead = notices.readdress_refused(refused, notified, policy, now)
        for address in sorted({notice.recipient.address for notice in instead}):
            log.warning("send: redirecting messages for %s to %s", ascii(claim.recipient.address), ascii(address))
        return instead + notices.readdress_withdrawn(withdrawn, notified, policy, now)

    def _is_withdrawn(self, notice: Notice) -> bool:
        return notice.is_for_admin and notice.recipient.channel == "mail" and not self.post.is_admin(notice.recipient)

    def _without_withheld(self, claim: MessageClaim, left_out: dict[int, NoticeState]) -> Sequence[Notice]:
        """Remove what the configuration no longer sends there: to users, or to somebody who was an administrator."""
        if claim.recipient.channel != "mail" or self.post.is_admin(claim.recipient):
            return claim.notices
        is_for_users = self.post.policy.mode is not notices.NoticeMode.ADMIN
        wanted = [notice for notice in claim.notices if is_for_users and not self._is_withdrawn(notice)]
        numbers = {_number(notice) for notice in wanted}
        left_out |= {_number(each): NoticeState.DROPPED for each in claim.notices if _number(each) not in numbers}
        return wanted

    def _compose(self, wanted: list[Notice]) -> notices.Digest:
        tallies = self.post.store.topic_counts.read(wanted)
        return notices.compose(wanted, tallies=tallies, max_entries=self.post.max_entries)

    def _without_muted(self, found: Sequence[Notice], left_out: dict[int, NoticeState]) -> list[Notice]:
        """Remove the notices that users mute in their files now; an unreadable file mutes nothing."""
        for_users = [each for each in found if self._is_for_user(each.recipient)]
        asked = sorted({(each.run.uid, each.work_dir) for each in for_users if each.work_dir})
        mutes = dict(zip(asked, self.post.read_mutes(asked), strict=True)) if asked else {}
        wanted: list[Notice] = []
        for notice in found:
            muted = mutes.get((notice.run.uid, notice.work_dir or ""), ())
            if not isinstance(muted, Unknown) and (EVERY_RULE in muted or notice.rule in muted):
                left_out[_number(notice)] = NoticeState.MUTED
            else:
                wanted.append(notice)
        return wanted

    def _is_for_user(self, recipient: Recipient) -> bool:
        return recipient.channel in {"mail", "log"} and not self.post.is_admin(recipient)

    def _handle_outcome(self, claim: MessageClaim, outcome: SendOutcome) -> None:
        name = claim.recipient.channel
        self.results[name, outcome.result.value] += 1
        self._publish_counts()
        if outcome.result in {SendResult.SENT, SendResult.UNCERTAIN}:
            self._rate_limit.count_sent(claim, self.post.policy.admins, self.clock())
        if outcome.result is SendResult.UNREACHABLE:
            length = min(self._pauses[name].length * 2, LONGEST_PAUSE) if name in self._pauses else FIRST_PAUSE
            self._pauses[name] = _Pause(until=self.clock() + length, length=length)
        else:
            self._pauses.pop(name, None)
        if outcome.result is not SendResult.SENT:
            log.warning(
                "send failed: %s to %s: %s, %s",
                name,
                ascii(claim.recipient.address),
                outcome.result,
                ascii(outcome.reason or ""),
            )


def _number(notice: Notice) -> int:
    assert notice.notice_id is not None
    return notice.notice_id
