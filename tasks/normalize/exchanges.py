"""Logged model calls to conversations: each call repeats what was said before, so most are the start of another.

A call whose messages open another call's is part of that conversation; what is left are the conversations of the
log, in the order of their last calls. Usage, model and time of every call go to the turn that it produced.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from schemas.ids import digest
from tasks.normalize.decoder.found import canonical

_FACTS = ("usage", "model", "timestamp")


class Exchange(NamedTuple):
    """One model call: the messages given, those it answered with (chat shape), and what is known about it."""

    given: list[dict[str, Any]]
    answer: list[dict[str, Any]]
    about: dict[str, Any]


class Conversation(NamedTuple):
    """The longest of the calls that belong together, its messages with the facts of every call; `calls` in order."""

    messages: list[dict[str, Any]]
    last: Exchange
    calls: list[Exchange]

    def about(self, name: str) -> Any:
        """What the last call that says anything about `name` says."""
        return next((v for one in reversed(self.calls) if (v := one.about.get(name)) is not None), None)


def conversations(exchanges: Sequence[Exchange]) -> list[Conversation]:
    """The conversations that the calls (in order of time) make up."""
    chains = [_chain([*one.given, *one.answer]) for one in exchanges]
    # What an earlier call ended with: a turn of the agent, within what a later call was given.
    openings = {
        chain[index]
        for chain, one in zip(chains, exchanges, strict=True)
        for index, message in enumerate(one.given)
        if message.get("role") == "assistant" and index + 1 < len(chain)
    }
    calls = {
        chain[len(one.given)]: one for chain, one in zip(chains, exchanges, strict=True) if len(chain) > len(one.given)
    }
    found: dict[str, Conversation] = {}
    for chain, one in zip(chains, exchanges, strict=True):
        if not chain or chain[-1] in openings:
            continue
        messages = [dict(message) for message in [*one.given, *one.answer]]
        own: list[Exchange] = []
        for link, message in zip(chain, messages, strict=True):
            call = calls.get(link)
            if call is not None and message.get("role") == "assistant":
                own.append(call)
                message.update({name: call.about[name] for name in _FACTS if call.about.get(name) is not None})
        found[chain[-1]] = Conversation(messages, one, own or [one])
    return list(found.values())


def _chain(messages: list[dict[str, Any]]) -> list[str]:
    """For every message the hash of it and all before it."""
    chain: list[str] = []
    link = ""
    for message in messages:
        link = digest(link + _key(message))
        chain.append(link)
    return chain


def _key(message: dict[str, Any]) -> str:
    """What makes two messages the same: role, content, calls (ids apart); a missing text is as good as none."""
    calls = message.get("tool_calls")
    named = [call.get("function") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else None
    return canonical([message.get("role"), message.get("content") or None, named or None])
