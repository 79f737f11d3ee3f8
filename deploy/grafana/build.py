"""Writes the dashboards as Grafana imports them: `PYTHONPATH=deploy python -m grafana.build`."""

from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from grafana import fleet, inside, job, losses, storage
from grafana.panels import Board

FOLDER = Path(__file__).parent / "dashboards"
BOARDS = (
    fleet.OVERVIEW,
    fleet.CHECKPOINTS,
    fleet.RISK,
    losses.LOST_WORK,
    storage.STORAGE,
    inside.THE_DAEMON,
    job.JOB,
)


def render(board: Board) -> str:
    """Return a dashboard as JSON."""
    return JSONEncoder(indent=1, sort_keys=True).encode(board.build()) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for board in BOARDS:
        (FOLDER / f"{board.name}.json").write_text(render(board), encoding="utf-8")
