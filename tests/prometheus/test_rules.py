"""The shipped rules for Prometheus and Alertmanager are sound, tested and explained."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from ckptd.web.runbook import read_runbook
from demo.patience import allow

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy/prometheus"
RULE_FILES = sorted(FOLDER.glob("*.rules.yml"))
TEST_FILES = [path.name for path in sorted(FOLDER.glob("*.test.yml"))]


def run(*argv):
    done = subprocess.run(argv, cwd=FOLDER, capture_output=True, text=True, timeout=allow(120), check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def alerts():
    return [rule for group in read("alert.rules.yml")["groups"] for rule in group["rules"]]


def read(name):
    return yaml.safe_load((FOLDER / name).read_text())


def test_promtool_finds_the_rules_and_the_example_sound(tmp_path):
    run("promtool", "check", "rules", "--lint=all", "--lint-fatal", *map(str, RULE_FILES))
    for path in [*RULE_FILES, FOLDER / "scrape.example.yml"]:
        shutil.copy(path, tmp_path)
    run("promtool", "check", "config", "--lint=all", "--lint-fatal", str(tmp_path / "scrape.example.yml"))


def test_amtool_finds_the_alertmanager_example_sound():
    assert "SUCCESS" in run("amtool", "check-config", "alertmanager.example.yml")


def test_every_alert_fires_when_it_should_and_not_before():
    run("promtool", "test", "rules", *TEST_FILES)


def test_every_alert_has_a_test_that_sees_it_silent_and_one_that_sees_it_fire():
    seen = {}
    for test in (test for name in TEST_FILES for test in read(name)["tests"]):
        for case in test["alert_rule_test"]:
            seen.setdefault(case["alertname"], set()).add(bool(case["exp_alerts"]))
    assert seen == {alert["alert"]: {True, False} for alert in alerts()}


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_an_alert_waits_has_a_severity_and_leads_to_its_section_of_the_runbook(alert):
    assert alert["for"]
    assert alert["labels"]["severity"] in {"warning", "critical"}
    address, _, anchor = alert["annotations"]["runbook_url"].partition("#")
    assert address == "https://ckptd.example.org/runbook"  # the one part that a site replaces
    assert anchor in {section.anchor for section in read_runbook().sections}
    assert anchor == alert["alert"].lower()
    assert alert["annotations"]["summary"]
