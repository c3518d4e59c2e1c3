"""The refiners, one file each."""
