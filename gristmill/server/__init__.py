"""The Prefect server that a command brings along, its database and its settings."""
