"""One encoding of tool calls per file, shared by every importer."""
