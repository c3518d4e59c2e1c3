"""What a number in a recipe may be, by the name of its option: one word, one meaning, one range everywhere.

`-1` seconds or a million samples is a slip of the keyboard; found before the run it costs nothing. A plug-in's own
default is always allowed, and so are options whose names stand here nowhere.
"""

import math

import msgspec

from tasks.plugin import Plugin

_SECONDS = (0.001, 7 * 86_400.0)
_SHARE = (0.0, 1.0)
_SOME = (1, 1_000_000_000)
_NONE_OR_SOME = (0, 1_000_000_000)

# Option → least and greatest value.
BOUNDS: dict[str, tuple[float, float]] = {
    "abstain_reward": _SHARE,
    "alike": _SHARE,
    "attempts": (1, 1_000),
    "at_least": _NONE_OR_SOME,
    "canaries": (0, 1_000),
    "closing_tokens": _NONE_OR_SOME,
    "completion_price": (0, 1e6),
    "count": _SOME,
    "cpu_s": _SECONDS,
    "generations": (1, 10_000),
    "headroom": (0, 1_000),
    "k": _SOME,
    "keep": _NONE_OR_SOME,
    "kv_cache_gb": (1, 10_000),
    "learning_rate": _SHARE,
    "least": (-1e12, 1e12),
    "limit": _NONE_OR_SOME,
    "lora_rank": (0, 10_000),
    "max_length": _SOME,
    "max_model_len": _SOME,
    "max_similarity": _SHARE,
    "max_steps": _SOME,
    "max_tokens": _SOME,
    "max_turns": (1, 10_000),
    "memory_mb": (16, 1 << 24),
    "min_reward": _SHARE,
    "min_meaning": _SHARE,
    "min_samples": _SOME,
    "min_steps": _NONE_OR_SOME,
    "most_calls": _SOME,
    "most_rows": _SOME,
    "output_chars": _SOME,
    "parallel": (1, 65_536),
    "parse_reward": _SHARE,
    "patience_s": (0, 30 * 86_400.0),
    "per_task": _SOME,
    "poll_s": _SECONDS,
    "prompt_price": (0, 1e6),
    "prompts": (1, 1_000_000),
    "related": _SHARE,
    "repeats": (1, 100),
    "rewrites": (1, 1_000),
    "row_group_mb": (1, 65_536),
    "rows_per_step": (1, 1_000_000),
    "rpm": _SOME,
    "samples": (1, 100_000),
    "semantic": (-1.0, 1.0),
    "shard_mb": (1, 1 << 20),
    "share": _SHARE,
    "step_chars": _SOME,
    "temperature": (0.0, 10.0),
    "threshold": _SHARE,
    "threads": (1, 4_096),
    "timeout_s": _SECONDS,
    "top_p": (0.0, 1.0),
    "tpm": _SOME,
    "valid_reward": _SHARE,
    "votes": (1, 1_001),
    "wall_s": _SECONDS,
}


def out_of_bounds(plugin: Plugin) -> str | None:
    """What is wrong with a number among the options, in words; None when nothing is."""
    for field in msgspec.structs.fields(plugin):
        value = getattr(plugin, field.name)
        named = value.items() if isinstance(value, dict) else [("", value)]
        for key, number in named:
            if isinstance(number, bool) or not isinstance(number, int | float) or number == field.default:
                continue
            option = f"{field.encode_name}.{key}" if key else field.encode_name
            if not math.isfinite(number):
                return f"{option} = {number} is not a number"
            low, high = BOUNDS.get(field.encode_name, (-math.inf, math.inf))
            if not low <= number <= high:
                return f"{option} = {number} lies outside {low:g} to {high:g}"
    return None
