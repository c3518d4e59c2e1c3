"""Harnesses: how a teacher is led through a task, one strategy per file."""
