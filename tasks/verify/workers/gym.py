"""Scores an answer with the reasoning-gym package's own scorer; runs in a helper process, see worker.py."""

import ast
import re
from importlib import import_module
from typing import Any

# Tried with reasoning-gym 0.1.25. Their scorers refuse their own gold answer, reward a missing or a wrong one,
# or are not deterministic.
MISBEHAVING = frozenset(
    (
        "boxnet",
        "composite",
        "countdown",
        "fraction_simplification",
        "game_of_life_halting",
        "graph_color",
        "prime_factorization",
        "propositional_logic",
        "puzzle24",
        "rubiks_cube",
        "rush_hour",
    )
)
# Their scorers call eval() on the answer; here it is the one that takes literals only.
_LITERAL = ("algorithmic.binary_matrix", "algorithmic.spiral_matrix", "algorithmic.string_insertion", "games.n_queens")
# Their scorers hand the answer to sympy's parser, which evaluates it; only what is surely a formula gets there.
_FORMULAS = frozenset(("intermediate_integration", "polynomial_multiplication", "simple_integration"))
EVALUATING = _FORMULAS | {name.rpartition(".")[2] for name in _LITERAL}
_FUNCTIONS = r"exp|log|ln|sqrt|sin|cos|tan|cot|sec|csc|asin|acos|atan|sinh|cosh|tanh|Abs|pi|E"
_FORMULA = re.compile(rf"(?:\s|[-+*/^(),]|\d+(?:\.\d+)?|(?:{_FUNCTIONS})(?![A-Za-z_])|[A-Za-z](?![A-Za-z_]))*")


def score(request: dict[str, Any]) -> float | None:
    """The scorer's result for `answer`; request: dataset, config, seed, index, entry, answer.

    The entry is generated again from its seed, since JSON has no tuples and some scorers look for them; the stored
    one is used where that does not give the same question.
    """
    import reasoning_gym

    if request["dataset"] in _FORMULAS and not _FORMULA.fullmatch(request["answer"]):
        return 0.0
    for name in _LITERAL:
        # A global of that name comes before the builtin.
        vars(import_module(f"reasoning_gym.{name}"))["eval"] = ast.literal_eval
    index, entry = int(request["index"]), request["entry"]
    source = reasoning_gym.create_dataset(
        request["dataset"], seed=int(request["seed"]), size=index + 1, **request["config"]
    )
    again = source[index]
    if again.get("question") == entry.get("question") and again.get("answer") == entry.get("answer"):
        entry = again
    value = source.score_answer(answer=request["answer"], entry=entry)
    return None if value is None else float(value)
