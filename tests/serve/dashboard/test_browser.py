"""The dashboard in a real browser: its figures are those of /metrics, it asks nobody else, and comes back."""

import os
import re
import subprocess
import sys
import time

import pytest

from tests.serve.conftest import made
from tests.serve.dashboard.browser import Looked, chromium
from tests.serve.rows import random_rows
from tests.serve.servers import SOURCE, Server, tokens_in
from tests.serve.test_dashboard import metrics
from thinstream.serve.client import Client

pytestmark = pytest.mark.browser

LIVE = "document.getElementById('state').dataset.state === 'live'"


@pytest.fixture(scope="module")
def browser():
    with chromium() as result:
        yield result


@pytest.fixture
def server(tmp_path):
    made(tmp_path / "m.ts", -1, 1)
    result = Server(tmp_path / "data", tmp_path / "m.ts", "--checkpoint-seconds", "0.5")
    result.until_ready()
    yield result
    result.kill()


@pytest.fixture
def looked(browser):
    pages = []

    def look(**options):
        pages.append(Looked(browser, **options))
        return pages[-1]

    yield look
    for page in pages:
        page.close()


def teach(server, seed=0, many=300):
    rows, labels = random_rows(many, seed=seed)
    with Client(server.url, "m", patience=60) as client:
        for k in range(0, many, 20):
            client.learn(rows[k : k + 20], labels[k : k + 20])
        client.predict(rows[:7], [f"{seed}.{k}" for k in range(7)])
        client.label([f"{seed}.{k}" for k in range(4)], labels[:4])


def test_figures_are_those_of_metrics(server, looked):
    teach(server)
    seen = looked().open(server.url)
    seen.until(LIVE)
    seen.until("document.querySelector('[data-key=rows]').dataset.value === '304'")
    seen.until("document.querySelector('[data-key=lag]').dataset.value === '0'")
    known = metrics(server)
    for key, name in {
        "rows": "rows_learned_total", "error": "progressive_error", "log_loss": "progressive_log_loss",
        "auc": "progressive_auc", "nnz": "weights", "drift": "drift_alarms_total", "lag": "journal_lag",
        "waiting": "rows_waiting", "refused": "rows_refused_total",
    }.items():  # fmt: skip
        assert seen.value(key) == known[f'thinstream_{name}{{model="m"}}'], key
    assert seen.text("error").startswith(f"{100 * seen.value('error'):.1f} %")
    assert seen.text("rows") == "304"
    rows = seen.page.locator("section[aria-label=Requests] tbody tr").all_inner_texts()
    told = dict(re.findall(r"(/\w+)\t(\d+)", "\n".join(rows)))
    for path in ("/learn", "/predict", "/label"):
        assert int(told[path]) == known[f'thinstream_requests_total{{path="{path}",status="200"}}']
    assert seen.complaints == []
    assert all(url.startswith((server.url, "data:")) for url in seen.asked)
    assert {url.removeprefix(server.url) for url in seen.asked} >= {"/", "/events", "/dashboard/page.js"}


def test_it_is_live_and_comes_back_after_a_restart(server, looked):
    teach(server)
    seen = looked().open(server.url)
    seen.until("document.querySelector('[data-key=rows]')?.dataset.value === '304'")
    teach(server, seed=1)
    seen.until("document.querySelector('[data-key=rows]').dataset.value === '608'")
    assert seen.complaints == []
    server.kill()
    seen.until("document.getElementById('state').dataset.state === 'lost'")
    assert "away" in seen.page.inner_text("#state")
    assert seen.value("rows") == 608  # what was known stays
    server.start()
    server.until_ready()
    seen.until(LIVE)
    teach(server, seed=2)
    seen.until("document.querySelector('[data-key=rows]').dataset.value === '912'")
    others = [
        message
        for message in seen.complaints
        if "ERR_CONNECTION_REFUSED" not in message and "ERR_INCOMPLETE" not in message
    ]
    assert others == []  # the browser itself remarks on a server that is away


def test_it_asks_for_a_token(tmp_path, looked):
    made(tmp_path / "m.ts", -1, 1)
    tokens_in(tmp_path, "read a-token-of-somebody\n")
    server = Server(tmp_path / "data", tmp_path / "m.ts", "--tokens", tmp_path / "tokens")
    try:
        seen = looked().open(server.url)
        seen.page.wait_for_selector("#ask:visible")
        assert seen.page.evaluate("document.activeElement.id") == "token"
        seen.page.keyboard.type("not-the-right-token")
        seen.page.keyboard.press("Enter")
        seen.page.wait_for_selector("#refused:not(:empty)")
        assert "needs a token" in seen.page.inner_text("#refused")
        seen.page.fill("#token", "a-token-of-somebody")
        seen.page.keyboard.press("Enter")
        seen.until(LIVE)
        assert not seen.page.is_visible("#ask")
        assert "token" not in " ".join(seen.asked)
        seen.page.reload()  # it is kept for the tab
        seen.until(LIVE)
    finally:
        server.kill()


