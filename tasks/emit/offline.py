"""What the training libraries read at import: no hub, no telemetry, no tracker, and threads that wait asleep."""

import os

_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "WANDB_DISABLED": "true",
    "TRL_EXPERIMENTAL_SILENCE": "1",
    # OpenMP threads that spin while they wait cost 2.5 times the CPU time (20 s against 8 s for one step of the
    # embedded model) as soon as anything else, such as a sandbox, wants a core.
    "OMP_WAIT_POLICY": "passive",
}


def offline() -> None:
    """Sets what those libraries read at import; call it before importing any of them. What the user set stays."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
