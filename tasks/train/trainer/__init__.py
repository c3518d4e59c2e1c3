"""Trainers, one method a file."""
