"""Batches of plain chat records to Arrow without an object per turn: what `tasks.normalize.chat` reads, faster."""
