"""Hashes that say whether two parts of the pipeline speak of the same tokens: SHA-256, hex.

Whoever samples and whoever writes shards must agree on them, so both call these.
"""

import hashlib
import json


def tokenizer_sha256(definition: str) -> str:
    """The hash of a `tokenizers` definition (tokenizer.json, or a backend's `to_str()`).

    Truncation and padding are left out: they are settings of a call that a loaded tokenizer carries along, and do not
    change which id a text has.
    """
    parts = {key: value for key, value in json.loads(definition).items() if key not in ("truncation", "padding")}
    return hashlib.sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def template_sha256(template: str) -> str:
    """The hash of a chat template's text."""
    return hashlib.sha256(template.encode()).hexdigest()
