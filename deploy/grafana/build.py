"""Writes the dashboards as Grafana imports them: `PYTHONPATH=deploy python -m grafana.build`."""

from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from grafana import fleet, inside, losses

FOLDER = Path(__file__).parent / "dashboards"
DASHBOARDS = {
    "overview": fleet.overview,
    "checkpoints": fleet.checkpoints,
    "risk": fleet.risk,
    "lost-work": losses.lost_work,
    "storage": losses.storage,
    "daemon": inside.daemon,
    "job": inside.job,
}


def render(name: str) -> str:
    """Return a dashboard as JSON; its panels are numbered in their order."""
    built = DASHBOARDS[name]().build()
    for number, panel in enumerate(built.panels or [], 1):
        panel.id_val = number
    return JSONEncoder(indent=1, sort_keys=True).encode(built) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in DASHBOARDS:
        (FOLDER / f"{name}.json").write_text(render(name), encoding="utf-8")
