"""The page's files: all that it needs comes with the package, and it asks no other host."""

import base64
import hashlib
import json
import re
import shutil
import subprocess

import pytest

from thinstream.serve.dashboard import HEADERS, PATHS, asset, standalone


def test_no_file_names_another_host():
    for path in PATHS:
        text = asset(path).content.decode()
        assert {*re.findall(r"https?://[^\s\"'`)]+", text)} <= {"http://www.w3.org/2000/svg"}
        assert "innerHTML" not in text
        assert "eval(" not in text


def test_the_page_has_all_its_parts_and_no_inline_script():
    text = asset("/").content.decode()
    for path in PATHS:
        assert path == "/" or f'"{path}"' in text
    assert "<style" not in text
    assert not re.search(r"<script>|\son\w+=|\sstyle=", text)
    assert "default-src 'none'" in HEADERS["Content-Security-Policy"]
    assert "unsafe" not in HEADERS["Content-Security-Policy"]


def test_a_standalone_page_needs_nothing_and_its_policy_allows_its_own_scripts_only():
    told = {"models": {"</script><b>": {"status": {"rows": 3}}}}
    text = standalone(told, "a run")
    assert not re.search(r"(src|href)=\"/", text)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)[1]
    scripts = re.findall(r"<script>(.*?)</script>", text, flags=re.S)
    assert len(scripts) == 2
    for script in [*scripts, re.search(r"<style>(.*?)</style>", text, flags=re.S)[1]]:
        assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy
    kept = re.search(r'id="data">(.*?)</script>', text, flags=re.S)[1]
    assert json.loads(kept) == told | {"title": "a run"}


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_scripts_parse(tmp_path):
    for path in PATHS:
        if path.endswith(".js"):
            file = tmp_path / "script.js"
            file.write_bytes(asset(path).content)
            subprocess.run(["node", "--check", str(file)], check=True)
