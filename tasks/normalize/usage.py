"""Token counts, cost and time of one model call, under the names that providers and logs use."""

from collections.abc import Mapping
from typing import Any

from schemas.errors import RecordError
from schemas.trajectory import Usage

_NAMES: dict[str, tuple[str, ...]] = {
    "prompt_tokens": ("prompt_tokens", "input_tokens", "tokens_sent"),
    "completion_tokens": ("completion_tokens", "output_tokens", "tokens_received"),
    "cached_tokens": ("cached_tokens", "cache_read_input_tokens", "input_tokens_cache_read", "cached_input_tokens"),
    "reasoning_tokens": ("reasoning_tokens", "reasoning_output_tokens"),
    "cost_usd": ("cost_usd", "cost", "total_cost", "instance_cost"),
    "latency_s": ("latency_s", "latency", "time", "total_time"),
}
# Sums of the others, and what only says how the call was served.
_DERIVED = frozenset({"total_tokens", "service_tier", "server_tool_use", "api_calls"})
_DETAILS = (
    "prompt_tokens_details",
    "completion_tokens_details",
    "input_tokens_details",
    "output_tokens_details",
)


def usage_of(given: Any) -> Usage | None:
    """The usage in a provider's or a log's object, or None when it says nothing of the kind."""
    if not isinstance(given, Mapping):
        return None
    flat: dict[str, Any] = {}
    for part in (given, *(given.get(name) for name in _DETAILS)):
        if isinstance(part, Mapping):
            flat.update({key: value for key, value in part.items() if number(value) is not None and key not in flat})
    found: dict[str, Any] = {}
    for field, names in _NAMES.items():
        value = next((number(flat[name]) for name in names if name in flat), None)
        if value is not None:
            found[field] = float(value) if field in ("cost_usd", "latency_s") else whole(value)
    return Usage(**found) if found else None


def unknown_usage(given: Any) -> list[str]:
    """The names in a usage object that `usage_of` does not read and that hold something."""
    if not isinstance(given, Mapping):
        return []
    read = {name for names in _NAMES.values() for name in names} | _DERIVED
    found = [name for name, value in given.items() if name not in read and name not in _DETAILS and value]
    for part in _DETAILS:
        inner = given.get(part)
        if isinstance(inner, Mapping):
            found.extend(f"{part}.{name}" for name, value in inner.items() if name not in read and value)
    return found


def usage_fields(usage: Usage) -> dict[str, Any]:
    """The usage as the fields that it names, those without a value left out."""
    values = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cached_tokens": usage.cached_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "cost_usd": usage.cost_usd,
        "latency_s": usage.latency_s,
    }
    return {name: value for name, value in values.items() if value is not None}


def whole(value: int | float) -> int:
    """`value` as a whole number that a column of 64 bits holds; RecordError beyond."""
    if not -(2**63) <= value < 2**63:
        raise RecordError("number_out_of_range", f"a count of {value}")
    return int(value)


def number(value: Any) -> int | float | None:
    """`value` when it is a number, and no flag."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
