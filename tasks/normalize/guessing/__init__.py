"""Which importer reads files that nobody has described, and with which options."""
