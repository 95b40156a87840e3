"""The one place where pyarrow, an optional package, is imported."""

from typing import Any

from thinstream.errors import MissingPackageError


def pyarrow() -> Any:
    """The package, with its ipc, compute and parquet parts; imported when first needed."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as error:
        raise MissingPackageError("Arrow and Parquet files need pyarrow: pip install 'thinstream[arrow]'") from error
    return pyarrow
