"""Keeps the training libraries off the network: no hub, no telemetry, no experiment tracker."""

import os

_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "WANDB_DISABLED": "true",
    "TRL_EXPERIMENTAL_SILENCE": "1",
}


def offline() -> None:
    """Sets what those libraries read at import; call it before importing any of them. What the user set stays."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
