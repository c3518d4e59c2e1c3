"""One rollout under way: what was said so far, as messages for the model and as steps for the trajectory.

    episode.say("user", question)
    reply = await episode.turn(max_tokens=120)      # the only way an agent step comes to be: the model wrote it
    episode.observe(output)

Every call's exact tokens, raw text and request are kept as a token span of the step that it became.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from schemas.ids import canonical_json, content_id, seed_for, with_id
from schemas.rows import Request, TokenSpan
from schemas.task import Task
from schemas.trajectory import Policy, Step, ToolCall, Trajectory, text_part
from schemas.vocabulary import ActionSpace, ArgumentState, Source
from tasks.client.request import ModelReply, ModelRequest, ReplyCall
from tasks.client.teacher import Teacher
from tasks.operator import Item

_SOURCES = {"system": Source.SYSTEM, "user": Source.USER, "environment": Source.ENVIRONMENT}


class Finished(NamedTuple):
    """A whole rollout: the trajectory under its id, its spans, its accounts, and how it ended."""

    trajectory: Trajectory
    spans: list[TokenSpan]
    requests: list[Request]
    reason: str


class Episode:
    """See the module's docstring. `seed` is the recipe's; each call's own seed derives from ids alone."""

    def __init__(
        self,
        item: Item,
        task: Task,
        teacher: Teacher,
        sample: int,
        seed: int,
        complete: Callable[[Teacher, ModelRequest], Awaitable[ModelReply]],
    ) -> None:
        self.item, self.task, self.teacher, self.sample = item, task, teacher, sample
        self.messages: list[dict[str, Any]] = []
        self.steps: list[Step] = []
        self.replies: list[ModelReply] = []
        self.requests: list[Request] = []
        self._spans: list[tuple[int, ModelReply, ModelRequest]] = []
        self._seed, self._complete = seed, complete

    def say(self, role: str, text: str) -> None:
        """Adds a message that the model is given: role system or user."""
        self.messages.append({"role": role, "content": text})
        self.steps.append(Step(source=_SOURCES[role], content=text_part(text)))

    def observe(self, text: str) -> None:
        """Adds what the environment answered; chat models know no such role and see a user message."""
        self.messages.append({"role": "user", "content": text})
        self.steps.append(Step(source=Source.ENVIRONMENT, content=text_part(text)))

    async def turn(self, max_tokens: int | None = None, **options: Any) -> ModelReply:
        """Asks the model to go on; its reply becomes an agent step as it stands. Raises CallFailed."""
        number = len(self.replies)
        request = ModelRequest(
            messages=tuple(self.messages),
            item_id=self.item.id,
            max_tokens=max_tokens,
            seed=seed_for(self._seed, self.task.id, self.teacher.identity(), self.sample, number),
            sample_index=self.sample,
            tools_json=self.task.tools_json,
            logprobs=self.teacher.logprobs,
            token_ids=self.teacher.token_ids,
            **options,
        )
        request = self.teacher.settle(request)
        reply = await self._complete(self.teacher, request)
        self.replies.append(reply)
        self.requests.append(reply.account(self.item.id))
        self._spans.append((len(self.steps), reply, request))
        self._add(reply)
        return reply

    def finish(self, fingerprint: str, policy: Policy, action_space: ActionSpace, reason: str) -> Finished:
        """The trajectory and everything that belongs to it."""
        last = self.replies[-1] if self.replies else None
        trajectory = with_id(
            Trajectory(
                id="",
                steps=tuple(self.steps),
                task_id=self.task.id,
                parents=(self.task.id,),
                sample_index=self.sample,
                tool_sets=(self.task.tools_json,) if self.task.tools_json else (),
                policy=msgspec.structs.replace(policy, model=last.model, revision=last.revision) if last else policy,
                action_space=ActionSpace.FUNCTION if any(step.tool_calls for step in self.steps) else action_space,
                truncated=last is not None and last.finish_reason == "length",
                # Two policies that differ only in an option (a temperature) stay two, whatever they answered.
                source_id=self.item.id,
            ),
            fingerprint,
        )
        spans = [_span(trajectory.id, step, reply, request) for step, reply, request in self._spans]
        return Finished(trajectory, spans, self.requests, reason)

    def _add(self, reply: ModelReply) -> None:
        index = len(self.steps)
        calls = tuple(
            _tool_call(f"s{index}c{number}", call, reply.finish_reason) for number, call in enumerate(reply.tool_calls)
        )
        text = reply.text or reply.refusal or ""
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in calls
            ]
        self.messages.append(message)
        self.steps.append(
            Step(
                source=Source.AGENT,
                content=text_part(text),
                reasoning=reply.reasoning,
                tool_calls=calls,
                tools=0 if self.task.tools_json else None,
                model=reply.model,
                finish_reason=reply.finish_reason,
                usage=reply.usage(),
                extra_json=canonical_json({"refusal": True}) if reply.refusal is not None else None,
            )
        )


def _tool_call(own_id: str, call: ReplyCall, finish_reason: str | None) -> ToolCall:
    state, parsed = argument_state(call.arguments, cut=finish_reason == "length")
    return ToolCall(
        id=own_id,
        name=call.name,
        arguments=call.arguments,
        arguments_json=parsed,
        state=state,
        source_id=call.id,
        id_generated=call.id is None,
    )


def argument_state(text: str, *, cut: bool) -> tuple[ArgumentState, str | None]:
    """How a call's raw arguments relate to JSON, and their canonical text when they are an object.

    cut: the answer ran into its token limit, so that arguments which do not parse were truncated. An endpoint may
    say `tool_calls` of arguments that it cut (vllm#53269): an unterminated object is taken as truncated too.
    """
    try:
        value = json.loads(text or "{}")
        if isinstance(value, dict):
            return ArgumentState.PARSED, canonical_json(value)
    except json.JSONDecodeError as error:
        ended_early = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        if cut or ended_early:
            return ArgumentState.TRUNCATED, None
    except (ValueError, RecursionError):
        pass
    return ArgumentState.UNPARSED, None


def _span(trajectory_id: str, step: int, reply: ModelReply, request: ModelRequest) -> TokenSpan:
    return TokenSpan(
        id=content_id("span", trajectory_id, step),
        trajectory_id=trajectory_id,
        step=step,
        prompt_token_ids=reply.prompt_token_ids,
        completion_token_ids=reply.completion_token_ids,
        completion_logprobs=reply.logprobs,
        logprobs_mode=reply.logprobs_mode if reply.logprobs is not None else None,
        finish_reason=reply.finish_reason,
        raw_text=reply.raw_text if reply.raw_text is not None else reply.text,
        request_json=canonical_json(_request_data(request)),
        model=reply.model,
        revision=reply.revision,
        engine=reply.engine,
        tokenizer_sha256=reply.tokenizer_sha256,
        template_sha256=reply.template_sha256,
        parents=(trajectory_id,),
    )


def _request_data(request: ModelRequest) -> Mapping[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(request)
    del data["item_id"]
    return {key: value for key, value in data.items() if value not in (None, [], "", False)}
