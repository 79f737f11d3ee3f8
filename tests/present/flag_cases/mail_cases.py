"""Cases of the texts of messages that are about no rule."""

from ckptd.core.notices import HELD_BACK, SAMPLE
from present.flag_cases.case import Case

CASES = {
    "mail is held back": Case(
        HELD_BACK,
        {"mails_in_an_hour": 50, "people_waiting": 40, "notices_waiting": 1300, "most_of_them": ["no-room: 1,200"]},
        "More mail is due than [mail] max_per_hour (50) allows: 1,300 notices to 40 users wait. ckptd sends the waiting mail at the allowed rate, starting with critical flags.",
        'First find out why so many flags opened at once, and fix the cause. To send the mail faster, raise [mail] max_per_hour; to send mail only to administrators, set [mail] mode = "admin". To list all flags:',
        "ckptd flags",
    ),
    "test message": Case(
        SAMPLE,
        {},
        "This is a test message. It shows that notifications are delivered.",
        "You need not do anything: the job named in this message does not exist.",
    ),
}
