"""Masks under the chat templates of the field, which TRL ships: what the policy said, found with and without marks."""

from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import trl

from schemas.errors import RecordError
from schemas.vocabulary import Source
from tasks.emit import jinja
from tasks.emit.messages import Chat, to_chat
from tasks.emit.tokenizer import ChatTokenizer, Encoded

TEMPLATES = Path(trl.__file__).parent / "chat_templates"
MARKED = sorted(path.stem.removesuffix("_training") for path in TEMPLATES.glob("*_training.jinja"))
# Vision templates that take lists of parts, and a diffusion model's, which has no turn to predict from the left.
OTHER = {"idefics3", "llava_next", "smolvlm", "diffusion_gemma"}


@pytest.fixture(scope="module")
def hf(given: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> object:
    folder = tmp_path_factory.mktemp("templates")
    given.train_tokenizer(folder, "qwen2_5.jinja")
    tokenizer = ChatTokenizer.load(folder).hf
    tokenizer.add_special_tokens({"bos_token": "<bos>"})
    tokenizer.add_tokens(["<end_of_turn>", "<|eot_id|>", "<|end|>", "<|return|>", "<|call|>"], special_tokens=True)
    return tokenizer


def chats(given: SimpleNamespace) -> list[Chat]:
    plain = given.trajectory(
        given.say(Source.USER, "first question"),
        given.say(Source.AGENT, "first answer ü"),
        given.say(Source.USER, "second question"),
        given.say(Source.AGENT, "second answer"),
    )
    called = given.trajectory(
        given.say(Source.USER, "add"),
        given.call_step(1, "adder", '{"number":7}', "tool said eight"),
        given.say(Source.AGENT, "final answer"),
        tools=[given.tool_set("adder", number="integer")],
    )
    return [to_chat(plain), to_chat(called)]


def said(tokenizer: ChatTokenizer, encoded: Encoded) -> list[str]:
    decode = tokenizer.backend.decode
    return [decode(encoded.ids[s.start : s.end].tolist(), skip_special_tokens=False) for s in encoded.spans]


@pytest.mark.parametrize("name", [name for name in MARKED if name not in OTHER])
def test_marked_templates(name: str, hf: object, given: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    # Ours tells templates a fixed day; transformers tells them today.
    monkeypatch.setattr(jinja, "TODAY", datetime.now())
    tokenizer = ChatTokenizer(hf, (TEMPLATES / f"{name}_training.jinja").read_text(encoding="utf-8"))
    plain, called = chats(given)
    for chat in (plain, called):
        (encoded,) = tokenizer.encode([chat])
        if isinstance(encoded, RecordError):
            # A template without tools, or one that drops calls, is refused with a reason, never rendered in part.
            assert chat is called
            assert encoded.reason in {"template_loses_calls", "template_refuses"}
            continue
        whole = tokenizer.hf.apply_chat_template(
            chat.messages,
            tools=chat.tools,
            chat_template=tokenizer.template.text,
            tokenize=True,
            return_dict=True,
            return_assistant_tokens_mask=True,
        )
        assert encoded.ids.tolist() == whole["input_ids"]
        ours = np.zeros(len(encoded.ids), dtype=bool)
        for span in encoded.spans:
            ours[span.start : span.end] = True
        theirs = np.array(whole["assistant_masks"], dtype=bool)
        # Beyond the template's own marks we train at most the stop token of each turn.
        assert (ours & ~theirs).sum() <= len(encoded.spans)
        texts = said(tokenizer, encoded)
        everything = "".join(texts)
        for word in ("question", "tool said"):
            assert word not in everything
        if chat is plain:
            assert "first answer ü" in texts[0]
            assert "second answer" in texts[-1]
        else:
            assert "adder" in everything
            assert "final answer" in texts[-1]


@pytest.mark.parametrize("name", ["qwen2_5", "qwen3_instruct_2507", "llama3", "gemma", "phi3"])
def test_without_marks_the_same_turns_are_found(name: str, hf: object, given: SimpleNamespace) -> None:
    own = ChatTokenizer(hf, (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8"))
    twin = ChatTokenizer(hf, (TEMPLATES / f"{name}_training.jinja").read_text(encoding="utf-8"))
    assert (own.template.marked, twin.template.marked) == (False, True)
    chat = chats(given)[0]
    (left,), (right,) = own.encode([chat]), twin.encode([chat])
    assert isinstance(left, Encoded)
    assert isinstance(right, Encoded)
    assert left.ids.tolist() == right.ids.tolist()
    assert left.spans == right.spans


def test_a_template_that_rewrites_earlier_turns_is_refused_without_marks(hf: object, given: SimpleNamespace) -> None:
    # Qwen3 drops the thinking of earlier turns once a user speaks again.
    own = ChatTokenizer(hf, (TEMPLATES / "qwen3.jinja").read_text(encoding="utf-8"))
    messages = chats(given)[0].messages
    messages[1]["reasoning_content"] = "because"
    (found,) = own.encode([Chat(messages, None, [0, 1, 2, 3])])
    assert isinstance(found, RecordError)
    assert found.reason == "template_unstable"


def test_known_templates_are_swapped_for_their_marked_twin(given: SimpleNamespace, tmp_path: Path) -> None:
    given.train_tokenizer(tmp_path, "qwen3.jinja")
    found = ChatTokenizer.load(tmp_path)
    assert found.template.marked
    assert found.template.text == (TEMPLATES / "qwen3_training.jinja").read_text(encoding="utf-8")
    own = tmp_path / "own.jinja"
    own.write_text("{% for m in messages %}[{{ m.role }}]{{ m.content }}<|im_end|>{% endfor %}")
    assert not ChatTokenizer.load(tmp_path, str(own)).template.marked


def test_a_template_may_not_reach_behind_the_sandbox_nor_a_text_forge_marks() -> None:
    for text in (
        "{{ ''.__class__.__mro__ }}",
        "{% set n = namespace() %}{% set n.__x = 1 %}",
        "{{ messages.append(1) }}",
    ):
        with pytest.raises(RecordError, match="template_refuses"):
            jinja.render(text, {"messages": []})
    marked = "{% generation %}{{ x }}{% endgeneration %}{{ y }}"
    assert jinja.render(marked, {"x": "ab", "y": "c"}) == ("abc", [(0, 2)])
    assert jinja.render(marked, {"x": "\x00", "y": "\x02"}) == ("\x00\x02", [(0, 1)])
    for forged in (jinja.OPEN, jinja.CLOSE):
        with pytest.raises(RecordError, match="control_characters"):
            jinja.render(marked, {"x": forged, "y": forged})


def test_the_date_in_a_template_does_not_change_the_shard() -> None:
    assert jinja.render("{{ strftime_now('%d %b %Y') }}", {}) == ("01 Jan 2025", [])
