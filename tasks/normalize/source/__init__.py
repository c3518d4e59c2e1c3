"""Files as records: where each record starts and ends, and its raw bytes."""
