"""The kernels against plain Python: words, shingles, sketches, matches and n-gram hits."""

import itertools
import random
import string

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.curate.similarity.links import groups
from tasks.curate.similarity.minhash import near_duplicates
from tasks.curate.similarity.ngrams import NgramIndex
from tasks.curate.similarity.shingles import profile, shingle_sets_of
from tasks.curate.similarity.sketch import BINS, buckets, choose_bands, sketch
from tasks.curate.similarity.text import pack
from tasks.curate.similarity.words import without_signs, words

ANY = st.text(st.one_of(st.characters(), st.sampled_from("ab  é猫\n.,_1")), max_size=60)


@settings(max_examples=300, deadline=None)
@given(st.lists(ANY, max_size=5), st.integers(1, 6))
def test_kernels_cut_words_as_python_does(texts, window):
    cut = [[word.lower() if word.isascii() else word for word in words(text)] for text in texts]
    found = profile(pack(texts), window)
    assert found.n_words.tolist() == [len(one) for one in cut]
    sets = shingle_sets_of(texts, window)
    expected = [len({tuple(one[i : i + window]) for i in range(len(one) - window + 1)}) for one in cut]
    assert np.diff(sets.offsets).tolist() == expected
    for (i, a), (j, b) in itertools.combinations(enumerate(cut), 2):
        assert (found.exact[i] == found.exact[j]) == (a == b)


def test_templates_and_values():
    found = profile(pack(["pay 3 now", "pay 45 now", "pay 3 then", "PAY 3  now", "pay now"]), 2)
    assert found.template[0] == found.template[1] == found.template[3]
    assert len({int(found.template[i]) for i in (0, 2, 4)}) == 3
    assert found.values[0] == found.values[3] != found.values[1]


def test_nothing_is_no_text_at_all():
    assert near_duplicates([]).kept.tolist() == []
    assert near_duplicates(["", "yes", "no", "yes", "", "Yes"]).kept.tolist() == [-1, -1, -1, 1, 0, -1]


def _pair(rng, size, shared):
    base = ["".join(rng.choices(string.ascii_lowercase, k=6)) for _ in range(size)]
    other = list(base)
    for place in rng.sample(range(size), size - shared):
        other[place] = "".join(rng.choices(string.ascii_lowercase, k=6))
    return base, other


def _jaccard(a, b, window):
    one, two = ({tuple(t[i : i + window]) for i in range(len(t) - window + 1)} for t in (a, b))
    return len(one & two) / len(one | two)


def test_sketches_estimate_jaccard_without_bias_at_all_lengths():
    rng = random.Random(0)
    for size in (6, 12, 60, 600):
        errors = []
        for _ in range(150):
            a, b = _pair(rng, size, rng.randrange(size))
            _, rows, _ = sketch(pack([" ".join(a), " ".join(b)]), 2)
            errors.append(float((rows[0] == rows[1]).mean()) - _jaccard(a, b, 2))
        # 128 bins: a standard deviation of at most .044 a pair, so .0036 for the mean of 150.
        assert abs(np.mean(errors)) < 0.012
        assert np.std(errors) < 0.055


def test_bands_find_pairs_at_the_threshold():
    for threshold in (0.3, 0.5, 0.7, 0.8, 0.9, 1.0):
        found = choose_bands(threshold)
        assert found.bands * found.rows <= BINS
        assert 1 - (1 - threshold**found.rows) ** found.bands >= 0.995


def test_decisions_agree_with_all_pairs():
    rng = random.Random(3)
    vocabulary = ["".join(rng.choices(string.ascii_lowercase, k=5)) for _ in range(500)]
    texts = [rng.choices(vocabulary, k=80) for _ in range(60)]
    for _ in range(120):
        copy = list(rng.choice(texts))
        for place in rng.sample(range(80), rng.randrange(6)):
            copy[place] = rng.choice(vocabulary)
        texts.append(copy)
    found = near_duplicates([" ".join(text) for text in texts], 0.7)
    kept = []
    missed = 0
    for number, text in enumerate(texts):
        best = max((_jaccard(text, texts[other], 5) for other in kept), default=0.0)
        if found.kept[number] >= 0:
            other = int(found.kept[number])
            assert found.kept[other] == -1
            assert found.jaccard[number] == _jaccard(text, texts[other], 5) >= 0.7
        else:
            missed += best >= 0.7
            kept.append(number)
    assert (found.kept >= 0).sum() > 60
    assert missed <= 1


def test_a_crowd_of_one_text_costs_no_more_than_its_size():
    found = near_duplicates(["one text that many copied from each other"] * 5000)
    assert (found.kept[1:] == 0).all()


TEXTS = st.lists(st.lists(st.sampled_from("abc"), max_size=12).map(" ".join), max_size=6)


@settings(max_examples=150, deadline=None)
@given(TEXTS, TEXTS, st.integers(2, 4), st.integers(0, 2))
def test_ngram_hits_agree_with_sets(rows, texts, n, common):
    def grams(text):
        cut = text.split()
        return {tuple(cut[i : i + n]) for i in range(len(cut) - n + 1)}

    everywhere = [gram for row in rows for gram in grams(row)]
    counted = [{g for g in grams(row) if not common or everywhere.count(g) < common} for row in rows]
    for text, hits in zip(texts, NgramIndex(rows, n, common).hits(texts), strict=True):
        expected = {(i, len(one & grams(text))) for i, one in enumerate(counted) if one & grams(text)}
        assert {(hit.row, hit.shared) for hit in hits} == expected
        for hit in hits:
            assert hit.score == hit.shared / len(counted[hit.row])
            assert tuple(text.split()[hit.place : hit.place + n]) in counted[hit.row]


def test_punctuation_does_not_count_in_ngrams():
    assert words(without_signs("a, b; (c_d)!")) == ["a", "b", "c_d"]
    (hits,) = NgramIndex(["one, two - three."], 3, 0).hits(["ONE two three"])
    assert hits[0].score == 1


def test_groups_agree_with_all_pairs():
    rng = random.Random(5)
    vocabulary = ["".join(rng.choices(string.ascii_lowercase, k=5)) for _ in range(400)]
    texts = [rng.choices(vocabulary, k=rng.choice((20, 60, 90))) for _ in range(40)]
    for _ in range(80):
        copy = list(rng.choice(texts))
        for place in rng.sample(range(len(copy)), rng.randrange(4)):
            copy[place] = rng.choice(vocabulary)
        texts.append(copy[: rng.choice((15, 200, 200))])
    n = len(texts)
    sketched = sketch(pack(" ".join(text) for text in texts), 3)
    found = buckets(sketched.sketches, sketched.profile.n_shingles > 0, choose_bands(0.6))
    sure = np.full((n, 1), -1, np.int32)
    sets = shingle_sets_of([" ".join(text) for text in texts], 3)
    every = np.arange(n)
    result = groups(every, sure, found.of, sets, every, 0.6, np.zeros(n, np.int64))
    parent = list(range(n))

    def root(i):
        while parent[i] != i:
            i = parent[i]
        return i

    for i, j in itertools.combinations(range(n), 2):
        if _jaccard(texts[i], texts[j], 3) >= 0.6:
            parent[max(root(i), root(j))] = min(root(i), root(j))
    assert result.root.tolist() == [root(i) for i in range(n)]
    assert (result.bridge == every[:, None]).all()
    assert len(set(result.root.tolist())) < 80
