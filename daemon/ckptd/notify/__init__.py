"""The channels by the name that a notice's recipient carries."""

from ckptd.notify.apprise_channel import AppriseChannel
from ckptd.notify.interface import Channel
from ckptd.notify.log import LogChannel
from ckptd.notify.mail import MailChannel

CHANNELS: dict[str, type[Channel]] = {
    "mail": MailChannel,
    "log": LogChannel,
    "apprise": AppriseChannel,
}
