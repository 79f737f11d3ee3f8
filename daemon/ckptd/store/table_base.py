"""What all tables share: the names of their constraints, a column's type by that of its value, and the primary key."""

from datetime import date, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from ckptd.core.model import Certainty, CheckpointState, EndCause, JobState, RestartKind, Role, Severity
from ckptd.core.rows.word_codes import ROLE_CODES, STATE_CODES
from ckptd.store.columns import EnumCode, EnumText, Identifier, Instant, IntOrFloat, Json, Seconds, Text, WholeNumber


class Base(DeclarativeBase):
    metadata = sa.MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy reads it from the class
        str: Text(),
        int: WholeNumber(),
        float: IntOrFloat(),
        datetime: Instant(),
        date: sa.Date(),
        timedelta: Seconds(),
        JobState: EnumText(JobState),
        EndCause: EnumText(EndCause),
        RestartKind: EnumText(RestartKind),
        Certainty: EnumText(Certainty),
        CheckpointState: EnumCode(STATE_CODES),
        Role: EnumCode(ROLE_CODES),
        Severity: EnumText(Severity),
        Any: Json(),
    }


def primary_key() -> Mapped[int]:
    return mapped_column(Identifier, sa.Identity(), primary_key=True)
