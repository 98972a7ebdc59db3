"""Finds the most likely next words of a translation by completing the most likely next tokens."""

import re
from typing import Any

from nmt.model.special_ids import EOS_ID

_LISTED = 100  # number of likely tokens among which the next token of `target` is looked up
_UNSPACED = "\u3040-\u30ff\u3400-\u9fff"  # kana and ideographs; each one counts as a word
_WORD = re.compile(rf"\s*(?:[{_UNSPACED}]|[^\W{_UNSPACED}]+(?:['’-][^\W{_UNSPACED}]+)*|\S)")

JSON = dict[str, Any]


def alternatives(
    translator: Any, text: str, prefix: str = "", target: str = "", k: int = 10
) -> list[JSON]:
    """Returns the most likely words that can follow `prefix` in a sentence's translation.

    A search with the model's decoding settings completes each of the `k` most likely next tokens to
    a word. For example, the token "h" may be completed to the word "house". If several tokens lead
    to the same word, the word is returned only once. Tokens that would extend the last word of
    `prefix` are skipped.

    Args:
        translator: a `Translator` for a model or an exported model.
        text: the source sentence.
        target: the current translation, which must begin with `prefix`.

    Returns:
        A list of alternatives, most likely first. Each alternative is an object with these keys:

        * `text`: the beginning of the translation, up to the end of the completed word.
        * `follows`: the rest of the translation after `text`.
        * `probability`: the probability of the first token of the completed word.
        * `stands`: whether `target` contains this alternative after `prefix`.
        * `ends`: whether this alternative ends the translation directly after `prefix`.

    Raises:
        ArgumentError: see `Translator.next_tokens`.
    """
    tokenizer = translator.tokenizer
    prefix, target = (tokenizer.normalize(each).strip() for each in (prefix, target))
    listed = translator.next_tokens(text, prefix, max(k, _LISTED))
    standing = _next_token(tokenizer, prefix, target)
    tokens = [each for n, each in enumerate(listed) if n < k or each.token == standing]
    ends = {EOS_ID: prefix} | ({} if standing is None else {standing: target})
    # tokens that end within a character are skipped, because a prefix contains whole characters
    open_ = [each for each in tokens if each.token not in ends and "\ufffd" not in each.text]
    found = translator.n_best([text] * len(open_), prefix=[each.text for each in open_])
    ends |= {each.token: some[0].text for each, some in zip(open_, found, strict=True)}
    rows: dict[tuple[str, bool], JSON] = {}
    for each in sorted(tokens, key=lambda each: each.token != standing):
        whole, is_end = ends.get(each.token, ""), each.token == EOS_ID
        if not whole.startswith(prefix if each.token == standing else each.text):
            continue
        begun = whole if is_end else _through_word(whole, prefix, each.text)
        stands = begun == _through_word(target, prefix, prefix) and is_end == (target == prefix)
        if _extends(prefix, begun) and not stands:
            continue
        row = {"text": begun, "follows": whole[len(begun) :], "probability": each.probability}
        rows.setdefault((begun, is_end), row | {"stands": stands, "ends": is_end})
    return sorted(rows.values(), key=lambda row: -row["probability"])


def _next_token(tokenizer: Any, prefix: str, target: str) -> int | None:
    """Returns the token that follows the tokens of `prefix` in the tokens of `target`.

    Returns None if the tokens of `target` do not begin with the tokens of `prefix`.
    """
    begun, whole = tokenizer.encode_targets([prefix, target])
    whole = [*whole, EOS_ID]
    is_begun = whole[: len(begun)] == begun and len(whole) > len(begun)
    return whole[len(begun)] if is_begun else None


def _through_word(whole: str, prefix: str, least: str) -> str:
    """Returns the beginning of `whole`, up to the end of the first word after `prefix`.

    The returned text has at least as many characters as `least`.
    """
    word = _WORD.match(whole, len(prefix))
    return whole[: max(word.end() if word else len(prefix), len(least))]


def _extends(prefix: str, begun: str) -> bool:
    """Returns whether `begun`, a text that starts with `prefix`, extends the prefix's last word."""
    before, after = prefix[-1:], begun[len(prefix) :][:1]
    is_spaced = not re.match(f"[{_UNSPACED}]", after)
    return before.isalnum() and after.isalnum() and is_spaced
