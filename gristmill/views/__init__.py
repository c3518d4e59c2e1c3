"""What a person sees of a run, a lake and its rows: tables, pages, progress."""
