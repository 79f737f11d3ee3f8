"""The few kinds of panels that the dashboards are made of, so that all look and behave alike.

Widths are columns of 24. Every panel says in its description what to read from it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import bargauge, common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import prometheus as prometheus_models

PROMETHEUS = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
POSTGRESQL = models.DataSourceRef(type_val="grafana-postgresql-datasource", uid="${database}")
DAEMON = "DAEMON"  # in an expression: the selector of the daemons that the viewer chose
_SELECTOR = 'cluster=~"$cluster",instance=~"$instance"'
GREEN, YELLOW, RED = "green", "yellow", "red"
Steps = Sequence[tuple[float | None, str]]
PLAIN: Steps = ((None, "blue"),)
Panel = Builder[models.Panel]


class _SqlQuery(Dataquery):
    """A query to PostgreSQL, as Grafana's data source stores it; the SDK has no builder for it."""

    def __init__(self, sql: str, result_format: str) -> None:
        self._sql = sql
        self._format = result_format

    def to_json(self) -> dict[str, object]:
        source = {"type": POSTGRESQL.type_val, "uid": POSTGRESQL.uid}
        return {
            "refId": "A",
            "datasource": source,
            "format": self._format,
            "rawQuery": True,
            "editorMode": "code",
            "rawSql": self._sql,
        }


class _Sql(Builder[Dataquery]):
    def __init__(self, sql: str, result_format: str) -> None:
        self._query = _SqlQuery(" ".join(sql.split()), result_format)

    def build(self) -> Dataquery:
        return self._query


def thresholds(steps: Steps) -> dashboard.ThresholdsConfig:
    """Colours from a value on; the first value is None: from minus infinity."""
    return (
        dashboard.ThresholdsConfig()
        .mode(models.ThresholdsMode.ABSOLUTE)
        .steps([models.Threshold(value=value, color=color) for value, color in steps])
    )


def _link(target: str | None) -> list[Builder[models.DashboardLink]]:
    if target is None:
        return []
    link = dashboard.DashboardLink(f"Open {target}").type(models.DashboardLinkType.LINK)
    return [link.url(f"/d/ckptd-{target}?${{__url_time_range}}&${{cluster:queryparam}}&${{instance:queryparam}}")]


def _query(expression: str, legend: str, ref: str, *, is_instant: bool) -> prometheus.Dataquery:
    query = (
        prometheus.Dataquery()
        .expr(expression.replace(DAEMON, _SELECTOR))
        .legend_format(legend)
        .ref_id(ref)
        .datasource(PROMETHEUS)
    )
    query = query.editor_mode(prometheus_models.QueryEditorMode.CODE)
    return query.instant() if is_instant else query.range()


def _latest() -> common.ReduceDataOptions:
    return common.ReduceDataOptions().calcs(["lastNotNull"]).values(False)


def _all_at_once() -> common.VizTooltipOptions:
    return common.VizTooltipOptions().mode(common_models.TooltipDisplayMode.MULTI)


def number(
    title: str,
    meaning: str,
    expression: str,
    unit: str,
    *,
    width: int = 4,
    steps: Steps = ((None, GREEN),),
    link: str | None = None,
) -> Panel:
    """One number with its course behind it, coloured by thresholds."""
    panel = stat.Panel().title(title).description(meaning).unit(unit).datasource(PROMETHEUS).span(width).height(4)
    panel = panel.thresholds(thresholds(steps)).graph_mode(common_models.BigValueGraphMode.AREA).no_value("none")
    panel = panel.color_mode(common_models.BigValueColorMode.VALUE).links(_link(link)).reduce_options(_latest())
    return panel.with_target(_query(expression, "", "A", is_instant=False))


def lines(
    title: str,
    meaning: str,
    queries: Mapping[str, str],
    unit: str,
    *,
    width: int = 12,
    is_stacked: bool = False,
    steps: Steps = (),
) -> Panel:
    """Courses over time; `queries` maps legends to expressions."""
    panel = timeseries.Panel().title(title).description(meaning).unit(unit).datasource(PROMETHEUS).span(width).height(8)
    panel = panel.fill_opacity(40 if is_stacked else 8).show_points(common_models.VisibilityMode.NEVER).min(0)
    panel = panel.tooltip(_all_at_once())
    legend = common.VizLegendOptions().display_mode(common_models.LegendDisplayMode.TABLE).show_legend(True)
    panel = panel.legend(legend.placement(common_models.LegendPlacement.RIGHT).calcs(["lastNotNull", "max"]))
    if is_stacked:
        panel = panel.stacking(common.StackingConfig().mode(common_models.StackingMode.NORMAL))
    if steps:
        style = common.GraphThresholdsStyleConfig().mode(common_models.GraphTresholdsStyleMode.LINE)
        panel = panel.thresholds(thresholds(steps)).thresholds_style(style)
    for ref, (legend_text, expression) in zip("ABCDEFGH", queries.items(), strict=False):
        panel = panel.with_target(_query(expression, legend_text, ref, is_instant=False))
    return panel


