"""Tracks the required terms in hypotheses, and selects the hypotheses that a search keeps.

The method is dynamic beam allocation (Post and Vilar, 2018). The live hypotheses of a sentence are
divided into banks by the number of term tokens that they contain, and each bank gets a share of the
beam. Each hypothesis is also continued with the next tokens of its unmet terms, so that some
hypotheses eventually contain all terms. Only hypotheses with all terms may end.

Shapes: b sentences in the batch, W beam width, V vocabulary size, M candidates per sentence,
A tokens per hypothesis that may begin or continue a term.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.model.special_ids import EOS_ID, PAD_ID

Phrase = tuple[int, ...]  # the tokens of a term


class State(NamedTuple):
    """The state of a hypothesis with respect to the terms that its sentence requires."""

    unmet: tuple[Phrase, ...]  # terms that the hypothesis does not contain yet
    partial: Phrase  # the longest prefix of an unmet term that the hypothesis ends with
    ended: Phrase  # the term that the newest token completes, unless its last character is unspaced
    stops: int  # number of sentence ends so far


class TokenKinds(NamedTuple):
    """Properties of all tokens in the vocabulary, as masks of shape (V,)."""

    begins_inside: NDArray[np.bool_]  # the first character is a letter or digit
    ends_unspaced: NDArray[np.bool_]  # the last character is Chinese or Japanese
    stops: NDArray[np.bool_]  # the token ends a sentence


class Terms:
    """The terms that one translation must contain; a term required twice is listed twice.

    If a model does not expect a term, it tends to append the term to a complete translation. A
    hypothesis that lacks a term must therefore contain fewer sentence ends than the source.
    """

    def __init__(self, phrases: Sequence[Sequence[int]], kinds: TokenKinds, max_stops: int):
        """`max_stops`: maximum number of sentence ends in a hypothesis that lacks a term."""
        self.phrases = sorted(map(tuple, phrases))
        self.kinds, self.max_stops = kinds, max_stops
        self.tokens = sum(map(len, self.phrases))
        self.start = State(tuple(self.phrases), (), (), 0)
        self._after: dict[tuple[State, int], State] = {}

    def among(self, tokens: NDArray[np.int64]) -> "Terms":
        """Returns the same terms with each token replaced by its index in a shortlist."""
        places = [np.searchsorted(tokens, phrase).tolist() for phrase in self.phrases]
        kinds = TokenKinds(*(of_all[tokens] for of_all in self.kinds))
        return Terms(places, kinds, self.max_stops)

    def after(self, state: State, token: int) -> State:
        """Returns the state that follows `state` if `token` is appended to the hypothesis.

        A term is met as soon as it is complete, but becomes unmet again if the next token adds a
        letter or digit to it, even if the term ends in a symbol, such as "C++".
        """
        key = state, token
        if key not in self._after:
            self._after[key] = self._next_state(state, token)
        return self._after[key]

    def _next_state(self, state: State, token: int) -> State:
        unmet, stops = state.unmet, state.stops + int(self.kinds.stops[token])
        if state.ended and self.kinds.begins_inside[token]:
            unmet = tuple(sorted((*unmet, state.ended)))
        run = (*state.partial, token)
        while run and not any(phrase[: len(run)] == run for phrase in unmet):
            run = run[1:]
        if run not in unmet:
            return State(unmet, run, (), stops)
        at = unmet.index(run)
        ended = () if self.kinds.ends_unspaced[token] else run
        return State(unmet[:at] + unmet[at + 1 :], (), ended, stops)

    def bank(self, state: State) -> int:
        """Returns the bank of a hypothesis: the number of term tokens that it contains."""
        return self.tokens - sum(map(len, state.unmet)) + len(state.partial)

    def next_tokens(self, state: State, is_last: bool) -> list[int]:
        """Returns the tokens that begin or continue an unmet term.

        If the hypothesis has all terms, returns EOS at the last step and after a term to which the
        next token could add a letter, otherwise []. A translation with all terms is therefore
        always found.
        """
        if not state.unmet:
            return [EOS_ID] if state.ended or is_last else []
        begun = [state.partial[at:] for at in range(len(state.partial) + 1)]
        return sorted(
            {
                phrase[len(run)]
                for phrase in state.unmet
                for run in begun
                if run == phrase[: len(run)] != phrase
            }
        )


class TermBanks:
    """Selects W live hypotheses for each sentence, so that each bank gets a share of the beam."""

    def __init__(self, terms: Sequence[Terms], max_lengths: Sequence[int], width: int):
        """`terms`, `max_lengths`: one per sentence. `width`: W, greater than `Terms.tokens`."""
        self.terms, self.max_lengths, self.width = list(terms), list(max_lengths), width
        self.states = [[each.start] * width for each in terms]
        self.taken = 0  # number of steps taken

    def next_tokens(self) -> NDArray[np.int64]:
        """Returns additional tokens to consider for each hypothesis, padded: (b, W, A)."""
        self.taken += 1
        each = [
            [terms.next_tokens(state, self.taken == limit) for state in states]
            for terms, limit, states in zip(self.terms, self.max_lengths, self.states, strict=True)
        ]
        most = max(1, *(len(tokens) for row in each for tokens in row))
        padded = [[tokens + [PAD_ID] * (most - len(tokens)) for tokens in row] for row in each]
        self._next = np.array(padded, np.int64).reshape(len(each), self.width, most)
        return self._next

    def choose(
        self, values: NDArray[np.float32], parents: NDArray[np.int64], tokens: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """Returns the candidates to keep, and the `best` argument of `_Beams.advance`.

        Args:
            values, parents, tokens: (b, M) each, the log-probabilities, parents and tokens of all
                candidates, most likely first; duplicate candidates are adjacent.

        Returns:
            The values, parents and tokens (b, 2 W) of the W live hypotheses and of the hypotheses
            that end, most likely first. The fourth array (b,) contains the highest log-probability
            among a sentence's live hypotheses with all terms, or, if there are none, among all its
            live hypotheses.
        """
        is_end = tokens == EOS_ID
        banks, values = self._banks(parents, tokens), values.copy()
        values[self._are_ruled_out(parents, tokens)] = -np.inf
        sizes = np.array([terms.tokens for terms in self.terms])[:, None]  # (b, 1)
        taken = self._shared_out(~is_end & np.isfinite(values), banks, sizes)
        values[~(taken | is_end)] = -np.inf
        complete = np.where(taken & (banks == sizes), values, -np.inf).max(1)
        best = np.where(np.isfinite(complete), complete, np.where(taken, values, -np.inf).max(1))
        first = np.argsort(-values, axis=1, kind="stable")[:, : 2 * self.width]
        rows = np.arange(len(first))[:, None]
        return values[rows, first], parents[rows, first], tokens[rows, first], best

    def _are_ruled_out(
        self, parents: NDArray[np.int64], tokens: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Returns a mask (b, M) of the candidates that are duplicates or end too early."""
        lacks, may_stop = self._of_states(
            lambda terms, state: (len(state.unmet), state.stops < terms.max_stops), parents
        )
        stops = self.terms[0].kinds.stops[tokens] & ~self._are_next(parents, tokens).any(-1)
        too_early = (lacks > 0) & ((tokens == EOS_ID) | (stops & (may_stop == 0)))
        too_early[:, 1:] |= (parents[:, 1:] == parents[:, :-1]) & (tokens[:, 1:] == tokens[:, :-1])
        return too_early

    def _banks(self, parents: NDArray[np.int64], tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the bank of each candidate: (b, M)."""
        free, ended = self._of_states(
            lambda terms, state: (terms.bank(state._replace(partial=())), len(state.ended)), parents
        )
        banks = free - ended * self.terms[0].kinds.begins_inside[tokens]
        advanced = [
            [[terms.bank(terms.after(state, token)) for token in row] for state, row in rows]
            for terms, rows in zip(
                self.terms, map(zip, self.states, self._next.tolist()), strict=True
            )
        ]  # (b, W, A)
        of_parents = np.take_along_axis(np.array(advanced), parents[..., None], 1)  # (b, M, A)
        are_next = self._are_next(parents, tokens)
        return np.where(are_next, of_parents, banks[..., None]).max(-1)

    def _of_states(
        self, facts: Callable[[Terms, State], tuple[int, int]], parents: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Applies `facts` to each candidate's parent; returns its two results, (b, M) each."""
        each = np.array(
            [
                [facts(terms, state) for state in states]
                for terms, states in zip(self.terms, self.states, strict=True)
            ]
        )  # (b, W, 2)
        first, second = (np.take_along_axis(each[..., i], parents, 1) for i in range(2))
        return first, second

    def _are_next(self, parents: NDArray[np.int64], tokens: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Compares each candidate's token with the next tokens of its parent: (b, M, A) bool."""
        return np.take_along_axis(self._next, parents[..., None], 1) == tokens[..., None]

    def _shared_out(
        self, are_live: NDArray[np.bool_], banks: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Returns a mask (b, M) of the candidates that stay live.

        The most likely candidates of each bank stay live, up to the bank's share of the beam. If a
        bank has fewer candidates, the most likely candidates of other banks fill the beam.
        """
        taken = np.zeros_like(are_live)
        for bank in range(sizes.max() + 1):
            share = self.width * (bank + 1) // (sizes + 1) - self.width * bank // (sizes + 1)
            of_bank = are_live & (banks == bank)
            taken |= of_bank & (of_bank.cumsum(1) <= share)
        rest = are_live & ~taken
        return taken | rest & (rest.cumsum(1) <= self.width - taken.sum(1, keepdims=True))

    def follow(
        self, parents: NDArray[np.int64], tokens: NDArray[np.int64], kept: NDArray[np.int64]
    ) -> None:
        """Updates the states after the search has decided which hypotheses to keep.

        Args:
            parents, tokens: (b, W) each, the parents and newest tokens of the hypotheses that the
                search has kept, for the sentences that stay in the batch.
            kept: indices of the sentences that stay, in the previous batch.
        """
        self.terms = [self.terms[i] for i in kept]
        self.max_lengths = [self.max_lengths[i] for i in kept]
        self.states = [
            [terms.after(self.states[i][parent], token) for parent, token in zip(*row, strict=True)]
            for terms, i, *row in zip(
                self.terms, kept, parents.tolist(), tokens.tolist(), strict=True
            )
        ]
