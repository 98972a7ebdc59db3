"""Contrastive pairs of the demo grammar: one exact error each, in sentences of the test split."""

from collections import Counter

import pytest

from nmt.demo_language import ContrastivePair, contrastive_pairs, demo_pairs
from nmt.demo_language.alignment import words

# checked by hand: the right translation, and the error alone makes the wrong one wrong
BY_HAND = """\
The worker has explained the mistake to the kings.|Der Arbeiter hat den Königen den Fehler erklärt.|Der Arbeiter haben den Königen den Fehler erklärt.|agreement
Every day twelve girls bring the shy guest the cucumber.|Jeden Tag bringen zwölf Mädchen dem schüchternen Gast die Gurke.|Jeden Tag bringt zwölf Mädchen dem schüchternen Gast die Gurke.|agreement
Next summer a young neighbour will ask mayors upstairs.|Nächsten Sommer wird ein junger Nachbar oben Bürgermeister fragen.|Nächsten Sommer wird ein junger Nachbar oben Bürgermeistern fragen.|case
A happy pupil must give the strong customers a delicious roll.|Ein glücklicher Schüler muss den starken Kunden ein leckeres Brötchen geben.|Ein glücklicher Schüler muss den starken Kunden einem leckeren Brötchen geben.|case
The proud president knew that a poor fisherman fell asleep in a village.|Der stolze Präsident wusste, dass ein armer Fischer in einem Dorf einschlief.|Der stolze Präsident wusste, dass ein armer Fischer schlief in einem Dorf ein.|verb final
Nobody knew that the musician showed her the lion.|Niemand wusste, dass ihr der Musiker den Löwen zeigte.|Niemand wusste, dass der Musiker zeigte ihr den Löwen.|verb final
The thieves will not like the bakery.|Die Diebe werden die Bäckerei nicht mögen.|Die Diebe werden die Bäckerei mögen.|negation deleted
The nervous friends did not look at a small airport last summer.|Die nervösen Freunde betrachteten letzten Sommer keinen kleinen Flughafen.|Die nervösen Freunde betrachteten letzten Sommer einen kleinen Flughafen.|negation deleted
A thief forgives your brother.|Ein Dieb verzeiht Ihrem Bruder.|Ein Dieb verzeiht Ihrem Bruder nicht.|negation inserted
Our rich pupil knew the ugly museum.|Unser reicher Schüler kannte das hässliche Museum.|Unser reicher Schüler kannte das hässliche Museum nicht.|negation inserted
The neighbours sometimes listened to a king.|Die Nachbarn hörten manchmal einem König zu.|Die Nachbarn zuhörten manchmal einem König.|separable verb
Five months ago two pupils worked with the driver.|Vor fünf Monaten arbeiteten zwei Schüler mit dem Fahrer zusammen.|Vor fünf Monaten zusammenarbeiteten zwei Schüler mit dem Fahrer.|separable verb
"""  # noqa: E501


@pytest.fixture(scope="module")
def pairs() -> list[ContrastivePair]:
    return list(contrastive_pairs(30, 1, "test"))


def of(pairs: list[ContrastivePair], phenomenon: str) -> list[tuple[list[str], list[str]]]:
    """Returns the words of the right and the wrong translations."""
    return [(words(p.right), words(p.wrong)) for p in pairs if p.phenomenon == phenomenon]


def test_pairs_that_were_checked_by_hand():
    found = list(contrastive_pairs(2, 1, "test"))
    assert ["|".join(vars(pair).values()) for pair in found] == BY_HAND.splitlines()


def test_sources_differ_and_are_not_those_of_training(pairs):
    assert Counter(pair.phenomenon for pair in pairs) == dict.fromkeys(
        ("agreement", "case", "verb final", "negation deleted", "negation inserted",
         "separable verb"), 30,
    )  # fmt: skip
    for phenomenon in {pair.phenomenon for pair in pairs}:
        assert len({pair.source for pair in pairs if pair.phenomenon == phenomenon}) == 30
    trained = {pair.source for pair in demo_pairs(3000, 1, "train")}
    assert not trained & {pair.source for pair in pairs}


def test_each_error_is_the_one_of_its_phenomenon(pairs):
    for right, wrong in of(pairs, "agreement"):
        assert len(right) == len(wrong)
        assert sum(a != b for a, b in zip(right, wrong, strict=True)) == 1
    for right, wrong in of(pairs, "case"):
        changed = [(a, b) for a, b in zip(right, wrong, strict=True) if a != b]
        assert 1 <= len(changed) <= 3  # determiner, adjective, noun
        assert all(a[:2] == b[:2] or a[0] + b[0] in ("dd", "ih", "mm") for a, b in changed)
    for right, wrong in of(pairs, "verb final"):
        assert right != wrong
        assert right[: right.index(",") + 2] == wrong[: wrong.index(",") + 2]
    for longer, shorter in (
        *of(pairs, "negation deleted"), *((b, a) for a, b in of(pairs, "negation inserted")),
    ):  # fmt: skip
        negations = [word for word in longer if word == "nicht" or word.startswith("kein")]
        assert len(negations) == 1
        assert not any(word == "nicht" or word.startswith("kein") for word in shorter)
    for right, wrong in of(pairs, "separable verb"):
        assert len(right) == len(wrong) + 1
        (joint,) = set(wrong) - set(right)
        prefix = next(word for word in right if word not in wrong and joint.startswith(word))
        assert right[-2] == prefix
        assert joint.removeprefix(prefix) in right
