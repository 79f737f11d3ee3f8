import httpx
import pytest

from ckptd.web.scrapes import takes_gzip


@pytest.mark.parametrize(
    ("accepted", "is_taken"),
    [
        ("", False),
        ("gzip", True),
        ("deflate, GZIP;q=0.5, br", True),
        ("gzip ; q=0", False),
        ("gzip;q=0.000", False),
        ("identity", False),
        ("xgzip", False),
    ],
)
def test_gzip_is_sent_only_to_who_takes_it(accepted, is_taken):
    assert takes_gzip(accepted) is is_taken


def test_a_scrape_is_answered_in_the_form_that_it_asks_for(start):
    address = start() + "/metrics"
    plain = httpx.get(address, headers={"accept-encoding": "identity"})
    packed = httpx.get(address, headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    for answer in (plain, packed):
        assert "ckptd_sample 1.0\n" in answer.text
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert answer.headers["vary"] == "accept-encoding"


def test_metrics_can_only_be_read(start):
    address = start() + "/metrics"
    assert httpx.head(address).status_code == 200
    assert httpx.post(address).status_code == 405
