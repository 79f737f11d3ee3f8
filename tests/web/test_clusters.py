"""Pages and documents of a database that two clusters share: all of them, or one that is chosen by a link."""

import re
from datetime import UTC, datetime

import httpx
import pytest

from ckptd.core.leadership.lease import RUN
from ckptd.core.model.records import DaemonIdentity
from ckptd.service.web_record import build_record
from ckptd.web.access import AccessRules
from ckptd.web.server import WebServer
from support import joined_runs, two_clusters
from support.held_lease import hold_lease
from support.json_documents import check_answer
from support.migrated import open_record
from web.conftest import METRICS, PASSWORD


@pytest.fixture(scope="module")
def address(tmp_path_factory, web_config):
    store = open_record(f"sqlite:///{tmp_path_factory.mktemp('web')}/record.db")
    two_clusters.fill(store)
    server = WebServer(
        "127.0.0.1:0", METRICS, build_record(store), AccessRules(operators=frozenset({"olga"})), web_config
    )
    yield f"http://127.0.0.1:{server.port}"
    server.close()
    store.close()


@pytest.fixture
def get(address):
    with httpx.Client(base_url=address, auth=("olga", PASSWORD)) as client:

        def get(path):
            answer = client.get(path)
            assert answer.status_code == 200, answer.text
            if path.startswith("/api/"):
                check_answer(path, answer.text)
            return answer

        yield get


def rows(text, table="cards"):
    return re.findall(r"<tr>.*?</tr>", text.partition(f'<table class="{table}">')[2], re.DOTALL)[1:]


def test_the_first_page_shows_all_clusters_in_a_column_and_links_to_each(get):
    page = get("/").text
    assert sorted(re.findall(r'data-label="Cluster">(\w+)<', page)) == ["alpha", "beta"]
    links = re.findall(r'<a href="(\?[^"]*)"[^>]*>(All clusters|alpha|beta)</a>', page)
    assert {name: address for address, name in links} == {
        "All clusters": "?limit=50",
        "alpha": "?cluster=alpha&amp;limit=50",
        "beta": "?cluster=beta&amp;limit=50",
    }


@pytest.mark.parametrize(("cluster", "other"), [("alpha", "beta"), ("beta", "alpha")])
def test_a_chosen_cluster_is_the_only_one_on_every_list(get, cluster, other):
    page = get(f"/?cluster={cluster}").text
    assert f"train-{cluster}" in page
    assert f"train-{other}" not in page
    assert 'data-label="Cluster"' not in page
    assert f"<strong>{cluster}</strong>:" in page
    assert f"<strong>{other}</strong>:" not in page
    assert f'href="/flags?cluster={cluster}"' in page  # the links to other pages keep the choice
    for name in ("", "/users/alice"):
        assert f"train-{other}" not in get(f"{name or '/'}?cluster={cluster}").text


def test_flags_lost_work_and_users_have_the_same_switch(get):
    for path in ("/flags", "/lost-work", "/users/alice"):
        assert len(re.findall(r">(?:All clusters|alpha|beta)</a>", get(path).text)) == 3
    assert "at-risk" in get("/flags?cluster=beta").text
    assert "0 flags" in get("/flags?cluster=alpha").text
    assert " on beta," in get("/flags").text
    address = re.search(r'href="([^"]*)"[^>]*>beta</a>', get("/lost-work?by=user&period=30d").text)[1]
    assert address == "?by=user&amp;period=30d&amp;cluster=beta"
    get("/lost-work" + address.replace("&amp;", "&"))


def test_the_documents_take_the_cluster_as_a_parameter(get):
    for path, name in (("jobs", "jobs"), ("runs", "runs"), ("users/alice", "runs"), ("jobs/7", "runs")):
        assert [each["cluster"] for each in get(f"/api/v1/{path}?cluster=beta").json()[name]] == ["beta"]
        assert sorted(each["cluster"] for each in get(f"/api/v1/{path}").json()[name]) == ["alpha", "beta"]
    assert get("/api/v1/flags?cluster=alpha").json()["flags"] == []
    assert get("/api/v1/lost-work?by=cluster&cluster=alpha").json()["rows"] == []


def test_a_job_id_of_two_clusters_leads_to_a_choice(get):
    page = get("/jobs/7").text
    assert "on alpha" in page
    assert "on beta" in page


def test_the_state_of_one_cluster_can_be_asked_for(get):
    def names(path):
        return [each["cluster"] for each in get(path).json()["clusters"]]

    assert names("/api/v1/status?cluster=beta") == ["beta"]
    assert names("/api/v1/status") == ["alpha", "beta"]


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/flags", "/lost-work", "/users/alice", "/jobs/7", "/api/v1/status", "/api/v1/jobs", "/api/v1/runs"),
        *("/api/v1/flags", "/api/v1/lost-work", "/api/v1/users/alice", "/api/v1/jobs/7"),
    ],
)
def test_a_cluster_that_is_not_on_record_is_no_empty_list(address, path):
    answer = httpx.get(f"{address}{path}?cluster=gamma", auth=("olga", PASSWORD))
    assert answer.status_code == 404
    assert "gamma" in answer.text
    assert "is on record; there are alpha, beta" in answer.text


def test_a_run_that_continues_with_shared_files_has_one_page(tmp_path, web_config):
    store = open_record(f"sqlite:///{tmp_path}/record.db")
    joined_runs.share(store)
    joined_runs.run_on_alpha(store)
    joined_runs.start(store, joined_runs.BETA, 70, job_id=8)
    joined_runs.scan(store, joined_runs.BETA, 71, (1, 30))
    server = WebServer(
        "127.0.0.1:0", METRICS, build_record(store), AccessRules(operators=frozenset({"olga"})), web_config
    )
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", auth=("olga", PASSWORD)) as client:
        for cluster in ("alpha", "beta"):
            address = f"?cluster={cluster}&uid=1000&directory={two_clusters.DIRECTORY}"
            page = client.get(f"/run{address}").text
            assert re.findall(r'data-label="Job">([^<]*)<', page) == ["8", "alpha: 7"]
            answer = client.get(f"/api/v1/run{address}")
            check_answer(f"/api/v1/run{address}", answer.text)
            document = answer.json()
            assert document["cluster"] == "beta"
            assert [(each["cluster"], each["job_id"]) for each in document["attempts"]] == [("alpha", 7), ("beta", 8)]
        assert client.get("/jobs/7").headers["location"].startswith("/run?cluster=beta")
    server.close()
    store.close()


def test_a_daemon_that_has_stopped_is_called_that_at_once_whatever_its_last_heartbeat(tmp_path, web_config):
    """Of a database that two daemons share: the one that shows the page still runs."""
    store = open_record(f"sqlite:///{tmp_path}/record.db")
    now = datetime.now(UTC)
    for name in ("alpha", "beta"):
        store.clusters.record_heartbeat(name, DaemonIdentity(host="admin", pid=1, version="0", started_at=now), now)
        hold_lease(store, name, RUN)
    lease = store.leases.read("beta")
    store.leases.release("beta", lease.epoch, lease.holder.instance)
    server = WebServer("127.0.0.1:0", METRICS, build_record(store), AccessRules(), web_config)
    try:
        found = httpx.get(f"http://127.0.0.1:{server.port}/api/v1/status", auth=("olga", PASSWORD)).json()
    finally:
        server.close()
        store.close()
    assert {each["cluster"]: each["is_alive"] for each in found["clusters"]} == {"alpha": True, "beta": False}
