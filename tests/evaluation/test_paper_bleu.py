"""The paper's BLEU, compared with values worked by hand and with a second implementation."""

import math
from collections import Counter

import pytest

from nmt.evaluation.paper_bleu import paper_bleu, paper_tokens


@pytest.mark.parametrize(
    ("line", "tokens"),  # as by Moses' scripts (-l de) and tensor2tensor's script
    [
        ("Er sagte: „Rock-Musik.“", "Er sagte : „ Rock ##AT##-##AT## Musik . &quot;"),
        ("»Ja«, ‚nein‘ – 1,5 % … A&B", "» Ja « , ‚ nein ‘ – 1,5 % ... A &amp; B"),
        ("a-b-c vis-à-vis", "a ##AT##-##AT## b-c vis ##AT##-##AT## à ##AT##-##AT## vis"),
        ("z.B. am 3. Mai, Nr. 5 usw.", "z.B. am 3. Mai , Nr. 5 usw ."),
        ("Und dann...", "Und dann ..."),
        ("wie geht’s? “Gut”", "wie geht &apos; s ? &quot; Gut &quot;"),
        ("（田郷明）１２！", "( 田郷明 ) 12 !"),
        ("  ", ""),
    ],
)
def test_tokens_of_a_translation(line, tokens):
    assert paper_tokens(line) == tokens


@pytest.mark.parametrize(
    ("line", "tokens"),
    [
        ("Er sagte: „Rock-Musik.“", "Er sagte : &quot; Rock ##AT##-##AT## Musik . &quot;"),
        ("»Ja«, ‚nein‘", "&quot; Ja &quot; , &apos; nein &apos;"),
    ],
)
def test_a_german_reference_has_straight_quotes(line, tokens):
    assert paper_tokens(line, of_reference=True) == tokens


def test_french_tokens_are_moses_french_on_both_sides():
    line = "C’est-à-dire « aujourd'hui », M. Dupont a-t-il dit…"
    tokens = (  # as by Moses' tokenizer.perl -l fr
        "C&apos; est ##AT##-##AT## à ##AT##-##AT## dire « aujourd&apos; hui » , "
        "M. Dupont a ##AT##-##AT## t-il dit ..."
    )
    for of_reference in (False, True):
        assert paper_tokens(line, "fr", of_reference=of_reference) == tokens
    other = line.replace("’", "'").replace("…", "...")
    assert paper_bleu([line], [other], target_language="fr")[0] == pytest.approx(100)


def multi_bleu(hypotheses: list[str], *references: list[str]) -> float:
    """Computes BLEU like multi-bleu.perl: clipped n-grams, closest reference length, unsmoothed.

    Papineni et al. (2002), on tokens separated by spaces.
    """
    matches, totals, lengths = [0] * 4, [0] * 4, [0, 0]
    for hypothesis, *others in zip(hypotheses, *references, strict=True):
        words, sides = hypothesis.split(), [other.split() for other in others]
        nearest = min((abs(len(side) - len(words)), len(side)) for side in sides)[1]
        lengths = [lengths[0] + len(words), lengths[1] + nearest]
        for n in range(1, 5):
            own, *theirs = (
                Counter(tuple(side[i : i + n]) for i in range(len(side) - n + 1))
                for side in (words, *sides)
            )
            matches[n - 1] += sum(min(k, max(o[gram] for o in theirs)) for gram, k in own.items())
            totals[n - 1] += own.total()
    precision = math.prod(m / t for m, t in zip(matches, totals, strict=True)) ** 0.25
    return 100 * precision * math.exp(min(0.0, 1 - lengths[1] / lengths[0]))


HYPOTHESES = ["Er rief „Halt“ und ging nach Hause, usw.", "Die EU-weite Regel gilt nicht mehr.",
              "Sie sagte, daß es geht’s nicht"]  # fmt: skip
REFERENCES = ["Er rief „Halt“ und ging dann nach Hause usw.", "Die EU-weite Regel gilt nicht.",
              "Sie sagte, dass es nicht geht"]  # fmt: skip
SECOND = ["Er rief »Halt« und ging heim.", "Die Regel der EU gilt nicht mehr.", "Es geht nicht"]


def test_the_count_is_multi_bleus_of_these_tokens():
    translated = [paper_tokens(line) for line in HYPOTHESES]
    for sides in ((REFERENCES,), (REFERENCES, SECOND)):
        tokens = [[paper_tokens(line, of_reference=True) for line in side] for side in sides]
        expected = multi_bleu(translated, *tokens)
        assert 30 < expected < 80
        assert paper_bleu(HYPOTHESES, *sides)[0] == pytest.approx(expected, abs=1e-6)


def test_value_worked_by_hand():
    """7/7, 5/6, 3/5 and 2/4 of the n-grams match; the brevity penalty is exp(1 - 8/7)."""
    hypothesis, reference = "Rock-Musik ist laut Tag.", "Rock-Musik ist laut heute Tag."
    expected = 100 * math.exp(1 - 8 / 7) * (7 / 7 * 5 / 6 * 3 / 5 * 2 / 4) ** 0.25
    assert paper_bleu([hypothesis], [reference])[0] == pytest.approx(expected)


def test_quotes_of_a_translation_count_as_in_the_script_and_so_does_case():
    """The script keeps „ in translations, so straight quotes match and German quotes do not."""
    reference = "Er rief „Halt“ und ging"
    assert paper_bleu(['Er rief "Halt" und ging'], [reference])[0] == pytest.approx(100)
    # the n-grams that contain the opening quote do not match
    expected = 100 * (6 / 7 * 4 / 6 * 2 / 5 * 1 / 4) ** 0.25
    assert paper_bleu([reference], [reference])[0] == pytest.approx(expected)
    assert paper_bleu(["er rief halt und ging"], ["Er rief halt und ging"])[0] < 80


def test_no_match_of_four_tokens_is_zero_as_in_multi_bleu():
    assert paper_bleu(["ja das ist gut"], ["nein das ist gut"])[0] == 0
