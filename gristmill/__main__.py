"""Lets `python -m gristmill` do what `gristmill` does."""

from gristmill.cli import main

main()
