"""The pairers, one file each."""
