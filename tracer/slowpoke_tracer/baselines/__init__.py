"""Detectors that the papers compare with, behind the same protocol."""
