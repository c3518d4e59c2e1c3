"""Scores an answer with the reasoning-gym package's own scorer; runs in a helper process, see worker.py."""

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
# Their scorers evaluate the answer as Python code.
EVALUATING = frozenset(
    (
        "binary_matrix",
        "intermediate_integration",
        "n_queens",
        "polynomial_multiplication",
        "simple_integration",
        "spiral_matrix",
        "string_insertion",
    )
)


def score(request: dict[str, Any]) -> float | None:
    """The scorer's result for `answer`; request: dataset, config, seed, index, entry, answer.

    The entry is generated again from its seed, since JSON has no tuples and some scorers look for them; the stored
    one is used where that does not give the same question.
    """
    import reasoning_gym

    index, entry = int(request["index"]), request["entry"]
    source = reasoning_gym.create_dataset(
        request["dataset"], seed=int(request["seed"]), size=index + 1, **request["config"]
    )
    again = source[index]
    if again.get("question") == entry.get("question") and again.get("answer") == entry.get("answer"):
        entry = again
    value = source.score_answer(answer=request["answer"], entry=entry)
    return None if value is None else float(value)
