"""Validates data against a JSON Schema; runs in a helper process, see worker.py."""

from typing import Any


def faults(request: list[Any]) -> list[str]:
    """The first few faults of `[schema, value]`; references to other documents are not fetched."""
    from jsonschema.validators import validator_for  # type: ignore[import-untyped]
    from referencing import Registry

    schema, value = request
    kind = validator_for(schema)
    kind.check_schema(schema)
    validator = kind(schema, registry=Registry())
    found = []
    for error in validator.iter_errors(value):
        found.append(f"{error.json_path}: {error.message}"[:300])
        if len(found) == 5:
            break
    return found
