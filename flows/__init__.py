"""Thin Prefect flows."""
