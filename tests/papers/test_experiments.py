"""The framework of the experiments: cells are kept, pages follow from what is kept."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from papers.catalogue import chosen, experiments
from papers.data import require_ranges
from papers.experiment import Cell, Claim, Compared, Experiment, markdown
from papers.keeping import Result, keep, kept
from papers.running import run
from papers.writing import count_claims, reason, unexplained, write_page, write_summary

from thinstream.errors import InvalidInputError, MissingDataError, UnknownNameError


def square(number, log):
    """A cell's work: leaves a mark each time it runs."""
    with open(log, "a") as file:
        file.write(f"{number}\n")
    if number == 3 and Path(log).with_name("bad").exists():
        raise RuntimeError("three is bad")
    return [{"number": number, "square": float(number) ** 2, "set": f"set {number}"}]


def toy(log, needs=(), numbers=(1, 2, 3)):
    def draw(rows, figure):
        figure.subplots().plot([row["number"] for row in rows], [row["square"] for row in rows])

    return Experiment(
        name="toy",
        source="P9, Table I",
        title="Squares",
        about="Numbers are squared.",
        cells=lambda smoke: [Cell(str(n), square, (n, str(log)), needs) for n in numbers[: 1 if smoke else None]],
        tables=lambda rows: [markdown(["n", "n²"], [[str(r["number"]), f"{r['square']:.1f}"] for r in rows])],
        draw=draw,
        claims=lambda rows: [Claim("squares grow", True, "1, 4, 9")],
        compare=lambda rows: [Compared("two squared", rows[-1]["square"], float("nan"), 4.0, "three is not two")],
    )


def test_finished_cells_are_not_run_again(tmp_path):
    log, bad = tmp_path / "log", tmp_path / "bad"
    bad.touch()
    with pytest.raises(RuntimeError, match="three is bad"):
        run(toy(log), tmp_path / "cells")
    bad.unlink()
    seen = []
    done = run(toy(log), tmp_path / "cells", progress=lambda *told: seen.append(told))
    assert [row["square"] for row in done.rows] == [1.0, 4.0, 9.0]
    assert log.read_text().split() == ["1", "2", "3", "3"]
    assert seen == [(2, 3, ""), (3, 3, "3")]
    run(toy(log), tmp_path / "cells", fresh=True)
    assert len(log.read_text().split()) == 7
    assert len(run(toy(log), tmp_path / "cells", smoke=True).rows) == 1  # kept apart from the real ones
    assert len(log.read_text().split()) == 8


def test_processes_give_the_same_rows_in_the_same_order(tmp_path):
    alone = run(toy(tmp_path / "a"), tmp_path / "1")
    assert run(toy(tmp_path / "a"), tmp_path / "2", jobs=2).rows == alone.rows


def test_missing_data_are_named_and_left_out(tmp_path, monkeypatch):
    monkeypatch.setenv("THINSTREAM_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match=r"toy needs data sets that are not in .*: no-such-set; put them"):
        run(toy(tmp_path / "log", needs=("no-such-set",)), tmp_path)
    half = toy(tmp_path / "log")
    cells = [*half.cells(False), Cell("more", square, (4, "log"), ("no-such-set",))]
    object.__setattr__(half, "cells", lambda smoke: cells)
    assert run(half, tmp_path / "cells").missing == ("no-such-set",)


def test_two_cells_of_one_key_are_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="same key"):
        run(toy(tmp_path / "log", numbers=(1, 1)), tmp_path)


def test_results_come_back_number_for_number(tmp_path):
    rows = [{"set": "a9a", "x": 0.1 + 0.2, "n": 3}, {"set": "w8a", "x": 1e-300, "more": "text, with a comma"}]
    result = Result(rows, 1.5, ("covtype",), True, "a machine", "a version")
    keep(tmp_path, "some", result)
    assert kept(tmp_path, "some") == result
    assert kept(tmp_path, "other") is None
    (tmp_path / "some.json").write_text(json.dumps({"nothing": 1}))
    with pytest.raises(InvalidInputError, match="not the results of an experiment"):
        kept(tmp_path, "some")


def test_pages_follow_from_results(tmp_path):
    experiment, folder = toy(tmp_path / "log"), tmp_path / "out"
    folder.mkdir()
    rows = run(experiment, tmp_path / "cells").rows
    result = Result(rows, 300.0, ("covtype",), False, "a machine", "a version")
    keep(folder, "toy", result)
    write_page(experiment, result, folder)
    page = (folder / "toy.md").read_text()
    assert "| 3 | 9.0 |" in page
    assert "not there: covtype" in page
    assert "| squares grow | yes | 1, 4, 9 |" in page
    assert (folder / "toy.png").read_bytes().startswith(b"\x89PNG")
    summary = write_summary([experiment], folder).read_text()
    assert "| two squared | 9.00 | 4.00 | +5.00 | three is not two |" in summary
    assert "5.0 min" in summary


def test_deviations_without_a_tested_reason_are_listed():
    far = Compared("far", 9.0, float("nan"), 4.0)
    assert reason(far) == "unexplained"
    assert reason(far._replace(why="a reason")) == "a reason"
    assert reason(far._replace(reading=4.5)) == "explained by the authors' reading"
    assert reason(far._replace(reading=5.5)) == "unexplained"
    assert reason(far._replace(ours=4.5)) == ""
    compared = [far, far._replace(what="close", ours=4.5), far._replace(what="again", reading=4.5)]
    experiment = replace(toy("log"), compare=lambda rows: compared)
    page = unexplained([experiment], {"toy": Result([], 1.0)})
    assert "compare 3 numbers with a paper's. 2 of them differ by more than 1. For 1 of those" in page
    assert page.endswith("- P9, Table I, far: +5.00")
    assert unexplained([experiment], {"toy": None}) == ""


def test_claims_are_counted():
    """Our own questions are not the paper's claims."""
    claims = [Claim("one", True, ""), Claim("two", False, ""), Claim("(a question of ours) three", True, "")]
    experiment = replace(toy("log"), claims=lambda rows: claims, not_testable=["four"])
    page = count_claims([experiment], {"toy": Result([], 1.0)})
    assert "| P9: P9 | 1 | 1 | 1 |" in page
    assert "- P9, Table I: four" in page


def test_values_outside_the_published_range_are_noticed():
    """A file whose decimal points are lost has such values."""
    X = sp.csr_matrix(np.ones((2, 14)) * 14)
    require_ranges("australian", X)
    require_ranges("a set of one's own", X)
    X[1, 1] = 2208
    with pytest.raises(InvalidInputError, match=r"australian: column 2 must have values from 13.75 to 80.25.*2208"):
        require_ranges("australian", X)


def test_unknown_experiments():
    with pytest.raises(UnknownNameError, match="no experiment 'p9'"):
        chosen(["p9"])


def test_names_are_unique_and_say_their_paper():
    for name, experiment in experiments().items():
        assert experiment.source.lower().startswith(name.split("-")[0])
