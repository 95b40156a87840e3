"""Fuzzes the text formats: ``python -m tests.fuzz.run --seconds 60 [--format libsvm]``; status 1 if anything is found.

Phase 1 (`explore`) looks for texts that reach new code, with the formats interpreted; phase 2 (`replay`) gives all of
them, and the seeds, to the compiled code, which must come to the same, within bounds and within the text. What is
found in phase 1 goes on growing from run to run, in ``build/fuzz``.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.formats import FORMATS, exists, known

SEEDS = Path(__file__).parent / "seeds"
ROOT = Path(__file__).parents[2]


class Found(NamedTuple):
    """A text that does what it must not."""

    saved: Path
    what: str


def fuzz(name, work, seconds, timeout=10, seeds=None, limit=2000):
    """What is found in a format, in both phases."""
    work = Path(work).resolve() / name.replace(":", ".")
    corpus, findings = work / "corpus", work / "findings"
    for folder in (corpus, findings):
        folder.mkdir(parents=True, exist_ok=True)
    folders = [str(folder) for folder in (corpus, seeds or seeds_of(name)) if folder.is_dir()]
    found = _explore(name, work, folders, seconds, timeout, limit)
    if found:
        return found
    interpreted, found = _replay(name, folders, findings, timeout, {"NUMBA_DISABLE_JIT": "1"})
    if found:
        return found
    settings = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(work / "numba")}
    compiled, found = _replay(name, folders, findings, timeout, settings)
    for path, result in compiled.items():
        if result != interpreted.get(path):
            found.append(_save(path, findings, f"compiled: {result}, interpreted: {interpreted.get(path)}"))
    return found


def seeds_of(name):
    """The folder of a format's seeds; beside it, as .dict, the words it is made of."""
    return SEEDS / (known(name).seeds or name)


def _explore(name, work, folders, seconds, timeout, limit):
    findings = work / "findings"
    before = {*findings.iterdir()}
    options = [f"-max_total_time={seconds}" if seconds else "-runs=0", f"-timeout={timeout}", f"-max_len={limit}"]
    options += [f"-artifact_prefix={findings}{os.sep}", "-rss_limit_mb=4096", "-verbosity=0"]
    words = seeds_of(name).with_suffix(".dict")
    options += [f"-dict={words}"] if words.is_file() else []
    log = work / "explore.log"
    with log.open("wb") as out:
        status = _start("tests.fuzz.explore", [name, *folders, *options], {"NUMBA_DISABLE_JIT": "1"}, out, out).wait()
    new = sorted({*findings.iterdir()} - before)
    if status == 0 and not new:
        return []
    tail = log.read_text(errors="replace").strip()[-2000:]
    if not new:
        raise RuntimeError(f"phase 1 ended with status {status} and no text to show for it:\n{tail}")
    return [Found(path, tail) for path in new]


def _replay(name, folders, findings, timeout, settings):
    """({text: what it gives}, what is found)."""
    process = _start("tests.fuzz.replay", [name, str(timeout), *folders], settings, subprocess.PIPE, subprocess.PIPE)
    out, err = process.communicate()
    at, outcomes, found = None, {}, []
    for line in out.decode().splitlines():
        message = json.loads(line)
        if "at" in message:
            at = message["at"]
        elif "finding" in message:
            found.append(_save(at, findings, message["finding"]))
            at = None
        else:
            outcomes[at] = message["outcome"]
            at = None
    if process.returncode and at is not None:
        how = f"signal {-process.returncode}" if process.returncode < 0 else "a hang"
        found.append(_save(at, findings, f"ends the process by {how}: {err.decode(errors='replace')[-1000:]}"))
    elif process.returncode:
        raise RuntimeError(f"phase 2 ended with status {process.returncode}:\n{err.decode(errors='replace')[-2000:]}")
    return outcomes, found


def _start(module, arguments, settings, out, err):
    kept = {key: value for key, value in os.environ.items() if key not in ("NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK")}
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.Popen(command, cwd=ROOT, env={**kept, **settings}, stdout=out, stderr=err)


def _save(path, findings, what):
    data = Path(path).read_bytes()
    saved = findings / f"replay-{hashlib.sha1(data).hexdigest()}"
    saved.write_bytes(data)
    return Found(saved, what)


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60, help="for phase 1 of each format; 0: seeds and corpus only")
    parser.add_argument("--format", action="append", help=f"{', '.join(FORMATS)} or module:class; all by default")
    parser.add_argument("--timeout", type=int, default=10, help="seconds until a text counts as a hang")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "fuzz", help="where corpus and findings are kept")
    options = parser.parse_args(argv)
    status = 0
    for name in options.format or FORMATS:
        if not exists(name):
            if options.format:
                parser.error(f"there is no format {name!r}; known are {', '.join(FORMATS)}, or module:class")
            print(f"{name}: not there")
            continue
        found = fuzz(name, options.work, options.seconds, options.timeout)
        for finding in found:
            print(f"{name}: {finding.saved}\n{finding.what}\n")
        status |= bool(found)
        print(f"{name}: {len(found)} found" if found else f"{name}: fine")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
