"""Pipelines whose private steps share one budget."""

from ._formula import FormulaPipeline
from ._pipeline import PrivatePipeline, make_private_pipeline
from ._plan import PipelinePlan

__all__ = ["FormulaPipeline", "PipelinePlan", "PrivatePipeline", "make_private_pipeline"]


def __dir__():
    return __all__
