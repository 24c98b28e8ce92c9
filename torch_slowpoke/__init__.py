"""Find the slow core or link of a many-core accelerator that runs a PyTorch model."""

__version__ = "0.1.0"
