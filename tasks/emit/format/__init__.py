"""Pure writers: one trajectory to one record of a foreign format, as plain JSON data."""
