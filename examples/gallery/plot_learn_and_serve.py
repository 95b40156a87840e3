"""
Learn and serve at once
=======================

A server that starts knowing nothing, answers from the first request on, and learns from what it is told. Here it runs
beside this script; a client asks it for the label of each mail, then tells it the right one.
"""

# %%
# Start it
# --------
#
# In a shell this is `thinstream serve --data served --new mail:arow:ham,spam`.

import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from thinstream.serve.client import Client

folder = Path(tempfile.mkdtemp())
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
command = ["serve", "--data", str(folder / "served"), "--new", "mail:arow:ham,spam", "--port", str(port)]
log = (folder / "log.txt").open("w")
server = subprocess.Popen([sys.executable, "-m", "thinstream", *command], stdout=log, stderr=log)

# %%
# Mail, made up
# -------------
#
# Words of two kinds of mail, which overlap.

rng = np.random.default_rng(0)


def mail():
    """A mail as words and their counts, and what it is."""
    spam = rng.random() < 0.4
    topics = rng.integers(0, 60, size=8) + np.where(rng.random(8) < (0.35 if spam else 0.05), 60, 0)
    return {f"word {topic}": 1.0 for topic in topics}, "spam" if spam else "ham"


# %%
# Ask, then tell
# --------------
#
# Once `learn` is answered the row is on disk: killed at any moment, the server has learned every acknowledged row
# exactly once.

wrong, asked, told = [], [], []
try:
    with Client(f"http://127.0.0.1:{port}", "mail", patience=300, timeout=100) as client:  # it may compile first
        for _ in range(600):
            x, y = mail()
            start = time.perf_counter()
            said = client.predict(x)["label"]
            asked.append(time.perf_counter() - start)
            start = time.perf_counter()
            client.learn(x, y)
            told.append(time.perf_counter() - start)
            wrong.append(said != y)
finally:
    server.terminate()
    server.wait()
    log.close()
print(f"wrong on {np.mean(wrong[:100]):.0%} of the first 100 mails, on {np.mean(wrong[-100:]):.0%} of the last 100")

# %%
# How it went
# -----------

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.plot(np.arange(101, 601), 100 * np.convolve(wrong, np.ones(101) / 101, "valid"), color="tab:orange")
left.set(xlabel="mails", ylabel="error of the last 101, %", ylim=(0, None))
for name, times in {"predict": asked[1:], "learn, on disk when answered": told[1:]}.items():
    right.hist(1000 * np.array(times), bins=np.geomspace(0.1, 100, 50), histtype="step", lw=1.5, label=name)
right.set(xscale="log", xlabel="milliseconds a request", ylabel="requests")
right.legend(loc="lower center", bbox_to_anchor=(0.5, 1))
plt.show()
