"""The pictures of docs/dashboard.md: a server that learns, in light, dark and on a phone.

    python -m tools.screenshots [--out docs]

Needs chromium and playwright (the extra `test-browser`).
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from PIL import Image
from tests.serve.dashboard.browser import Looked, chromium
from tests.serve.servers import Server

from thinstream.serve.client import Client

WORDS = [
    *("free", "offer", "winner", "meeting", "lunch", "invoice", "phone", "prize", "report", "minutes", "friday"),
    *("click", "bank", "friend", "project", "music", "holiday", "cheap", "agenda", "urgent", "thanks", "photo"),
]
#: What is taken: width, height, colours, and how many pixels a pixel has.
SHOTS = {"light": (1280, 1560, "light", 1), "dark": (1280, 1560, "dark", 1), "phone": (390, 1300, "light", 1.5)}


def rows(many: int, rng: random.Random, turned: bool) -> tuple[list[dict[str, Any]], list[str]]:
    """Mail whose words say what it is; turned, some of them say the other thing."""
    found, labels = list[dict[str, Any]](), list[str]()
    for _ in range(many):
        words = rng.sample(range(len(WORDS)), 6)
        score = sum((1 if k % 3 == 0 else -0.5) * (-1 if turned and k % 2 else 1) for k in words) + rng.gauss(0, 0.7)
        found.append({"words": " ".join(WORDS[k] for k in words)})
        labels.append("spam" if score > 0 else "ham")
    return found, labels


def teach(url: str, seconds: float) -> None:
    """Predictions, labels that come at once and later, a challenger, and a turn of the stream."""
    rng, began, number, client = random.Random(3), time.monotonic(), 0, Client(url, "mail")
    while (passed := time.monotonic() - began) < seconds:
        some, labels = rows(rng.randint(8, 40), rng, passed > 0.5 * seconds)
        number += 1
        if number == 40:
            client.keep_version("mail")
            client.challenge("mail", "rival", "ftrlproximal")
        ids = [f"{number}.{k}" for k in range(len(some))]
        client.predict(some, ids)
        client.label(ids[: len(ids) - number % 2], labels[: len(ids) - number % 2])
        client.learn(some, labels)


def begun(folder: Path) -> Path:
    """A model that knows the words."""
    some, labels = rows(300, random.Random(0), False)
    lines = [json.dumps({"label": label, **row}) for row, label in zip(some, labels, strict=True)]
    (folder / "mail.jsonl").write_text("\n".join(lines) + "\n")
    learn = ["train", folder / "mail.jsonl", "--text", "words", "--classes", "ham,spam", "-a", "adarda", "-q"]
    learn += ["--bits", "12", "--names", "1000", "-m", folder / "mail.ts"]
    subprocess.run([sys.executable, "-m", "thinstream", *learn], check=True)
    return folder / "mail.ts"


def main() -> None:
    """Takes them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"))
    parser.add_argument("--seconds", type=float, default=40.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        server = Server(Path(folder) / "data", begun(Path(folder)))
        try:
            server.until_ready()
            taught = threading.Thread(target=teach, args=(server.url, options.seconds))
            taught.start()
            time.sleep(3.0)  # what is compiled is compiled by now
            shots = {}
            for name, (width, height, scheme, scale) in SHOTS.items():
                shots[name] = Looked(browser, width, height, scheme, device_scale_factor=scale).open(server.url)
            shots["light"].page.wait_for_timeout(1000 * (options.seconds - 12.0))
            for name, shot in shots.items():
                file = options.out / f"dashboard-{name}.png"
                shot.page.screenshot(path=file)
                Image.open(file).quantize(200).save(file, optimize=True)  # a third of the bytes
            taught.join()
        finally:
            server.kill()


if __name__ == "__main__":
    main()
