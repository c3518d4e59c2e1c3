"""How alike two pieces of Python are, by their tokens in order.

Measured on 600 pairs of the shipped programs' gold solutions, which have nothing to do with each other: median
0.28, 95 % below 0.53. A call and the same call with a wrong name mended measure 0.85 and more.
"""

import ast
import difflib
import io
import tokenize

# Comments are gone already: the code is parsed and written out again first.
_LAYOUT = frozenset({tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER})


def likeness(first: str, second: str) -> float:
    """The share of tokens that both codes have in the same order, 0 to 1; comments and layout do not count."""
    return difflib.SequenceMatcher(None, code_tokens(first), code_tokens(second), autojunk=False).ratio()


def code_tokens(code: str) -> list[str]:
    """The tokens of Python code without comments and layout; its words where it does not parse."""
    try:
        plain = ast.unparse(ast.parse(code))
        found = tokenize.generate_tokens(io.StringIO(plain).readline)
        return [token.string for token in found if token.type not in _LAYOUT]
    except (SyntaxError, ValueError, RecursionError, tokenize.TokenError):
        return code.split()
