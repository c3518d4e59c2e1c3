"""Train: shards become a checkpoint and the figures of how it was trained."""
