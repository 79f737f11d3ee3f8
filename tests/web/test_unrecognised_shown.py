"""A run's page and document name the newest file of no known format, if no checkpoint of the run is on record."""

from dataclasses import replace

import httpx
import pytest

from ckptd.core.model import UnrecognisedFile
from ckptd.web.access import AccessRules
from ckptd.web.query import run_address
from ckptd.web.server import WebServer
from demo.patience import allow
from support.json_documents import check_answer
from web import samples
from web.conftest import METRICS, PASSWORD

FILE = UnrecognisedFile("photos/<b>x100", 3 << 20, samples.NOW)


@pytest.fixture(params=[True, False], ids=["without checkpoints", "with checkpoints"])
def answers(request, record, web_config):
    """Yield whether the runs have no checkpoints, and a function that asks a server with such a file in each run."""

    def read(cluster, keys):
        found = [
            replace(each, scan=replace(each.scan, unrecognised=FILE)) for each in record.read_histories(cluster, keys)
        ]
        return [replace(each, checkpoints=(), rhythm=None) for each in found] if request.param else found

    rules = AccessRules(operators=frozenset({"olga"}))
    server = WebServer("127.0.0.1:0", METRICS, replace(record, read_histories=read), rules, web_config)
    address = f"http://127.0.0.1:{server.port}"
    yield request.param, lambda path: httpx.get(address + path, auth=("olga", PASSWORD), timeout=allow(30))
    server.close()


def test_the_page_and_the_document_of_a_run_name_the_file(answers):
    is_shown, ask = answers
    address = "/run" + run_address(samples.ALICE)
    sentence = f"the newest other file, {samples.ALICE.directory}/photos/&lt;b&gt;x100 (3.0 MiB), may be one."
    assert (sentence in ask(address).text) is is_shown
    document = ask(f"/api/v1{address}")
    check_answer(f"/api/v1{address}", document.text)
    expected = {
        "path": f"{samples.ALICE.directory}/{FILE.path}",
        "size_bytes": FILE.size_bytes,
        "modified_at": samples.NOW.isoformat(),
    }
    assert document.json()["unrecognised"] == (expected if is_shown else None)
