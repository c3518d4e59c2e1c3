"""Judge recorded verdicts again and say whether they still hold."""

from typing import Annotated

import typer

from gristmill.options import JsonOption, LakeOption


def add_to(app: typer.Typer) -> None:
    """Registers verify."""
    app.command()(verify)


def verify(
    again: Annotated[
        bool, typer.Option("--again", help="Judge recorded verdicts again, past all that is remembered.")
    ] = False,
    sample: Annotated[str, typer.Option("--sample", help="How many verdicts, or a share such as 0.1 or 10%.")] = "200",
    seed: Annotated[int, typer.Option("--seed", help="Another seed takes another sample.")] = 0,
    lake: LakeOption = "lake",
    as_json: JsonOption = False,
) -> None:
    """Judge a sample of recorded verdicts again. Exit code 1 when one comes out otherwise."""
    import secrets
    from datetime import UTC, datetime

    from gristmill.commands.look import open_lake
    from gristmill.views.output import out, print_json, table
    from schemas.errors import UserError
    from tasks.verify.again import again as judge_again
    from tasks.verify.again import lines
    from warehouse.lake import Lake

    if not again:
        raise UserError(
            "`verify` without --again has nothing to do.",
            "Verdicts are made by a recipe's [[verify]] entries.",
            "gristmill run RECIPE, or: gristmill verify --again",
        )
    most = size(sample)
    open_lake(lake).close()
    with Lake.open(lake) as opened:
        checks = judge_again(opened, most, seed, f"again-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}")
    counted = lines(checks)
    differing = [check for check in checks if check.how == "disagree"]
    if as_json:
        print_json({"n": len(checks), "lines": counted, "disagreements": differing})
    elif not checks:
        out.print("No verdicts in this lake yet.")
    else:
        table(
            f"{len(checks)} verdicts, judged again",
            ["verifier", "kind", "n", "agree", "disagree", "not compared"],
            [
                [c.verifier, c.kind, c.n, c.agree, c.disagree, ", ".join(f"{k} {v}" for k, v in c.not_compared.items())]
                for c in counted
            ],
            right=["n", "agree", "disagree"],
        )
        for check in differing:
            out.print(
                f"{check.trajectory_id}  {check.verifier}: {check.kind} ({check.reason}) was recorded, "
                f"{check.kind_again} ({check.reason_again}) now",
                markup=False,
            )
    if differing:
        raise typer.Exit(1)


def size(text: str) -> float | None:
    """A count (1 or more) or a share (below 1) from what was written: 200, 0.1, 10%; None for 100%, all of them."""
    from schemas.errors import UserError

    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    whole = "." not in text and "%" not in text
    if not (0 < value < 1 or (whole and value >= 1) or (not whole and value == 1)):
        raise UserError(f"--sample '{text}' is no size.", "It is a number of verdicts, or a share such as 0.1 or 10%.")
    return None if not whole and value == 1 else value
