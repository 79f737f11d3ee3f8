"""Reads when a certificate expires, which Python's ssl module tells only of certificates of peers.

The structure is that of RFC 5280, section 4.1: a SEQUENCE whose first element is a SEQUENCE of an optional version [0],
the serial number, the signature's algorithm, the issuer, and the validity, which is a SEQUENCE of two times.
"""

import re
import ssl
from datetime import UTC, datetime

_VERSION, _UTC_TIME, _GENERALIZED_TIME = 0xA0, 0x17, 0x18
_BEFORE_VALIDITY = 3  # elements: serial number, algorithm, issuer
_FIRST = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def parse_expiry(pem: str) -> datetime:
    """Return when the first certificate of a PEM file expires, which is that of the server itself.

    Raises:
        ValueError: there is none, or it cannot be parsed.

    """
    found = _FIRST.search(pem)
    if found is None:
        raise ValueError("no certificate in the file")
    try:
        _, certificate, _ = _take(ssl.PEM_cert_to_DER_cert(found[0]))
        _, rest, _ = _take(certificate)
        tag, _, after = _take(rest)
        rest = after if tag == _VERSION else rest
        for _ in range(_BEFORE_VALIDITY):
            _, _, rest = _take(rest)
        _, validity, _ = _take(rest)
        _, _, rest = _take(validity)
        tag, content, _ = _take(rest)
    except IndexError as error:
        raise ValueError("the certificate is cut off") from error
    if tag not in {_UTC_TIME, _GENERALIZED_TIME}:
        raise ValueError("the certificate has no end")
    text = content.decode("ascii")
    if tag == _UTC_TIME:  # two digits of the year, of which 50 and more are of the last century
        text = ("19" if text >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _take(data: bytes) -> tuple[int, bytes, bytes]:
    """Return the tag and content of the first DER element, and what follows it."""
    tag, length, start = data[0], data[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(data[2:start], "big")
    if len(data) < start + length:
        raise IndexError
    return tag, data[start : start + length], data[start + length :]
