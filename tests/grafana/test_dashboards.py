"""The dashboards are what their code says, and what Grafana reads."""

import json
import re

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from grafana import build

BOARDS = {path.stem: json.loads(path.read_text()) for path in sorted(build.FOLDER.glob("*.json"))}


@pytest.mark.parametrize("board", build.BOARDS, ids=lambda board: board.name)
def test_the_dashboards_in_the_tree_are_those_of_the_code(board):
    committed = (build.FOLDER / f"{board.name}.json").read_text()
    assert committed == build.render(board), "run `PYTHONPATH=deploy python -m grafana.build`"


def test_nothing_else_lies_beside_them():
    assert BOARDS.keys() == {board.name for board in build.BOARDS}


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_grafanas_own_model_reads_a_dashboard_and_loses_nothing(board):
    assert json.loads(JSONEncoder().encode(Dashboard.from_json(board))) == board
    assert all(panel["options"] is not None for panel in board["panels"])


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_every_panel_has_a_meaning_a_unit_a_place_and_a_source(board):
    taken = set()
    for panel in board["panels"]:
        assert panel["description"]
        assert panel["targets"]
        assert panel["datasource"]["uid"] in {"${datasource}", "${database}"}
        if panel["type"] != "table":
            assert panel["fieldConfig"]["defaults"]["unit"]
        if panel["type"] in {"stat", "bargauge"}:
            assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place.get("x", 0), place.get("x", 0) + place["w"])
            for y in range(place.get("y", 0), place.get("y", 0) + place["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken, panel["title"]
        taken |= cells


def test_links_between_dashboards_lead_somewhere():
    links = re.findall(r"/d/([\w-]+)", json.dumps(BOARDS))
    assert links
    assert set(links) <= {board["uid"] for board in BOARDS.values()}
    assert all(board["links"][0]["tags"] == ["ckptd"] for board in BOARDS.values())
