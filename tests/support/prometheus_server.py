"""A private Prometheus and a private Alertmanager on loopback, gone when the test ends."""

import json
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import yaml

from demo import ports
from demo.patience import Deadline, allow


def wait_for(what, condition, *, seconds=60.0):
    """Ask again and again; return the first answer that is true."""
    deadline = Deadline(seconds)
    while not deadline.has_passed():
        if answer := condition():
            return answer
        time.sleep(0.1)
    raise AssertionError(f"{what} did not come within {seconds:g} s")


class _Server:
    """A program of Prometheus's family: ready when /-/ready says so."""

    def __init__(self, folder, argv):
        self.port = ports.find_free_ports(1)[0]
        self.address = f"127.0.0.1:{self.port}"
        self._log = (folder / f"{argv[0]}.log").open("w+")
        argv = [*argv, f"--web.listen-address={self.address}"]
        self._process = subprocess.Popen(argv, cwd=folder, stdout=self._log, stderr=self._log)

    def __enter__(self):
        wait_for(f"an answer of {self._process.args[0]}", self._is_ready)
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(timeout=allow(30))
        self._log.close()

    def _is_ready(self):
        if self._process.poll() is not None:
            self._log.seek(0)
            raise AssertionError(self._log.read()[-2000:])
        try:
            return self.get("/-/ready", is_json=False)
        except (urllib.error.URLError, OSError):
            return None

    def get(self, path, *, is_json=True, **parameters):
        query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
        try:
            with urllib.request.urlopen(f"http://{self.address}{path}{query}", timeout=allow(10)) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            if error.code == 503:
                raise urllib.error.URLError("not ready") from error
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error
        return json.loads(text) if is_json else text


class Prometheus(_Server):
    """Scrapes one ckptd every half second."""

    def __init__(self, folder, target, *, rule_files=(), alertmanager=None, access=None):
        config = {
            "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
            "rule_files": [str(path) for path in rule_files],
            "scrape_configs": [{"job_name": "ckptd", "static_configs": [{"targets": [target]}], **(access or {})}],
        }
        if alertmanager:
            config["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]}
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        super().__init__(folder, ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data"])

    def query(self, expression):
        """Return the values of an instant query as (labels, number)."""
        answer = self.get("/api/v1/query", query=expression)
        return [(each["metric"], float(each["value"][1])) for each in answer["data"]["result"]]


class Alertmanager(_Server):
    """Keeps the alerts that it is told."""

    def __init__(self, folder, config):
        argv = ["prometheus-alertmanager", f"--config.file={config}", "--storage.path=silences"]
        super().__init__(folder, [*argv, "--cluster.listen-address="])

    def list_alerts(self):
        return self.get("/api/v2/alerts")
