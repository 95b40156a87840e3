"""Peers of ``thinstream serve``: Vowpal Wabbit's daemon, and Vowpal Wabbit and River behind the same Starlette.

    python -m benchmarks.serve_peers river 8001

Neither keeps anything: what they have learned is gone with the process. The daemon is that of the Python package, which
is started as ``python -m vowpalwabbit --daemon``; it speaks lines over TCP, one connection at a time.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress

import msgspec


def river_app():
    """Logistic regression, rows by name as JSON."""
    from river.linear_model import LogisticRegression

    model = LogisticRegression()

    async def predict(request):
        row = msgspec.json.decode(await request.body())["x"]
        return {"score": model.predict_proba_one(row)[True]}

    async def learn(request):
        asked = msgspec.json.decode(await request.body())
        model.learn_one(asked["x"], asked["y"] > 0)
        return {"rows": 1}

    return predict, learn


def vw_app():
    """Vowpal Wabbit's bindings, lines of its own."""
    import vowpalwabbit

    model = vowpalwabbit.Workspace("--loss_function logistic -b 18 --quiet")

    async def predict(request):
        return {"score": model.predict((await request.body()).decode())}

    async def learn(request):
        model.learn((await request.body()).decode())
        return {"rows": 1}

    return predict, learn


def run(name, port):
    """Serves a peer, as thinstream's own application is served."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route

    def answering(handler):
        async def answer(request):
            return Response(msgspec.json.encode(await handler(request)), media_type="application/json")

        return answer

    predict, learn = (answering(each) for each in {"river": river_app, "vw": vw_app}[name]())
    routes = [Route("/predict", predict, methods=["POST"]), Route("/learn", learn, methods=["POST"])]
    uvicorn.run(Starlette(routes=routes), port=port, log_config=None, access_log=False)


class Peer:
    """A process that serves, with the face of a `Server`."""

    def __init__(self, command, port):
        self.process = subprocess.Popen(
            command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.port, self.url = port, f"http://127.0.0.1:{port}"
        for _ in range(600):
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            time.sleep(0.05)
        raise SystemExit(f"{command} does not listen")

    @classmethod
    def behind_starlette(cls, name):
        """One of the applications above."""
        port = free_port()
        return cls([sys.executable, "-m", "benchmarks.serve_peers", name, str(port)], port)

    @classmethod
    def daemon(cls):
        """Vowpal Wabbit's own."""
        port = free_port()
        options = ["--daemon", "--foreground", "--num_children", "1", "--passes", "1", "--loss_function", "logistic"]
        return cls([sys.executable, "-m", "vowpalwabbit", *options, "-b", "18", "--quiet", "--port", str(port)], port)

    def children(self):
        """Ids of its processes."""
        found = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True).stdout
        return [int(pid) for pid in found.split()]

    def stop(self):
        """Ends it and all its processes."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def asked(port, lines, seconds, together=1):
    """Rows a second that a daemon answers: so many lines are sent, and their answers waited for."""
    with socket.create_connection(("127.0.0.1", port), 10) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answers, done, until = line.makefile("rb"), 0, time.perf_counter() + seconds
        while time.perf_counter() < until:
            some = [lines[(done + k) % len(lines)] for k in range(together)]
            line.sendall(b"\n".join(some) + b"\n")
            for _ in some:
                answers.readline()
            done += together
    return done


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


if __name__ == "__main__":
    run(sys.argv[1], int(sys.argv[2]))