def test_by_keyboard_and_for_screen_readers(server, looked):
    teach(server)
    seen = looked().open(server.url)
    seen.until("document.querySelectorAll('svg.chart path').length > 3")
    page = seen.page
    assert page.locator("html").get_attribute("lang") == "en"
    for chart in page.get_by_role("img").all():
        assert chart.get_attribute("aria-label")
    error = page.locator("section[aria-label='Error along the stream']")
    error.locator("svg.chart").focus()
    page.keyboard.press("End")
    assert re.match(r"rows [\d,]+: in each part [\d.]+%", error.locator(".readout").inner_text())
    last = error.locator(".readout").inner_text()
    page.keyboard.press("ArrowLeft")
    assert error.locator(".readout").inner_text() != last
    page.keyboard.press("Tab")  # to its table
    page.keyboard.press("Enter")
    seen.until("document.querySelectorAll('section[aria-label^=Error] tbody tr').length > 10")
    assert error.locator("table thead th").all_inner_texts()[0] == "rows"
    assert page.locator("#state").get_attribute("aria-live") == "polite"
    page.keyboard.press("Control+Home")
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    missing = "[...document.querySelectorAll('button,select,input')].filter(e => !e.textContent && !e.labels?.length)"
    assert page.evaluate(f"{missing}.map(e => e.id)") == []
    assert seen.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_and_widths(server, looked, scheme):
    teach(server)
    for width in (390, 1280):
        seen = looked(width=width, height=844, scheme=scheme).open(server.url)
        seen.until(LIVE)
        page = seen.page
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("document.documentElement.dataset.theme") == scheme
        page.click("#theme")
        assert page.evaluate("document.documentElement.dataset.theme") != scheme
        assert contrast(page, "dt") >= 4.5
        assert contrast(page, "dd") >= 4.5
        page.reload()
        seen.until(LIVE)
        assert page.evaluate("document.documentElement.dataset.theme") != scheme  # remembered
        assert seen.complaints == []


def contrast(page, selector):
    """WCAG's ratio of a text to its card."""
    script = "s => ['color', 'backgroundColor'].map((k, i) => getComputedStyle(i ? document.querySelector(s).parentElement : document.querySelector(s))[k])"  # noqa: E501
    light = []
    for colour in page.evaluate(script, selector):
        parts = [int(item) / 255 for item in re.findall(r"\d+", colour)[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        light.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(light) + 0.05) / (min(light) + 0.05)


def test_challengers_versions_and_weights(server, looked):
    teach(server)
    with Client(server.url, "m") as client:
        kept = client.keep_version("m")["kept"]
        client.challenge("m", "rival", "ssol")
    teach(server, seed=1)
    seen = looked().open(server.url)
    seen.until("[...document.querySelectorAll('th')].some(cell => cell.textContent.startsWith('rival: SSOL'))")
    seen.until("document.querySelector('[data-weight]') !== null")
    seen.until("document.querySelectorAll('section[aria-label^=Champion] tbody tr')[1].innerText.includes('\\t304\\t')")
    rivals = seen.page.locator("section[aria-label='Champion and challengers'] tbody tr").all_inner_texts()
    assert rivals[0].startswith("AROW (champion)")
    assert rivals[1].startswith("rival: SSOL\t304\t")
    versions = seen.page.locator("section[aria-label=Versions] tbody tr").all_inner_texts()
    assert [row.split("\t")[0] for row in versions] == [str(kept), "0"]
    names = [row.get_attribute("data-weight") for row in seen.page.locator("tr[data-weight]").all()]
    assert len(names) == 12
    assert all(name.startswith("column ") for name in names)
    with Client(server.url, "m") as client:
        client.promote("m", "rival")
    seen.until("document.getElementById('about').textContent.startsWith('SSOL')")
    assert seen.complaints == []


def test_a_run_live_and_as_a_file(tmp_path, looked):
    rows, labels = random_rows(2000)
    lines = [
        f"{y} " + " ".join(f"{j}:{x}" for j, x in sorted(row.items(), key=lambda p: int(p[0])))
        for row, y in zip(rows, labels)
    ]
    command = [
        sys.executable,
        "-m",
        "thinstream",
        "train",
        "-",
        "--format",
        "libsvm",
        "-a",
        "arow",
        "--classes",
        "-1,1",
    ]
    command += ["--live", "--report", "run.html", "--monitor", "adwin", "-m", "m.ts"]
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, text=True, **pipes)
    try:
        process.stdin.write("\n".join(lines[:1000]) + "\n")
        process.stdin.flush()
        address = next(result[1] for line in process.stderr if (result := re.search(r"live at (\S+)", line)))
        seen = looked().open(address)
        seen.until(LIVE)
        for k in range(1000, 2000, 100):
            process.stdin.write("\n".join(lines[k : k + 100]) + "\n")
            process.stdin.flush()
            time.sleep(0.2)
        process.stdin.close()
        seen.until("document.getElementById('state').textContent === 'the run has ended'")
        assert seen.value("rows") == 2000
        assert process.wait(60) == 0
        assert seen.complaints == []
        assert all(url.startswith((address, "data:")) for url in seen.asked)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    kept = looked().open((tmp_path / "run.html").as_uri())
    kept.until("document.querySelectorAll('svg.chart path').length > 2")
    assert kept.page.title() == "AROW on -"
    assert (kept.value("rows"), kept.value("error")) == (2000, seen.value("error"))
    assert [url for url in kept.asked if not url.startswith("data:")] == [(tmp_path / "run.html").as_uri()]
    assert kept.complaints == []
    assert not kept.page.is_visible("section[aria-label=Requests]")
