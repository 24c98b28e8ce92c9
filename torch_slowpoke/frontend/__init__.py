"""PyTorch models in, operator graphs out. The only place that imports torch."""
