"""Word links, compared with links by hand for each kind of word and counted in a corpus."""

from itertools import pairwise

import pytest

from nmt.demo_language import aligned, demo_pairs

PAIRS = [  # English, German, sure links, further possible links
    (
        "The boys bought an old key and put it on the table.",
        "Die Jungen kauften einen alten Schlüssel und legten ihn auf den Tisch.",
        "boys-Jungen bought-kauften old-alten key-Schlüssel put-legten table-Tisch", "",
    ),
    (
        "She called the doctor at 7:30.", "Sie rief um 7:30 Uhr den Arzt an.",
        "called-rief called-an doctor-Arzt 7:30-7:30", "",
    ),
    ("He woke her up.", "Er weckte sie auf.", "woke-weckte", "woke-auf up-weckte up-auf"),
    (
        "She has tried to listen to a king.", "Sie hat versucht, einem König zuzuhören.",
        "has-hat tried-versucht listen-zuzuhören king-König", "",
    ),
    (
        "Last week this house was more expensive.", "Letzte Woche war dieses Haus teurer.",
        "week-Woche expensive-teurer house-Haus",
        "Last-Letzte Last-Woche week-Letzte",
    ),
    (
        "The driver who woke up a princess sings.",
        "Der Fahrer, der eine Prinzessin aufweckte, singt.",
        "driver-Fahrer woke-aufweckte princess-Prinzessin sings-singt", "up-aufweckte",
    ),
    ("Water is cheap.", "Wasser ist billig.", "Water-Wasser cheap-billig", ""),
    ("The man greets the man.", "Der Mann begrüßt den Mann.", "greets-begrüßt", ""),
    # ziehen belongs to both "take off" and "put on", so neither it nor "take" has a link
    (
        "They take this beautiful jacket and put it on.",
        "Sie nehmen diese schöne Jacke und ziehen sie an.",
        "beautiful-schöne jacket-Jacke", None,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target", "sure", "possible"), PAIRS)
def test_links_by_hand(source: str, target: str, sure: str, possible: str | None):
    found = aligned(source, target)

    def shown(links) -> set[str]:
        return {f"{found.source[s]}-{found.target[t]}" for s, t in links}

    assert shown(found.sure) == set(sure.split())
    if possible is not None:
        assert shown(found.possible - found.sure) == set(possible.split())
    assert found.sure <= found.possible


def test_nearly_every_noun_of_a_corpus_has_its_link():
    """Within a German sentence, only nouns are capitalized, apart from pronouns such as Sie."""
    linked = nouns = 0
    for pair in demo_pairs(300, 1, "test"):
        found = aligned(pair.source, pair.target)
        targets = {t for _, t in found.possible}
        for i, word in enumerate(found.target[1:], start=1):
            if word[0].isupper() and not word.startswith(("Sie", "Ihr", "Ihn", "Uhr", "Euro")):
                nouns += 1
                linked += i in targets
    assert nouns > 500
    assert linked / nouns > 0.99


def test_no_link_between_different_entries():
    """A sentence and the translation of another sentence share only a few links, by chance."""
    pairs = list(demo_pairs(200, 1, "test"))
    own = sum(len(aligned(pair.source, pair.target).sure) for pair in pairs)
    of_others = sum(len(aligned(pair.source, other.target).sure) for pair, other in pairwise(pairs))
    assert of_others < 0.05 * own
