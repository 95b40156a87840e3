"""Run an experiment cell by cell. A finished cell is saved, so a run that was stopped can be resumed.

Not by joblib.Memory: it forgets results whenever the code of a function is edited, and cells take hours.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from hashlib import blake2b
from multiprocessing import get_context
from pathlib import Path

from threadpoolctl import threadpool_limits

from papers.data import is_here
from papers.experiment import Cell, Experiment, Row
from papers.keeping import Result
from papers.places import grids_on
from thinstream.datasets import folders
from thinstream.errors import InvalidInputError, MissingDataError
from thinstream.files import replacing

#: Called with the cells done, all cells, and the key of the last one.
Progress = Callable[[int, int, str], None]


def run(
    experiment: Experiment,
    folder: Path,
    *,
    smoke: bool = False,
    jobs: int = 1,
    fresh: bool = False,
    device: str = "cpu",
    progress: Progress = lambda done, of, key: None,
) -> Result:
    """Runs the cells that are not kept in the folder yet; the rows of all, in the order of the cells.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    folder : Path
        The folder of finished cells.
    smoke : bool
        The tiny version.
    jobs : int
        Processes; one if the experiment measures time.
    fresh : bool
        Whether to run finished cells again.
    device : {"cpu", "cuda", "auto"}
        The device for grids. Saved cells do not depend on it.
    progress : callable
        Called after each cell.

    """
    cells = experiment.cells(smoke)
    if len({cell.key for cell in cells}) < len(cells):
        raise InvalidInputError(f"experiment {experiment.name}: two cells have the same key")
    missing = tuple(sorted({name for cell in cells for name in cell.needs if not is_here(name)}))
    cells = [cell for cell in cells if not set(cell.needs) & set(missing)]
    if not cells:
        raise MissingDataError(
            f"experiment {experiment.name} needs data sets that are not in {', '.join(map(str, folders()))}: "
            f"{', '.join(missing)}; put them there, or name another folder by --data (see `thinstream datasets`)"
        )
    places = [folder / f"{_digest(experiment, cell, smoke)}.json" for cell in cells]
    folder.mkdir(parents=True, exist_ok=True)
    if fresh:
        for place in places:
            place.unlink(missing_ok=True)
    open_cells = [number for number, place in enumerate(places) if not place.exists()]
    done = len(cells) - len(open_cells)
    progress(done, len(cells), "")
    todo = [cells[number] for number in open_cells]
    for number, found, seconds in _worked(todo, 1 if experiment.timed else jobs, device):
        place, key = places[open_cells[number]], cells[open_cells[number]].key
        with replacing(place) as file:
            file.write_text(json.dumps({"key": key, "seconds": seconds, "rows": found}))
        done += 1
        progress(done, len(cells), key)
    kept = [json.loads(place.read_text()) for place in places]
    rows = experiment.rows([row for cell in kept for row in cell["rows"]])
    return Result(rows, sum(cell["seconds"] for cell in kept), missing, smoke)  # seconds of earlier runs, too


def _worked(cells: Sequence[Cell], jobs: int, device: str) -> Iterator[tuple[int, list[Row], float]]:
    """Yield finished cells, with their number."""
    if jobs == 1 or len(cells) < 2:
        for number, cell in enumerate(cells):
            yield number, *_work(cell, device)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(_work, cell, device): number for number, cell in enumerate(cells)}
        try:
            for future in as_completed(futures):
                yield futures[future], *future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _work(cell: Cell, device: str) -> tuple[list[Row], float]:
    start = time.process_time()
    with grids_on(device), threadpool_limits(1):  # cells run side by side, and times are those of one core
        rows = cell.work(*cell.arguments)
    return rows, time.process_time() - start  # of the processor, whatever else runs on the machine


def _digest(experiment: Experiment, cell: Cell, smoke: bool) -> str:
    what = f"{experiment.cells_of or experiment.name} {experiment.version} {cell.key} {cell.arguments!r} {smoke}"
    return blake2b(what.encode(), digest_size=12).hexdigest()
