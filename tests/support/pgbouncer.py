"""A private PgBouncer in transaction mode: each transaction of a client may run in another session of the server."""

import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from demo import ports
from support.mail_server import wait_until

# `server_round_robin` takes the session that was idle the longest, so that state left in a session is soon missed
CONFIGURATION = """[databases]
* = host=127.0.0.1 port={server.port} user=ckptd password={server.password}
[pgbouncer]
pool_mode = transaction
server_round_robin = 1
default_pool_size = 5
max_client_conn = 100
auth_type = any
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
server_login_retry = 1
logfile = {folder}/log
"""


class PgBouncer:
    """PgBouncer in front of a private PostgreSQL. It refuses root, so as root it runs as the server's user."""

    def __init__(self, server):
        self._server = server
        self.folder = Path(tempfile.mkdtemp(prefix="ckptd-pgbouncer-"))
        self.port = ports.find_free_ports(1)[0]

    def start(self):
        program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
        assert program, "PgBouncer is not installed: run `deploy/demo/install test`"
        configuration = self.folder / "pgbouncer.ini"
        configuration.write_text(CONFIGURATION.format(server=self._server, port=self.port, folder=self.folder))
        command = [program, "--quiet", str(configuration)]
        if os.getuid() == 0:
            for path in (self.folder, configuration):
                shutil.chown(path, self._server.user)
            user = self._server.user
            command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", *command]
        self.process = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL)
        wait_until(self._answers, 20)
        return self

    def stop(self):
        with suppress(AttributeError):
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder)

    def route(self, address):
        """Return the address of a server's database through this PgBouncer."""
        return address.replace(f":{self._server.port}/", f":{self.port}/")

    def read_log(self):
        return (self.folder / "log").read_text()

    def _answers(self):
        assert self.process.poll() is None, self.read_log()
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False
