"""Similarity of texts: packed buffers, MinHash sketches, verified matches, n-gram indexes, embeddings."""
