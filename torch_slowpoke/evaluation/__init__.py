"""Fault campaigns: data sets, metrics, tables."""
