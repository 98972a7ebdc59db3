"""Tracks the required terms in hypotheses, and selects the hypotheses that a search keeps.

The method is dynamic beam allocation (Post and Vilar, 2018). The live hypotheses of a sentence are
grouped into banks by the number of term tokens that they contain, and each bank gets an equal share
of the beam. In addition to its most likely continuations, each hypothesis is continued with the
next tokens of its unmet terms, so that some hypotheses eventually contain all required terms. Only
hypotheses that contain all required terms may end with EOS.

In array shapes, b is the number of sentences in the batch, W the beam width, V the vocabulary size,
M the number of candidates per sentence, and A the number of additional tokens per hypothesis, which
begin or continue a term.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.model.special_ids import EOS_ID, PAD_ID

Phrase = tuple[int, ...]  # the tokens of a term


class State(NamedTuple):
    """Records which of the required terms a hypothesis contains."""

    unmet: tuple[Phrase, ...]  # terms that the hypothesis does not contain yet
    partial: Phrase  # the longest prefix of a missing term that the hypothesis ends with
    ended: Phrase  # the term that the newest token completes, unless its last character is unspaced
    stops: int  # number of sentence-final tokens so far


class TokenKinds(NamedTuple):
    """Properties of all tokens in the vocabulary, as boolean arrays of shape (V,)."""

    begins_inside: NDArray[np.bool_]  # the first character is a letter or digit
    ends_unspaced: NDArray[np.bool_]  # the last character is Chinese or Japanese
    stops: NDArray[np.bool_]  # the token ends a sentence


class Terms:
    """The terms that one translation must contain.

    If a translation must contain a term twice, the term is listed twice. Because models tend to
    append an unlikely term to a translation that is already complete, the number of sentence-final
    tokens is limited in hypotheses that lack a term.
    """

    def __init__(self, phrases: Sequence[Sequence[int]], kinds: TokenKinds, max_stops: int):
        """
        Args:
            phrases: the token ids of each term.
            max_stops: the maximum number of sentence-final tokens in a hypothesis that lacks a
                term.
        """
        self.phrases = sorted(map(tuple, phrases))
        self.kinds, self.max_stops = kinds, max_stops
        self.tokens = sum(map(len, self.phrases))
        self.start = State(tuple(self.phrases), (), (), 0)
        self._after: dict[tuple[State, int], State] = {}

    def among(self, tokens: NDArray[np.int64]) -> "Terms":
        """Returns a copy of the terms with each token id replaced by its shortlist index."""
        places = [np.searchsorted(tokens, phrase).tolist() for phrase in self.phrases]
        kinds = TokenKinds(*(of_all[tokens] for of_all in self.kinds))
        return Terms(places, kinds, self.max_stops)

    def after(self, state: State, token: int) -> State:
        """Returns the state that follows `state` when `token` is appended to a hypothesis.

        A term is met as soon as it is complete. A complete term becomes unmet again if the next
        token begins with a letter or digit, even if the term ends with a symbol, as in "C++".
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
        """Returns a hypothesis's bank, which is the number of term tokens in the hypothesis."""
        return self.tokens - sum(map(len, state.unmet)) + len(state.partial)

    def next_tokens(self, state: State, is_last: bool) -> list[int]:
        """Returns the tokens that begin or continue a required term that is still missing.

        If the hypothesis contains all required terms, returns EOS in two cases: at the last step,
        and directly after a term that the next token could extend by a letter or digit. In all
        other cases, returns an empty list for a hypothesis that contains all required terms. These
        rules guarantee that the search finds a translation with all required terms.
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
    """Selects W live hypotheses for each sentence, and gives each bank a share of the beam."""

    def __init__(self, terms: Sequence[Terms], max_lengths: Sequence[int], width: int):
        """
        Args:
            terms: the required terms of each sentence.
            max_lengths: the maximum length of each sentence's translation in tokens.
            width: the beam width W, which must exceed each sentence's `Terms.tokens`.
        """
        self.terms, self.max_lengths, self.width = list(terms), list(max_lengths), width
        self.states = [[each.start] * width for each in terms]
        self.taken = 0  # number of steps taken

    def next_tokens(self) -> NDArray[np.int64]:
        """Returns the additional tokens with which to continue each hypothesis, (b, W, A)."""
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
        """Selects the candidates to keep, and returns the arguments for `_Beams.advance`.

        Args:
            values, parents, tokens: arrays of shape (b, M) with the log-probability, parent and
                token of each candidate, sorted by descending log-probability. Duplicate candidates
                must be adjacent.

        Returns:
            Four arrays. The first three arrays have shape (b, 2 W). They contain log-probabilities,
            parents and tokens of the W live hypotheses and of the hypotheses that end at this step,
            sorted together by descending log-probability. The fourth array, `best`, has shape (b,).
            For each sentence, `best` contains the highest log-probability among the live hypotheses
            with all required terms. If no live hypothesis of a sentence contains all required
            terms, `best` contains the highest log-probability among all live hypotheses of the
            sentence.
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
        """Returns a (b, M) mask of candidates that are duplicates or end a sentence too early."""
        lacks, may_stop = self._of_states(
            lambda terms, state: (len(state.unmet), state.stops < terms.max_stops), parents
        )
        stops = self.terms[0].kinds.stops[tokens] & ~self._are_next(parents, tokens).any(-1)
        too_early = (lacks > 0) & ((tokens == EOS_ID) | (stops & (may_stop == 0)))
        too_early[:, 1:] |= (parents[:, 1:] == parents[:, :-1]) & (tokens[:, 1:] == tokens[:, :-1])
        return too_early

    def _banks(self, parents: NDArray[np.int64], tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the bank of each candidate as an array of shape (b, M)."""
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
        """Returns the two values that `facts` computes for each candidate's parent, (b, M)."""
        each = np.array(
            [
                [facts(terms, state) for state in states]
                for terms, states in zip(self.terms, self.states, strict=True)
            ]
        )  # (b, W, 2)
        first, second = (np.take_along_axis(each[..., i], parents, 1) for i in range(2))
        return first, second

    def _are_next(self, parents: NDArray[np.int64], tokens: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Compares each candidate's token with the A additional tokens of its parent, (b, M, A)."""
        return np.take_along_axis(self._next, parents[..., None], 1) == tokens[..., None]

    def _shared_out(
        self, are_live: NDArray[np.bool_], banks: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Returns a (b, M) mask of the candidates that become live hypotheses.

        The most likely candidates of each bank become live hypotheses until the bank's share of the
        beam is full. If a bank has fewer candidates than its share, the most likely candidates of
        the other banks fill the beam.
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
        """Updates the hypotheses' states after the search has decided which hypotheses to keep.

        Args:
            parents, tokens: arrays of shape (b, W) with the parent and newest token of each
                hypothesis that the search has kept. Sentences that have been removed from the batch
                have no row in these arrays.
            kept: for each remaining sentence, its index in the batch before the removal of other
                sentences.
        """
        self.terms = [self.terms[i] for i in kept]
        self.max_lengths = [self.max_lengths[i] for i in kept]
        self.states = [
            [terms.after(self.states[i][parent], token) for parent, token in zip(*row, strict=True)]
            for terms, i, *row in zip(
                self.terms, kept, parents.tolist(), tokens.tolist(), strict=True
            )
        ]
