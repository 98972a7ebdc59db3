"""The paper's BLEU against its scripts' rules, worked by hand."""

import math

import pytest

from nmt.evaluation.paper_bleu import paper_bleu, paper_tokens


@pytest.mark.parametrize(
    ("line", "tokens"),  # as tokenizer.perl -l de and get_ende_bleu.sh give them
    [
        ("Er sagte: „Rock-Musik.“", "Er sagte : &quot; Rock ##AT##-##AT## Musik . &quot;"),
        ("»Ja«, ‚nein‘ – 1,5 % … A&B",
         "&quot; Ja &quot; , &apos; nein &apos; – 1,5 % ... A &amp; B"),
        ("a-b-c vis-à-vis", "a ##AT##-##AT## b-c vis ##AT##-##AT## à ##AT##-##AT## vis"),
        ("z.B. am 3. Mai, Nr. 5 usw.", "z.B. am 3. Mai , Nr. 5 usw ."),
        ("Und dann...", "Und dann ..."),
        ("wie geht's?", "wie geht &apos; s ?"),
        ("（田郷明）１２！", "( 田郷明 ) 12 !"),
        ("  ", ""),
    ],
)  # fmt: skip
def test_tokens(line, tokens):
    assert paper_tokens(line) == tokens


def test_value_worked_by_hand():
    """Matches of 1 to 4 tokens: 6 of 7, 4 of 6, 2 of 5, 1 of 4; brevity exp(1 - 8/7)."""
    hypothesis, reference = "Rock-Musik ist laut Tag.", "Rock-Musik ist laut heute Tag."
    expected = 100 * math.exp(1 - 8 / 7) * (7 / 7 * 5 / 6 * 3 / 5 * 2 / 4) ** 0.25
    assert paper_bleu([hypothesis], [reference])[0] == pytest.approx(expected)


def test_quotes_do_not_matter_but_case_does():
    assert paper_bleu(["Er rief „Halt“ und ging"], ['Er rief "Halt" und ging'])[0] > 99.99
    assert paper_bleu(["er rief halt und ging"], ["Er rief halt und ging"])[0] < 80


def test_no_match_of_four_tokens_is_zero_as_in_multi_bleu():
    assert paper_bleu(["ja das ist gut"], ["nein das ist gut"])[0] == 0
