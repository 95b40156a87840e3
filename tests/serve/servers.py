"""Servers to ask: real ones, in processes of their own."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

SOURCE = str(Path(__file__).parents[2] / "src")


class Server:
    """``thinstream serve`` on a free port of this machine."""

    def __init__(self, data, *arguments):
        self.data, self._arguments, self.port = Path(data), [str(item) for item in arguments], 0
        self.start()

    def start(self):
        command = [
            sys.executable,
            "-m",
            "thinstream",
            "serve",
            "--data",
            str(self.data),
            "--port",
            str(self.port),
            *self._arguments,
        ]
        self.log = open(self.data.parent / "log.txt", "a+")  # noqa: SIM115
        result = [SOURCE, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, result))}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment)
        if "json" in self._arguments:  # then the address is in the log only
            while not (result := re.search(r"on (http[^\s\"]+)", self.log_text())) and self.process.poll() is None:
                time.sleep(0.02)
        else:
            result = re.search(r"on (http\S+)", self.process.stdout.readline())
        assert result, self.log_text()
        self.url, self.port = result[1], int(result[1].rpartition(":")[2])

    def log_text(self):
        self.log.seek(0)
        return self.log.read()

    def until_ready(self, seconds=300.0):
        """Wait until it predicts and has learned its journal. Compiling may take minutes on a busy machine."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                if self.get("/v2/health/ready")[0] == self.get("/v2/health/learning")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise AssertionError(self.log_text())

    def ask(self, path, body=None, kind="application/json", **headers):
        """(status, body, headers) of a request."""
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        given = {"Content-Type": kind, **{name.replace("_", "-"): value for name, value in headers.items()}}
        request = urllib.request.Request(self.url + path, raw, given)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read(), answer.headers
        except urllib.error.HTTPError as error:
            return error.code, error.read(), error.headers

    def post(self, path, body, **headers):
        status, raw, _ = self.ask(path, body, **headers)
        return status, json.loads(raw)

    def get(self, path):
        status, raw, _ = self.ask(path)
        return status, raw

    def children(self):
        """Ids of its processes."""
        result = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                if int(fields[1]) == self.process.pid and fields[0] != "Z":
                    result.append(int(stat.parent.name))
        return sorted(result)

    def kill(self):
        """SIGKILL to all, the one that starts others first."""
        pids = [self.process.pid, *self.children()]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def behead(self):
        """SIGKILL to the one that starts others: these end by themselves."""
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self.process.stdout.close()
        self.log.close()
        return code


def tokens_in(folder, text):
    """Write a file of tokens that no other user may access."""
    path = folder / "tokens"
    path.write_text(text)
    path.chmod(0o600)
    return path
