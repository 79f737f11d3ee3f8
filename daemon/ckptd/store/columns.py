"""Column types that store core values without loss in SQLite and PostgreSQL."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Dialect

from ckptd.core.rows.stored_instants import encode_microseconds, instant
from ckptd.core.rows.text_escapes import decode_text, encode_text

WordType = TypeVar("WordType", bound=StrEnum)
_encode_json = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode  # made once: rows have six such columns


class Text(sa.types.TypeDecorator[str]):
    """Text with any characters."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else encode_text(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else decode_text(value)


class Json(sa.types.TypeDecorator[Any]):
    """Plain containers as ASCII JSON text, with all other characters escaped."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: object, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else _encode_json(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:  # noqa: ARG002
        return None if value is None else json.loads(value)


class _MicrosecondsOfSqlite(sa.types.UserDefinedType[int]):
    """A whole number in a column that is declared as a time: eight bytes instead of 26 characters."""

    cache_ok = True

    def get_col_spec(self, **_options: object) -> str:
        return "DATETIME"


class Instant(sa.types.TypeDecorator[datetime]):
    """An aware UTC datetime; SQLite stores microseconds since 1970."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> sa.types.TypeEngine[Any]:
        return dialect.type_descriptor(_MicrosecondsOfSqlite() if dialect.name == "sqlite" else self.impl_instance)

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | int | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"an instant without a time zone: {value}")
        return encode_microseconds(value) if dialect.name == "sqlite" else value.astimezone(UTC)

    def process_result_value(self, value: datetime | int | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        return instant(value)


class Seconds(sa.types.TypeDecorator[timedelta]):
    """A duration in seconds, exact to the microsecond for all durations that Slurm allows."""

    impl = sa.Double
    cache_ok = True

    def process_bind_param(self, value: timedelta | None, dialect: Dialect) -> float | None:  # noqa: ARG002
        return None if value is None else value.total_seconds()

    def process_result_value(self, value: float | None, dialect: Dialect) -> timedelta | None:  # noqa: ARG002
        return None if value is None else timedelta(seconds=value)


class IntOrFloat(sa.types.TypeDecorator[float]):
    """A number; whole numbers are read as int."""

    impl = sa.Double
    cache_ok = True

    def process_result_value(self, value: float | None, dialect: Dialect) -> float | None:  # noqa: ARG002
        return int(value) if value is not None and value.is_integer() else value


class EnumText(sa.types.TypeDecorator[WordType], Generic[WordType]):
    """A member of an enumeration; an unknown word, written by a newer version, is an error that names it."""

    impl = sa.String
    cache_ok = True

    def __init__(self, words: type[WordType]) -> None:
        super().__init__(32)
        self.words = words
        self._by_value = {word.value: word for word in words}

    def process_bind_param(self, value: WordType | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else value.value

    def process_result_value(self, value: str | None, dialect: Dialect) -> WordType | None:  # noqa: ARG002
        return None if value is None else self._by_value[value]


class EnumCode(sa.types.TypeDecorator[WordType], Generic[WordType]):
    """A member of an enumeration as a small number; an unknown one, written by a newer version, is an error."""

    impl = sa.SmallInteger
    cache_ok = True

    def __init__(self, codes: Mapping[WordType, int]) -> None:
        super().__init__()
        self.codes = tuple(codes.items())
        self._by_word = dict(codes)
        self._by_code = {code: word for word, code in codes.items()}

    def process_bind_param(self, value: WordType | None, dialect: Dialect) -> int | None:  # noqa: ARG002
        return None if value is None else self._by_word[value]

    def process_result_value(self, value: int | None, dialect: Dialect) -> WordType | None:  # noqa: ARG002
        return None if value is None else self._by_code[value]


WholeNumber = sa.BigInteger
Identifier = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # SQLite numbers rows itself only in an INTEGER
