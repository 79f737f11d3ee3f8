"""Carries out retention: recovers, plans, moves to the trash, deletes after the hold.

Decisions are made by `core.retention` and files are moved by `checkpoints.trash`, which trusts no decision. What is
here keeps the order: every act is in the audit table before it happens and with its outcome after it, and nothing is
done for a run of which an act's end is not known.
"""

from ckptd.steps.site_policy import SitePolicy

__all__ = ["SitePolicy"]
