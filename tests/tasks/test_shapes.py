"""One table of the forms of secrets: each is found whole, by the log redactor too, and ordinary text of agents is not.

Every key here is made up, and put together from pieces, so that nothing that scans repositories takes it for one.
"""

import base64

import pytest

from tasks.client.redact import redact
from tasks.curate.risk import find
from tasks.shapes import assigned, masked, tokens

MIX = "aB3dEfGh1JkLmNoPqRsTuVwXyZ0123456789"
HEX = "0123456789abcdef"
AWS = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzKQZ"
TOKENS = {
    "openai": "sk-" + "abcdefghijklmnopqrstT3BlbkFJabcdefghij",
    "openai project": "sk-" + "proj-Ab1_" + "x1Y2z3W4" * 16,
    "anthropic": "sk-" + "ant-api03-" + "Ab1-cD2_" * 11 + "AA",
    "stripe": "sk_" + "live_4eC39HqLyjWDarjtT1zdp7dc",
    "groq": "gsk_" + "aB3d" * 13,
    "hugging face": "hf_" + MIX[:34],
    "github": "ghp_" + MIX,
    "github fine": "github_pat_" + "11ABCDEFG0abcdefghijkl_" + "aB3d" * 14,
    "gitlab": "glpat-" + MIX[:20],
    "slack": "xoxb-" + "123456789012-1234567890123-" + MIX[:24],
    "google": "AIza" + "SyA1234567890abcdefghijklmnopqrstuv",
    "aws id": "AKIA" + "IOSFODNN7EXAMPLQ",
    "jwt": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + MIX,
    "npm": "npm_" + MIX,
    "pypi": "pypi-" + "AgEIcHlwaS5vcmcC" + "aB3d" * 20,
    "digitalocean": "dop_v1_" + HEX * 4,
    "databricks": "dapi" + HEX * 2,
    "telegram": "123456789:" + "AAF-" + MIX[:31],
}
ASSIGNED = [
    ("aws_secret_access_key = {}", AWS),
    ('{{"SecretAccessKey":"{}"}}', AWS),
    ('{{\\"SecretAccessKey\\": \\"{}\\"}}', AWS),
    ("AWS_ACCESS_KEY_ID=" + TOKENS["aws id"] + "\n{}", AWS),
    ("Authorization: Bearer {}", "q7w8z9" * 4),
    ("-H 'authorization: basic {}'", base64.b64encode(b"someone:pass phrase").decode()),
    ("password = {}", "hunter2hunter2"),
    ("DB_PASSWORD={}", "Sup3rS3cr!t"),
    ("api_key: {}", HEX[::-1]),
    ("'apiKey': '{}',", "zz91-44kq-pp07"),
    ("AccountKey={}", MIX * 2 + "=="),
]
ORDINARY = """\
    password = getpass.getpass("Password2: ")
    api_key=os.environ["OPENAI_API_KEY_2"], token = tokenizer.next2()
    client.login(username="testuser1", password="testpass123"); password: str = "changeme1"
    api_key: Optional[str] = None; secret = config.secrets.key2; SECRET_KEY = '<your-key-1>'
    password=${DB_PASSWORD_1} passwd=%(passwd1)s api_key = {{ key_number_1 }} password: ********1
    Authorization: Bearer <token1>  Authorization: Bearer $TOKEN1 the bearer of Important-News-2024
    Basic HTML5/CSS3/ES2015 and basic Python3.11/3.12; basic authentication-2.0
    <div class="sk-toggleable__control" id="sk-estimator-id-12345"> sk-learn-contrib-version-1.2 disk-usage-2024-01-31
    task-based-learning-environment-setup-01 npm_config_registry_2 hf_transformers_cache_dir_2
    eyJ.short.1 AKIASHORT1 pypi-server-2.0 dapi/v1/get 12345678:AAshort 12:30:45 key: value_1 public_key = rsa.key2
    sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    commit 4b825dc642cb6eb9a060e54bf8d69288fbee4904 uuid 123e4567-e89b-12d3-a456-426614174000
    if "-----BEGIN PRIVATE KEY-----" in text and text.endswith("-----END"): pass
"""


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
def test_tokens_are_found_whole_and_masked_in_logs(token: str) -> None:
    for text in (token, f"key {token}, and", f'{{"k":"{token}"}}', f"K={token}\n"):
        assert masked(text, "#") == text.replace(token, "#")
        assert token not in redact(text)
        assert masked(f"x{text}", "#").startswith("x")


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
def test_risk_knows_every_form_that_the_log_redactor_masks(token: str) -> None:
    pytest.importorskip("detect_secrets")
    text = f"the key is {token} for now"
    assert token in {text[one.start : one.end] for one in find(text, ("secret",))}


@pytest.mark.parametrize(("around", "value"), ASSIGNED)
def test_what_stands_before_gives_a_value_away(around: str, value: str) -> None:
    text = around.format(value)
    assert value in {text[one.start : one.end] for one in assigned(text)}


def test_ordinary_text_holds_none() -> None:
    assert [ORDINARY[one.start : one.end] for one in (*tokens(ORDINARY), *assigned(ORDINARY))] == []


def test_a_key_that_is_cut_off_or_written_with_escapes() -> None:
    pytest.importorskip("detect_secrets")
    begin, end, body = "-----BEGIN RSA PRIVATE" + " KEY-----", "-----END RSA PRIVATE" + " KEY-----", "MIIEow" + MIX
    for key in (
        f"{begin}\n{body}\n{body}\n{end}",
        f"{begin}\\n{body}\\n{end}",
        f"{begin}\n{body}\n{body}",
        f"{begin}\r\n{body}\r\nAbC1",
    ):
        text = f'"{key}"'
        assert [text[one.start : one.end] for one in find(text, ("secret",))] == [key]
    # A first line alone is what programs that handle keys hold.
    assert find(f'if "{begin}" in text: use("{begin}")', ("secret",)) == []
    cut, whole = f"{begin}\n{body}", f"{begin}\n{body}\n{end}"
    text = f"{cut}\n then {whole}"
    assert [text[one.start : one.end] for one in find(text, ("secret",))] == [cut, whole]


NEAR = [
    "-----BEGIN PRIVATE" + " KEY-----",
    "-----BEGIN ",
    "-----BEGIN PRIVATE" + " KEY-----\n" + MIX + "\n",
    "sk-", "sk-a1-", "gsk_", "eyJ", "eyJ-", "eyJ.", "eyJabcdefgh.", "hf_", "ghp_a", "github_pat_", "xoxb-", "AIza",
    "AKIA", "AKIA" + "A" * 16 + " ", "12345678:AA", "1", "Bearer ", "bearer a", "basic", "password", "password=",
    "password = '", 'api_key: "a1', "secret=a", "http://a:", "x", "aB3d", "=", " ", "\n", "\\",
]  # fmt: skip


@pytest.mark.parametrize("piece", NEAR)
def test_long_text_of_what_almost_is_a_secret(piece: str) -> None:
    """A search that takes the square of the length would take minutes here."""
    pytest.importorskip("detect_secrets")
    text = piece * (250_000 // len(piece))
    assert isinstance(find(text, ("secret",)), list)
    assert len(redact(text)) > 0
