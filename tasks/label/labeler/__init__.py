"""The labelers, one file each."""