def bars(
    title: str,
    meaning: str,
    expression: str,
    legend: str,
    unit: str,
    *,
    width: int = 12,
    steps: Steps = PLAIN,
) -> Panel:
    """One bar for each value of a label, as it is now."""
    panel = bargauge.Panel().title(title).description(meaning).unit(unit).datasource(PROMETHEUS).span(width).height(8)
    panel = panel.orientation(common_models.VizOrientation.HORIZONTAL).thresholds(thresholds(steps)).min(0)
    panel = panel.display_mode(common_models.BarGaugeDisplayMode.BASIC)
    panel = panel.reduce_options(_latest())
    return panel.with_target(_query(expression, legend, "A", is_instant=True))


def rows(title: str, meaning: str, sql: str, *, width: int = 24, units: Mapping[str, str] | None = None) -> Panel:
    """A table of what PostgreSQL answers; `units` are those of columns by name."""
    panel = table.Panel().title(title).description(meaning).datasource(POSTGRESQL).span(width).height(8)
    panel = panel.show_header(True)
    for column, unit in (units or {}).items():
        panel = panel.override_by_name(column, [models.DynamicConfigValue(id_val="unit", value=unit)])
    return panel.with_target(_Sql(sql, "table"))


def sql_number(title: str, meaning: str, sql: str, unit: str, *, steps: Steps = ((None, GREEN),)) -> Panel:
    """One value that PostgreSQL answers."""
    panel = stat.Panel().title(title).description(meaning).unit(unit).datasource(POSTGRESQL).span(4).height(4)
    panel = panel.thresholds(thresholds(steps)).no_value("none")
    panel = panel.reduce_options(_latest().fields("/.*/"))
    return panel.with_target(_Sql(sql, "table"))


def sql_lines(title: str, meaning: str, sql: str, unit: str, *, width: int = 12) -> Panel:
    """A course over time that PostgreSQL answers: columns `time` and values."""
    panel = timeseries.Panel().title(title).description(meaning).unit(unit).datasource(POSTGRESQL).span(width).height(8)
    panel = panel.show_points(common_models.VisibilityMode.ALWAYS).point_size(6).tooltip(_all_at_once())
    return panel.with_target(_Sql(sql, "time_series"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Board:
    """A dashboard as a table of its panels; `name` is the end of its address."""

    name: str
    title: str
    about: str
    panels: Sequence[Panel]
    variables: Sequence[Any] = ()
    since: str = "now-24h"

    def build(self) -> models.Dashboard:
        """Return what Grafana reads: panels in their order, and links to the sisters."""
        board = dashboard.Dashboard(f"ckptd: {self.title}").uid(f"ckptd-{self.name}").description(self.about)
        board = board.tags(["ckptd"]).time(self.since, "now").refresh("1m").timezone("browser").readonly()
        board = board.tooltip(models.DashboardCursorSync.CROSSHAIR)
        sisters = dashboard.DashboardLink("ckptd").type(models.DashboardLinkType.DASHBOARDS).tags(["ckptd"])
        board = board.link(sisters.as_dropdown(True).keep_time(True).include_vars(True))
        for variable in self.variables:
            board = board.with_variable(variable)
        for panel in self.panels:
            board = board.with_panel(panel)
        built = board.build()
        for place, placed in enumerate(built.panels or [], 1):
            placed.id_val = place
        return built


def prometheus_variables() -> list[Any]:
    """Which Prometheus, which clusters and which of their daemons."""
    source, instance = _prometheus_and_daemons()
    return [source, _choice("cluster", "Cluster", "label_values(ckptd_build_info, cluster)"), instance]


def both_variables() -> list[Any]:
    """Which Prometheus and PostgreSQL, and which one cluster in both."""
    source, instance = _prometheus_and_daemons()
    return [source, *database_variables(), instance]


def _prometheus_and_daemons() -> tuple[Any, Any]:
    daemons = 'label_values(ckptd_build_info{cluster=~"$cluster"}, instance)'
    return (
        dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"),
        _choice("instance", "Daemon", daemons),
    )


def _choice(name: str, label: str, query: str) -> Any:
    """Return a variable with several values of a query to Prometheus; all of them at first."""
    variable = dashboard.QueryVariable(name).label(label).query(query)
    variable = variable.datasource(PROMETHEUS).refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
    everything = models.VariableOption(text="All", value="$__all")
    return variable.multi(True).include_all(True).all_value(".+").current(everything)


def database_variables() -> list[Any]:
    """Which PostgreSQL, and which cluster."""
    cluster = dashboard.QueryVariable("cluster").label("Cluster").query("SELECT name FROM clusters ORDER BY name")
    return [
        dashboard.DatasourceVariable("database").label("PostgreSQL").type("grafana-postgresql-datasource"),
        cluster.datasource(POSTGRESQL).refresh(models.VariableRefresh.ON_DASHBOARD_LOAD),
    ]
