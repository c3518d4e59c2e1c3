"""What a plug-in of an outside package imports: the base classes, the row types, the errors.

Everything is loaded when it is first asked for, so that `from gristmill.plugin import Selector` stays light.
"""

import importlib
from typing import Any

_HOME = {
    "Plugin": "tasks.plugin",
    "Operator": "tasks.operator",
    "Item": "tasks.operator",
    "Outcome": "tasks.operator",
    "Pending": "tasks.operator",
    "Plan": "tasks.operator",
    "Result": "tasks.operator",
    "WorkingSet": "tasks.operator",
    "keep": "tasks.operator",
    "drop": "tasks.operator",
    "dead": "tasks.operator",
    "Context": "tasks.context",
    "Synthesizer": "tasks.synthesize.base",
    "Harness": "tasks.rollout.base",
    "Teacher": "tasks.client.teacher",
    "Importer": "tasks.normalize.base",
    "Reading": "tasks.normalize.reading",
    "Verifier": "tasks.verify.base",
    "Refiner": "tasks.refine.base",
    "Labeler": "tasks.label.base",
    "Selector": "tasks.curate.base",
    "Choice": "tasks.curate.base",
    "KEEP": "tasks.curate.base",
    "Pairer": "tasks.pair.base",
    "Exporter": "tasks.emit.base",
    "Trainer": "tasks.train.base",
    "Task": "schemas.task",
    "Trajectory": "schemas.trajectory",
    "Verdict": "schemas.rows",
    "StepLabel": "schemas.rows",
    "Pair": "schemas.rows",
    "UserError": "schemas.errors",
    "RecordError": "schemas.errors",
    "Unavailable": "schemas.errors",
    "MissingExtra": "schemas.errors",
}

__all__ = sorted(_HOME)  # noqa: PLE0605 - a sorted list of the names above


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"gristmill.plugin has no '{name}'; known: {', '.join(__all__)}")
    return getattr(importlib.import_module(_HOME[name]), name)
