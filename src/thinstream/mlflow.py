"""MLflow: models of thinstream saved, logged, registered, loaded and served by it.

    pip install 'thinstream[mlflow]'

A saved model is a folder as MLflow has it, with one model file of ours in it (safetensors: nothing is pickled), of two
flavours: ``thinstream``, which `load_model` gives back as the estimator it was, ready to go on learning, and
``python_function``, which `mlflow models serve` and `mlflow.pyfunc.load_model` predict with.
"""

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import thinstream
from thinstream.errors import InvalidInputError, MissingPackageError, listed
from thinstream.estimators import load, save

__all__ = ["FLAVOR", "load_model", "log_model", "save_model"]

#: Under this name MLflow knows it.
FLAVOR = "thinstream"
#: What a served model can answer with.
ANSWERS = ("predict", "predict_proba", "decision_function")
#: Columns of a frame whose cells are the non-zeros of sparse rows.
SPARSE = ("indices", "values")

_FILE, _REQUIREMENTS, _PYTHON = "model.ts", "requirements.txt", "python_env.yaml"
_ENVIRONMENT = "python: {python}\nbuild_dependencies:\n- pip\ndependencies:\n- -r {requirements}\n"


def _mlflow() -> Any:
    """The package, with the modules that are used here."""
    try:
        import mlflow.artifacts
        import mlflow.models
        import mlflow.pyfunc
    except ImportError:
        raise MissingPackageError(
            "thinstream.mlflow needs the package mlflow, which is not installed: pip install 'thinstream[mlflow]'"
        ) from None
    return mlflow


def save_model(
    estimator: Any,
    path: str | os.PathLike[str],
    *,
    answer: str = "predict",
    signature: Any = None,
    metadata: dict[str, Any] | None = None,
    pip_requirements: Sequence[str] | None = None,
    mlflow_model: Any = None,
) -> None:
    """Saves a fitted estimator as a folder that MLflow can load and serve.

    Parameters
    ----------
    estimator : fitted estimator
        Any of this package.
    path : path
        Of the folder, which must be new.
    answer : {"predict", "predict_proba", "decision_function"}
        What the python function answers with.
    signature : mlflow.models.ModelSignature or None
        Of its inputs and outputs. With one, MLflow checks and converts rows; sparse matrices need it left out.
    metadata : dict or None
        Whatever is to be kept with it.
    pip_requirements : list of str or None
        Of an environment to serve it in; None: this version of thinstream and of mlflow.
    mlflow_model : mlflow.models.Model or None
        That this is to be a flavour of; `log_model` gives one.

    """
    if answer not in ANSWERS:
        raise InvalidInputError(f"answer must be {listed(ANSWERS)}, got {answer!r}")
    mlflow, folder = _mlflow(), Path(path)
    described = mlflow.models.Model() if mlflow_model is None else mlflow_model
    if folder.exists() and any(folder.iterdir()):
        raise InvalidInputError(f"{folder}: the folder must be new or empty")
    folder.mkdir(parents=True, exist_ok=True)
    save(estimator, folder / _FILE)
    needed = pip_requirements or [f"thinstream=={thinstream.__version__}", f"mlflow=={mlflow.__version__}"]
    (folder / _REQUIREMENTS).write_text("".join(f"{each}\n" for each in needed))
    environment = _ENVIRONMENT.format(python=platform.python_version(), requirements=_REQUIREMENTS)
    (folder / _PYTHON).write_text(environment)
    if signature is not None:
        described.signature = signature
    if metadata is not None:
        described.metadata = metadata
    described.add_flavor(
        FLAVOR, data=_FILE, thinstream_version=thinstream.__version__, algorithm=type(estimator).__name__
    )
    mlflow.pyfunc.add_to_model(described, loader_module=__name__, data=_FILE, python_env=_PYTHON, predict_fn=answer)
    described.save(str(folder / "MLmodel"))


def log_model(estimator: Any, name: str, registered_model_name: str | None = None, **more: Any) -> Any:
    """Logs a fitted estimator in the run that is active, and registers it if a name is given.

    ``more`` are those of `save_model`. Returns MLflow's `ModelInfo`.
    """
    return _mlflow().models.Model.log(
        artifact_path=None,
        name=name,
        flavor=_Flavor(),
        registered_model_name=registered_model_name,
        estimator=estimator,
        **more,
    )


def load_model(model_uri: str | os.PathLike[str]) -> Any:
    """The estimator, which can go on learning, from a folder or an address of MLflow (``runs:/…``, ``models:/…``)."""
    mlflow, folder = _mlflow(), Path(model_uri)
    if not folder.exists():
        folder = Path(mlflow.artifacts.download_artifacts(artifact_uri=str(model_uri)))
    known = mlflow.models.Model.load(str(folder)).flavors
    if FLAVOR not in known:
        raise InvalidInputError(f"{model_uri}: a model of the flavour {FLAVOR} is needed, got {listed(known)}")
    return load(folder / known[FLAVOR]["data"])


class _Flavor:
    """What MLflow calls a flavour: something with ``save_model``."""

    @staticmethod
    def save_model(path: str, mlflow_model: Any, estimator: Any, **more: Any) -> None:
        save_model(estimator, path, mlflow_model=mlflow_model, **more)


class Scorer:
    """The python function of a model: rows as MLflow hands them over, in; labels, probabilities or scores out."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> Any:
        """Labels of rows."""
        return self.estimator.predict(self._rows(data))

    def predict_proba(self, data: Any, params: dict[str, Any] | None = None) -> Any:
        """Probabilities of rows, for each class."""
        return self.estimator.predict_proba(self._rows(data))

    def decision_function(self, data: Any, params: dict[str, Any] | None = None) -> Any:
        """Scores of rows."""
        return self.estimator.decision_function(self._rows(data))

    def _rows(self, data: Any) -> Any:
        """A frame of indices and values is sparse rows; what else there is, is for the estimator."""
        names = [str(name) for name in getattr(data, "columns", ())] or (list(data) if isinstance(data, dict) else [])
        if sorted(names) != sorted(SPARSE):
            return data
        return sparse_rows(data["indices"], data["values"], self.estimator.n_features_in_)


def sparse_rows(indices: Any, values: Any, width: int) -> Any:
    """A CSR matrix of rows given by their columns, the first being 0, and values.

    >>> sparse_rows([[0, 3], []], [[1.0, 0.5], []], 4).toarray()
    array([[1. , 0. , 0. , 0.5],
           [0. , 0. , 0. , 0. ]])
    """
    from scipy.sparse import csr_array

    sizes = [len(row) for row in indices]
    if sizes != [len(row) for row in values]:
        raise InvalidInputError("rows of indices and values: each index needs a value, got rows of different lengths")
    columns = np.array([j for row in indices for j in row], dtype=np.int64)
    if len(columns) and not 0 <= columns.min() <= columns.max() < width:
        raise InvalidInputError(f"indices must be from 0 to {width - 1}, got {columns.min()} to {columns.max()}")
    cells = np.array([x for row in values for x in row], dtype=np.float64)
    found = csr_array((cells, columns, np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])), (len(sizes), width))
    found.sum_duplicates()
    return found


def _load_pyfunc(path: str) -> Scorer:
    """MLflow's door: it looks for this name."""
    return Scorer(load(path))
