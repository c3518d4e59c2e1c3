"""Exporters, one format a file."""
