"""PyTorch models in, operator graphs out. The only place that imports torch."""

from torch_slowpoke.frontend.entry import operator_graph
from torch_slowpoke.frontend.models import model_names

__all__ = ["model_names", "operator_graph"]
