"""MLflow: save, log, register, load and serve models of thinstream.

    pip install 'mlflow>=2.20'

A saved model is a folder in MLflow's format with one model file (safetensors, never pickled). It has two flavors. From
``thinstream``, `load_model` returns the fitted estimator, which can continue learning. With ``python_function``,
`mlflow models serve` and `mlflow.pyfunc.load_model` predict.
"""

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse

import thinstream
from thinstream.errors import InvalidInputError, MissingPackageError, install, listed
from thinstream.estimators import load, save

__all__ = ["FLAVOR", "load_model", "log_model", "save_model"]

#: The name of the flavor in MLflow.
FLAVOR = "thinstream"
#: The methods that a served model can call.
ANSWERS = ("predict", "predict_proba", "decision_function")
#: Columns of a frame with the indices and values of sparse rows.
SPARSE = ("indices", "values")

_FILE, _REQUIREMENTS, _PYTHON = "model.ts", "requirements.txt", "python_env.yaml"
_ENVIRONMENT = "python: {python}\nbuild_dependencies:\n- pip\ndependencies:\n- -r {requirements}\n"


def _mlflow() -> Any:
    """Import and return the package with the modules that are used here."""
    try:
        import mlflow.artifacts
        import mlflow.models
        import mlflow.models.utils
        import mlflow.pyfunc
    except ImportError:
        raise MissingPackageError(
            f"thinstream.mlflow needs the package mlflow, which is not installed: {install('mlflow')}"
        ) from None
    return mlflow


def save_model(
    estimator: Any,
    path: str | os.PathLike[str],
    *,
    answer: str = "predict",
    signature: Any = None,
    input_example: Any = None,
    metadata: dict[str, Any] | None = None,
    pip_requirements: Sequence[str] | None = None,
    mlflow_model: Any = None,
) -> None:
    """Save a fitted estimator as a folder that MLflow can load and serve.

    Parameters
    ----------
    estimator : fitted estimator
        Any estimator of this package.
    path : path
        The folder, which must be new or empty.
    answer : {"predict", "predict_proba", "decision_function"}
        The method that the ``python_function`` flavor calls.
    signature : mlflow.models.ModelSignature or None
        Inputs and outputs, which MLflow checks before it predicts. None: inferred from ``input_example``, if there is
        one.
    input_example : rows or None
        A few rows like those to predict, of the same type and dtype: a frame, an array, or a sparse matrix
        (``scipy.sparse.csr_matrix``). They are saved with the model.
    metadata : dict or None
        Any metadata to save with the model.
    pip_requirements : list of str or None
        The packages of an environment that serves the model. None: the installed versions of thinstream and mlflow.
    mlflow_model : mlflow.models.Model or None
        The MLflow model to which the flavors are added; `log_model` passes it.

    Examples
    --------
    >>> import tempfile
    >>> import thinstream as ts
    >>> model = ts.FSOL().fit([[0.0, 1.0], [1.0, 0.0]], [1, 0])
    >>> save_model(model, tempfile.mkdtemp())  # doctest: +SKIP

    """
    if answer not in ANSWERS:
        raise InvalidInputError(f"answer must be {listed(ANSWERS)}, got {answer!r}")
    getattr(estimator, answer)  # raises now, not when the model is served, if its scores are not log-odds
    mlflow, folder = _mlflow(), Path(path)
    described = mlflow.models.Model() if mlflow_model is None else mlflow_model
    if folder.exists() and any(folder.iterdir()):
        raise InvalidInputError(f"{folder} is not empty. Give a new or empty folder")
    folder.mkdir(parents=True, exist_ok=True)
    save(estimator, folder / _FILE)
    requirements = pip_requirements or [f"thinstream=={thinstream.__version__}", f"mlflow=={mlflow.__version__}"]
    (folder / _REQUIREMENTS).write_text("".join(f"{requirement}\n" for requirement in requirements))
    environment = _ENVIRONMENT.format(python=platform.python_version(), requirements=_REQUIREMENTS)
    (folder / _PYTHON).write_text(environment)
    if input_example is not None:
        if issparse(input_example):  # MLflow supports SciPy's sparse matrices, but not its sparse arrays
            input_example = csr_matrix(input_example)
        saved = mlflow.models.utils._save_example(described, input_example, str(folder))  # as MLflow's own flavors do
        if signature is None:
            rows = saved.inference_data
            signature = mlflow.models.infer_signature(rows, getattr(Scorer(estimator), answer)(rows))
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
    """Log a fitted estimator in the active run, and register it if a name is given.

    ``more`` is passed on to `save_model`. Returns MLflow's `ModelInfo`.
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
    """Load the estimator from a folder or an MLflow URI (``runs:/…``, ``models:/…``). It can continue learning."""
    mlflow, folder = _mlflow(), Path(model_uri)
    if not folder.exists():
        folder = Path(mlflow.artifacts.download_artifacts(artifact_uri=str(model_uri)))
    flavors = mlflow.models.Model.load(str(folder)).flavors
    if FLAVOR not in flavors:
        raise InvalidInputError(f"{model_uri} must have the flavor {FLAVOR!r}, got {listed(flavors)}")
    return load(folder / flavors[FLAVOR]["data"])


class _Flavor:
    """A flavor in MLflow's sense: an object with ``save_model``."""

    @staticmethod
    def save_model(path: str, mlflow_model: Any, estimator: Any, **more: Any) -> None:
        save_model(estimator, path, mlflow_model=mlflow_model, **more)


class Scorer:
    """The ``python_function`` of a model. MLflow passes it rows, and it returns labels, probabilities or scores."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> Any:
        """Return the labels of rows."""
        return self.estimator.predict(self._rows(data))

    def predict_proba(self, data: Any, params: dict[str, Any] | None = None) -> Any:
        """Return the probabilities of rows, for each class."""
        return self.estimator.predict_proba(self._rows(data))

    def decision_function(self, data: Any, params: dict[str, Any] | None = None) -> Any:
        """Return the scores of rows."""
        return self.estimator.decision_function(self._rows(data))

    def _rows(self, data: Any) -> Any:
        """Convert a frame of indices and values to sparse rows. Other data are passed to the estimator unchanged."""
        names = [str(name) for name in getattr(data, "columns", ())] or (list(data) if isinstance(data, dict) else [])
        if sorted(names) != sorted(SPARSE):
            return data
        return sparse_rows(data["indices"], data["values"], self.estimator.n_features_in_)


def sparse_rows(indices: Any, values: Any, width: int) -> Any:
    """Return a CSR matrix of rows, given by their columns (from 0) and values.

    >>> sparse_rows([[0, 3], []], [[1.0, 0.5], []], 4).toarray()
    array([[1. , 0. , 0. , 0.5],
           [0. , 0. , 0. , 0. ]])
    """
    from scipy.sparse import csr_array

    sizes = [len(row) for row in indices]
    if sizes != [len(row) for row in values]:
        raise InvalidInputError(
            "indices and values must have rows of the same lengths, because each index needs a value"
        )
    columns = np.array([j for row in indices for j in row], dtype=np.int64)
    if len(columns) and not 0 <= columns.min() <= columns.max() < width:
        raise InvalidInputError(f"indices must be from 0 to {width - 1}, got {columns.min()} to {columns.max()}")
    cells = np.array([x for row in values for x in row], dtype=np.float64)
    matrix = csr_array((cells, columns, np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])), (len(sizes), width))
    matrix.sum_duplicates()
    return matrix


def _load_pyfunc(path: str) -> Scorer:
    """Load a model for MLflow, which calls this function by its name."""
    return Scorer(load(path))
