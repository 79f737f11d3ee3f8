"""The text of one flag in its parts, so that mail, pages and commands lay them out each in their own way."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class FlagText:
    """Say what is wrong with a job and what its user can do.

    `advice` ends with a colon if a `command` follows: one to type, or a line for the batch script. `statement` is empty
    if an earlier version of ckptd recorded the text; then `advice` holds both.
    """

    title: str
    statement: str
    advice: str
    command: str | None = None

    @property
    def full_advice(self) -> str:
        """Return what to do with the command, as one paragraph; no period follows the command, which people copy."""
        return self.advice if self.command is None else f"{self.advice} {self.command}"

    @property
    def paragraph(self) -> str:
        """Return all but the title as one paragraph."""
        return f"{self.statement} {self.full_advice}".lstrip()


@dataclass(frozen=True, kw_only=True, slots=True)
class FlagContext:
    """Hold what a text uses besides the evidence of its flag."""

    title: str
    user: str
