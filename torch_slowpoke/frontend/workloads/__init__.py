"""Workloads of the papers that torchvision does not have, as ordinary modules."""
