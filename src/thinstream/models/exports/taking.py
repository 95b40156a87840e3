"""The portrait of a model file."""

from thinstream.learners import Learner
from thinstream.models.exports.gallery import Gallery
from thinstream.models.exports.portrait import Portrait
from thinstream.models.model import Model


def taken_of(model: Model) -> Portrait | Gallery:
    """The portrait of a model of two classes, or those of more, with the names of its features."""
    known = model.names
    names = {} if known is None else dict(zip(known.indices.tolist(), known.texts, strict=True))
    if isinstance(model.learner, Learner):
        return Portrait.of(model.learner, (model.classes[0], model.classes[1]), names, model.feature_space)
    return Gallery.of(model.learner.models, model.classes, names, model.feature_space)
