import gzip

import bcrypt
import httpx
import pytest

from ckptd.service.web_record import build_record
from ckptd.web.access import AccessRules
from ckptd.web.server import WebServer
from ckptd.web.web_config import WebConfig
from demo.patience import allow
from support.json_documents import check_answer
from support.migrated import open_record
from web import samples

PASSWORD = "a good password"
USERS = ("alice", "bob", "carol", "olga")


@pytest.fixture(scope="session")
def record(tmp_path_factory):
    """The record that every test of the web reads and none changes."""
    store = open_record(f"sqlite:///{tmp_path_factory.mktemp('web')}/record.db")
    samples.fill(store)
    yield build_record(store)
    store.close()


@pytest.fixture(scope="session")
def web_config(tmp_path_factory):
    path = tmp_path_factory.mktemp("web") / "web.yml"
    stored = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    path.write_text("basic_auth_users:\n" + "".join(f"  {name}: {stored}\n" for name in USERS))
    return WebConfig(path)


class SampleMetrics:
    """Answers a scrape as the daemon does that names jobs."""

    names_jobs = True

    def read(self, *, is_compressed, names_jobs):
        text = b"# HELP ckptd_sample A sample.\n# TYPE ckptd_sample gauge\nckptd_sample 1.0\n"
        text += b'ckptd_flag_opened_timestamp_seconds{job_id="90190190",user="bob"} 1.0\n' if names_jobs else b""
        return gzip.compress(text) if is_compressed else text


METRICS = SampleMetrics()


@pytest.fixture(scope="session")
def http():
    """A client that is nobody; making one for each request would take longer than the requests."""
    with httpx.Client(timeout=allow(30)) as client:
        yield client


@pytest.fixture
def start(record):
    """Starts servers; all are closed when the test ends."""
    servers = []

    def start_server(listen="127.0.0.1:0", **rules):
        servers.append(WebServer(listen, METRICS, record, AccessRules(**rules)))
        return f"http://127.0.0.1:{servers[-1].port}"

    yield start_server
    for server in servers:
        server.close()


@pytest.fixture(scope="module")
def guarded(record, web_config):
    """The address of a server that asks for passwords; olga is an operator."""
    rules = AccessRules(operators=frozenset({"olga"}))
    server = WebServer("127.0.0.1:0", METRICS, record, rules, web_config)
    yield f"http://127.0.0.1:{server.port}"
    server.close()


@pytest.fixture(scope="module")
def ask(guarded):
    """Asks the server as somebody, None as nobody."""
    with httpx.Client(base_url=guarded) as client:

        def get(path, user=None, password=PASSWORD, **options):
            auth = (user, password) if user else None
            answer = client.get(path, auth=auth, **options)
            if answer.status_code == 200 and path.startswith("/api/v1/") and "openapi.json" not in path:
                check_answer(path, answer.text)
            return answer

        yield get
