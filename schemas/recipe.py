"""The recipe: what the user writes (TOML), before its plug-ins are looked up.

`name` and `seed`, then one ordered array per stage; every entry is `use = "ID"` plus that plug-in's fields.
"""

from typing import Any

from schemas.trajectory import Base

Entry = dict[str, Any]


class Budget(Base, frozen=True, kw_only=True):
    """Hard limits of one run over all model calls: US dollars, generated tokens, calls; None is no limit."""

    usd: float | None = None
    tokens: int | None = None
    calls: int | None = None

    def __post_init__(self) -> None:
        for name in ("usd", "tokens", "calls"):
            limit = getattr(self, name)
            if limit is not None and not 0 <= limit < float("inf"):
                raise ValueError(f"budget.{name} = {limit} is no limit; it is a number from 0 on")


class Recipe(Base, frozen=True, kw_only=True):
    """A whole recipe. `teacher` is the default for entries that name none; `out` the folder for shards and checkpoints.

    max_failed: the share (0 to 1) of an entry's planned items that may end as dead letters before the exit code is 3.
    max_source_loss: the share (0 to 1) of a source's trajectories that one selector may drop before an alarm.
    """

    name: str
    seed: int = 0
    description: str = ""
    out: str = ""
    max_failed: float = 0.05
    max_source_loss: float | None = None
    budget: Budget = Budget()
    teacher: Entry | None = None
    synthesize: tuple[Entry, ...] = ()
    rollout: tuple[Entry, ...] = ()
    normalize: tuple[Entry, ...] = ()
    verify: tuple[Entry, ...] = ()
    refine: tuple[Entry, ...] = ()
    label: tuple[Entry, ...] = ()
    curate: tuple[Entry, ...] = ()
    pair: tuple[Entry, ...] = ()
    emit: tuple[Entry, ...] = ()
    train: tuple[Entry, ...] = ()
