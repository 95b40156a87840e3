"""libsvm (svmlight) text."""

from dataclasses import replace
from typing import Any

from thinstream.errors import InvalidParameterError
from thinstream.streams.formats import Format, text_stream
from thinstream.streams.options import Options


def open_libsvm(known: Format, files: list[str], options: Options) -> Any:
    """The rows of libsvm files."""
    from thinstream.learners.learner import LARGEST
    from thinstream.streams.sources import STDIN
    from thinstream.streams.text.libsvm import Libsvm, begins_at_zero

    if options.zero_based == "auto":
        if STDIN in files:
            raise InvalidParameterError(
                "zero_based='auto' looks through the files first; standard input cannot be read twice"
            )
        options = replace(options, zero_based=begins_at_zero(files))
    classes = options.classes
    if classes is not None and not all(isinstance(label, int | float) for label in classes):
        raise InvalidParameterError(f"labels of libsvm files are numbers, classes must be, too, got {classes!r}")
    if options.grow_classes:
        classes = None  # any number
    parser = Libsvm(bool(options.zero_based), classes, options.dtype, LARGEST[options.dtype], options.labels)
    return text_stream(known, files, parser, options)


FORMATS = (Format("libsvm", (".svm", ".libsvm"), ("zero_based", "classes", "grow_classes"), open_libsvm, lines=True),)
