"""Whether each message that is recorded as sent has arrived, and came again only if it was tried again."""

from collections import Counter
from collections.abc import Iterable, Mapping


def count_arrived(mails: Iterable) -> Counter[str]:
    """Count the messages of an inbox by the id that the database has of them."""
    return Counter(mail["Message-ID"].strip("<>").partition("@")[0] for mail in mails)


def list_wrong(tries: Mapping[str, int], arrived: Mapping[str, int]) -> list[str]:
    """Return what is wrong. `tries` has how often each message that is recorded as sent was tried."""
    wrong = []
    if lost := tries.keys() - arrived.keys():
        wrong.append(f"{len(lost)} messages are recorded as sent and did not arrive")
    if surprising := [key for key, count in arrived.items() if count > max(tries.get(key, 1), 1)]:
        wrong.append(f"{len(surprising)} messages arrived more often than they were tried")
    if unknown := arrived.keys() - tries.keys():
        wrong.append(f"{len(unknown)} messages arrived and are not recorded as sent")
    return wrong
