"""Tasks over a repository: patches, builds, canaries, and the driver of its tests inside the jail."""
