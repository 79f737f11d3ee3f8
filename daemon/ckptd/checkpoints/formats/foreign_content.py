"""Recognises what lies under the name of a checkpoint and is none: texts, failed downloads, files of other formats.

Several suffixes have other uses: `.cpt` is also a color palette, `.jl` a program in Julia, `.mat` a matrix as text.
"""

import re

HEAD_BYTES = 512
_LEAST_TEXT = 16
_LFS_POINTER = b"version https://"  # https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
_TRACEBACK = b"Traceback (most "
_XML = rb"\s*(?:<\?xml[^>]{0,200}\?>\s*)?"
_WEB_PAGE = re.compile(_XML + rb"(?:<!--.{0,500}?-->\s*)?<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL)
_ERROR = re.compile(  # of S3, of web APIs, of GitHub and Hugging Face
    _XML + rb"(?:<Error>|\{\s*\"(?:error|message|detail)\"\s*:\s*\""
    rb"|(?:\d{3}:? )?(?:Entry |Repository )?(?:Not Found|Forbidden|Unauthorized|Access Denied)\b)",
    re.IGNORECASE,
)
_MAGICS = (
    (b"\x89HDF\r\n\x1a\n", "HDF5"),
    (b"\x0e\x03\x13\x01", "HDF4"),
    (b"CDF\x01", "netCDF"),
    (b"CDF\x02", "netCDF"),
    (b"\x93NUMPY", "an array of numpy"),
    (b"SQLite format 3\0", "a database of SQLite"),
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x7fELF", "a program"),
)


def name_failed_write(head: bytes) -> str | None:
    """Return what lies in place of a checkpoint whose download or writing failed; None if nothing shows that.

    `head` are at least the first 16 bytes.
    """
    if head.startswith(_LFS_POINTER):
        return "a pointer of Git LFS"
    if head.startswith(_TRACEBACK):
        return "an error message of Python"
    if _ERROR.match(head):
        return "an error message of a web server"
    return "a web page" if _WEB_PAGE.match(head) else None


def name_other_format(head: bytes) -> str | None:
    """Return the name of another format whose magic number a file has; None if it has no known one."""
    return next((name for magic, name in _MAGICS if head.startswith(magic)), None)


def resembles(head: bytes, magic: bytes) -> bool:
    """Return whether a file begins with a magic number, with one byte garbled at most, or is cut off within it."""
    if len(head) < len(magic):
        return magic.startswith(head)
    return sum(found != meant for found, meant in zip(head, magic, strict=False)) <= 1


def is_text(head: bytes) -> bool:
    """Return whether the first bytes of a file are text in UTF-8; False if there are none."""
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:  # the last character may be cut off
            return False
        text = head[: error.start].decode()
    return bool(text) and all(character.isprintable() or character in "\t\n\r\f" for character in text)


def is_ordinary_text(head: bytes) -> bool:
    """Return whether the first bytes are those of a text that a person or program meant to write there.

    Few bytes may also be all that a full disk left of another format.
    """
    return len(head) >= _LEAST_TEXT and is_text(head) and name_failed_write(head) is None
