"""Dashboards as code: `python -m grafana.build` (in deploy/) writes dashboards/*.json anew."""
