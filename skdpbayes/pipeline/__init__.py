"""Pipelines whose private steps share one budget."""

from ._formula import FormulaPipeline
from ._make import make_private_pipeline
from ._pipeline import PrivatePipeline
from ._plan import PipelinePlan

__all__ = ["FormulaPipeline", "PipelinePlan", "PrivatePipeline", "make_private_pipeline"]
