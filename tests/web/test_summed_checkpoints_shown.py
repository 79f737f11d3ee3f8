"""A run's page and document have the sums over what was deleted long ago."""

from dataclasses import replace

import httpx
import pytest

from ckptd.core.model import SummedCheckpoints
from ckptd.web.access import AccessRules
from ckptd.web.query import run_address
from ckptd.web.server import WebServer
from demo.patience import allow
from support.json_documents import check_answer
from web import samples
from web.conftest import METRICS, PASSWORD

SUMMED = SummedCheckpoints(1200, 3 << 30, samples.NOW, samples.NOW)


@pytest.fixture
def ask_olga(record, web_config):
    """Asks as an operator a server with whose every run such sums are."""

    def read(cluster, keys):
        return [replace(each, summed=SUMMED) for each in record.read_histories(cluster, keys)]

    rules = AccessRules(operators=frozenset({"olga"}))
    server = WebServer("127.0.0.1:0", METRICS, replace(record, read_histories=read), rules, web_config)
    address = f"http://127.0.0.1:{server.port}"
    yield lambda path: httpx.get(address + path, auth=("olga", PASSWORD), timeout=allow(30)).text
    server.close()


def test_the_page_and_the_document_of_a_run_say_what_is_only_summed_up(ask_olga):
    address = "/run" + run_address(samples.ALICE)
    assert "1,200 more deleted checkpoints (3.0 GiB), first seen from " in ask_olga(address)
    document = ask_olga(f"/api/v1{address}")
    check_answer(f"/api/v1{address}", document)
    assert '"summed_checkpoints":{"count":1200,' in document.replace(" ", "").replace("\n", "")
