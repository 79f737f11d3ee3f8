"""Runs as root in a container with systemd: the life of the packages in /packages, from install to purge.

Writes what it found to /out/facts.json; the test outside judges it.
"""

import json
import pathlib
import sqlite3
import subprocess
import time
import traceback

DATABASE = pathlib.Path("/var/lib/ckptd/ckptd.sqlite3")
CONFIG = pathlib.Path("/etc/ckptd/config.toml")
COPY = pathlib.Path("/var/backups/ckptd-before-upgrade-from-1.0.sqlite3")
FACTS = {}


def run(*argv):
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return {"status": done.returncode, "text": done.stdout + done.stderr}


def look(name, **more):
    """Record what an administrator sees now."""
    time.sleep(1)
    FACTS[name] = {
        "package": run("dpkg-query", "--show", "-f=${db:Status-Abbrev}${Version}", "ckptd")["text"],
        "service": run("systemctl", "is-active", "ckptd")["text"].strip(),
        "exit status": run("systemctl", "show", "--value", "-p", "ExecMainStatus", "ckptd")["text"].strip(),
        "revision": read_revision(DATABASE),
        "copy": read_revision(COPY),
        "config": CONFIG.exists(),
        "account": run("id", "ckptd")["status"] == 0,
        "left": sorted(str(path) for path in pathlib.Path("/opt").glob("ckptd/**/*"))[:5],
        "command": pathlib.Path("/usr/bin/ckptd").exists(),
        **more,
    }


def read_revision(path):
    if not path.exists():
        return None
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as opened:
        return opened.execute("SELECT version_num FROM alembic_version").fetchone()[0]


def live():
    look("installed", dpkg=run("dpkg", "--install", "/packages/1.0.deb"), check=run("ckptd", "config", "check"))
    CONFIG.write_text('[slurm]\nsource = "replay"\ncluster = "c1"\nreplay_path = "/recording"\n')
    look("started", systemctl=run("systemctl", "enable", "--now", "ckptd"), version=run("ckptd", "--version"))
    look("upgraded", dpkg=run("dpkg", "--install", "/packages/2.0.deb"))
    look("too early", dpkg=run("dpkg", "--install", "/packages/1.0.deb"))
    look("upgraded again", dpkg=run("dpkg", "--install", "/packages/2.0.deb"))
    look("rolled back", dpkg=run("dpkg", "--install", "/packages/1.0.deb"))
    FACTS["rolled back"]["journal"] = run("journalctl", "--unit=ckptd", "--no-pager", "--lines=20")["text"]
    run("systemctl", "stop", "ckptd")
    for path in DATABASE.parent.glob("ckptd.sqlite3*"):
        path.rename(path.with_name("newer-" + path.name))
    restored = run("ckptd", "db", "restore", str(COPY))
    run("chown", "--recursive", "ckptd:ckptd", str(DATABASE.parent))
    run("systemctl", "reset-failed", "ckptd")
    look("restored", restore=restored, systemctl=run("systemctl", "start", "ckptd"))
    look("removed", dpkg=run("dpkg", "--remove", "ckptd"))
    look("purged", dpkg=run("dpkg", "--purge", "ckptd"), state=DATABASE.parent.exists())


try:
    live()
except Exception:  # noqa: BLE001 - the test outside shows it
    FACTS["failed"] = traceback.format_exc()
pathlib.Path("/out/facts.json").write_text(json.dumps(FACTS))
