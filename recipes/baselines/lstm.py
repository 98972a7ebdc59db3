"""An LSTM encoder-decoder with attention, which can be trained instead of the Transformer.

The decoder follows Luong et al. (2015), "Effective Approaches to Attention-based Neural Machine
Translation": stacked LSTMs, global attention with the score "general", and input feeding, which
passes the attentional hidden state of a step to the next step. The encoder is bidirectional, as in
Bahdanau et al. (2015). As in the Transformer, one matrix serves as the source embedding, the target
embedding and the output projection.

Dimensions: N is the number of sentences, one per row; R the number of rows, which may contain
several sentences; S the source length; T the target length; W the number of hypotheses per
sentence; D d_model; L the number of encoder layers and of decoder layers; V the vocabulary size.
The state of the decoder has the shape (N, W, 2 L + 1, D). It contains the hidden state and the cell
of each layer, and then the attentional hidden state.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nmt.benchmark.flops import Lengths
from nmt.config import Model
from nmt.decoding.batched_search import BatchedSearch
from nmt.decoding.beam_search import StepInterface
from nmt.errors import InputError
from nmt.model.kernels.dropout import Dropout, Randomness
from nmt.model.special_ids import PAD_ID
from nmt.model.tokens import Tokens
from nmt.model.transformer import AttentionWeights


@dataclass(frozen=True)
class Memory:
    """The encoder's output, to which the decoder attends, with attention keys and padding mask."""

    values: Tensor  # (N, S, D)
    keys: Tensor  # (N, S, D), the values times W_a
    is_padding: Tensor  # (N, S)

    def rows(self, rows: slice | Tensor) -> "Memory":
        """Returns the memory of the selected sentences."""
        return Memory(self.values[rows], self.keys[rows], self.is_padding[rows])


class LSTMTranslator(nn.Module):
    """An LSTM with the attributes and methods of `Transformer` that training and search use."""

    max_length: int | None = None  # no limit

    def __init__(self, model: Model, vocabulary_size: int):
        """Allocates uninitialized weights; call `initialize`.

        Args:
            model: settings, of which `d_model`, `encoder_layers`, `decoder_layers` and `dropout`
                are used.
            vocabulary_size: number of tokens in the vocabulary.

        Raises:
            InputError: the numbers of layers differ, or `d_model` is odd.
        """
        super().__init__()
        layers, D = model.encoder_layers, model.d_model
        if layers != model.decoder_layers or D % 2:
            raise InputError(
                "The LSTM needs an even d_model, and as many decoder layers as encoder layers, but "
                f"d_model is {D}, encoder_layers is {layers} and decoder_layers is "
                f"{model.decoder_layers}. Change these settings."
            )
        self.d_model = D
        self.randomness = Randomness()
        self.dropout = Dropout(model.dropout, self.randomness)
        self.embedding = nn.Parameter(torch.empty(vocabulary_size, D))
        self.output_bias = None  # see `Transformer`
        self.encoder = nn.ModuleList(
            nn.LSTM(D, D // 2, bidirectional=True, batch_first=True) for _ in range(layers)
        )
        self.decoder = nn.ModuleList(nn.LSTMCell(D if i else 2 * D, D) for i in range(layers))
        self.score = nn.Linear(D, D, bias=False)  # W_a
        self.combine = nn.Linear(2 * D, D, bias=False)  # W_c

    @torch.no_grad()
    def initialize(self, seed: int) -> None:
        """Initializes all weights.

        Embeddings are initialized as in the Transformer. Matrices are sampled uniformly from
        ±1/sqrt(D). The biases of the forget gates are 1 (Jozefowicz et al., 2015); all other biases
        are 0.
        """
        generator = torch.Generator().manual_seed(seed)
        for name, parameter in self.named_parameters():
            if name == "embedding":
                parameter.normal_(0, self.d_model**-0.5, generator=generator)
            elif "bias" in name:
                parameter.zero_()
                if "bias_ih" in name:  # in the order input, forget, cell, output gate
                    parameter.chunk(4)[1].fill_(1)
            else:
                bound = self.d_model**-0.5
                parameter.uniform_(-bound, bound, generator=generator)

    def embed(self, tokens: Tensor) -> Tensor:
        """Returns the scaled embeddings of tokens: (...) -> (..., D)."""
        return self.dropout(F.embedding(tokens, self.embedding) * math.sqrt(self.d_model))

    def encode(self, src: Tensor) -> tuple[Memory, Tensor]:
        """Encodes sources, and initializes the decoder with the final states of the encoder.

        Args:
            src: source tokens, (N, S), padded with PAD_ID.

        Returns:
            The memory, and the initial state of the decoder, (N, 1, 2 L + 1, D).
        """
        is_padding, states = src == PAD_ID, list[Tensor]()
        lengths = (~is_padding).sum(1).cpu()
        x = self.embed(src)
        for layer in self.encoder:
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            output, final = layer(packed)
            x = pad_packed_sequence(output, batch_first=True, total_length=src.shape[1])[0]
            x = self.dropout(x)
            # hidden state, then cell; joins both directions: (2, N, D / 2) -> (N, D)
            states += [each.transpose(0, 1).flatten(1) for each in final]
        state = torch.stack([*states, torch.zeros_like(states[0])], 1)
        return Memory(x, self.score(x), is_padding), state[:, None]

    def step(self, y: Tensor, state: Tensor, memory: Memory) -> tuple[Tensor, Tensor, Tensor]:
        """Computes one step of the decoder.

        Args:
            y: embeddings of the newest tokens, (N, W, D).
            state: state of the decoder, (N, W, 2 L + 1, D).
            memory: the encoder's output.

        Returns:
            The attentional hidden states (N, W, D), the new state of the decoder, and the attention
            weights (N, W, S).
        """
        N, W, _ = y.shape
        *before, fed = state.flatten(0, 1).unbind(1)
        x, after = torch.cat([y.flatten(0, 1), fed], -1), list[Tensor]()
        for i, cell in enumerate(self.decoder):
            after += cell(x, (before[2 * i], before[2 * i + 1]))
            x = self.dropout(after[-2])
        query = x.view(N, W, -1)
        scores = query @ memory.keys.transpose(1, 2)
        weights = scores.masked_fill(memory.is_padding[:, None], -math.inf).softmax(-1)
        context = weights @ memory.values
        hidden = self.dropout(torch.tanh(self.combine(torch.cat([context, query], -1))))
        state = torch.stack([*after, hidden.flatten(0, 1)], 1)
        return hidden, state.view(N, W, *state.shape[1:]), weights

    def forward(self, src: Tokens, tgt_in: Tokens) -> Tensor:
        """Returns the hidden states (R, T, D) from which `logits` computes the logits.

        A row may contain several pairs. There must be at least one pair. At padding, the hidden
        states are 0.

        Args:
            src: source tokens, (R, S).
            tgt_in: target tokens, (R, T), in which each sentence begins with BOS.
        """
        sources, _ = one_per_row(src)
        targets, numbers = one_per_row(tgt_in)
        lengths = (targets != PAD_ID).sum(1)
        order = lengths.argsort(descending=True, stable=True)  # longest first
        memory, state = self.encode(sources[order])
        y = self.embed(targets[order]).unbind(1)
        counts = (lengths[:, None] > torch.arange(targets.shape[1], device=targets.device)).sum(0)
        outputs = []
        for t, n in enumerate(counts.tolist()):
            if n < len(state):  # some targets have ended
                state, memory = state[:n], memory.rows(slice(n))
            hidden, state, _ = self.step(y[t][:n, None], state, memory)
            outputs.append(hidden[:, 0])
        ranks = order.argsort()[numbers]  # (tokens,)
        is_real = tgt_in.segments > 0
        places = (counts.cumsum(0) - counts)[tgt_in.positions[is_real]] + ranks
        packed = torch.cat(outputs)  # sorted by step, then by rank
        found = packed.new_zeros(*tgt_in.tokens.shape, self.d_model)
        return found.index_put((is_real,), packed[places])

    def logits(self, hidden: Tensor) -> Tensor:
        """Returns the logits of hidden states: (..., D) -> (..., V)."""
        return hidden @ self.embedding.T

    def attention_weights(self, src: Tokens, tgt_in: Tokens) -> AttentionWeights:
        """Returns the attention weights (N, 1, T, S), for rows with one pair each."""
        memory, state = self.encode(src.tokens)
        y, found = self.embed(tgt_in.tokens), []
        for t in range(y.shape[1]):
            _, state, weights = self.step(y[:, t : t + 1], state, memory)
            found.append(weights)
        return AttentionWeights([], [], [torch.cat(found, 1)[:, None]])


def one_per_row(side: Tokens) -> tuple[Tensor, Tensor]:
    """Unpacks rows, so that each sentence is in a separate row.

    The sources and the targets of a batch are unpacked in the same order.

    Returns:
        The tokens, (N, S) or (N, T), padded with PAD_ID, and the index of the sentence of each
        non-padding token.
    """
    is_real = side.segments > 0
    positions, tokens = side.positions[is_real], side.tokens[is_real]
    numbers = (positions == 0).cumsum(0) - 1
    rows = tokens.new_full((int(numbers[-1]) + 1, int(positions.max()) + 1), PAD_ID)
    rows[numbers, positions] = tokens
    return rows, numbers


class LSTMSteps:
    """The decoder steps of an LSTM; implements the search's interface (`StepInterface`)."""

    def __init__(self, model: LSTMTranslator, src: Tensor, beam: int):
        """Encodes the sources `src`, (N, S), which end with EOS and are padded with PAD_ID."""
        self.model = model
        self.memory, state = model.encode(src)
        self.state = state.expand(-1, beam, -1, -1)

    def step(self, last_tokens: Tensor, parents: Tensor) -> Tensor:
        """See `StepInterface.step`."""
        index = parents[..., None, None].expand(-1, -1, *self.state.shape[2:])
        state, y = self.state.gather(1, index), self.model.embed(last_tokens)
        hidden, self.state, _ = self.model.step(y, state, self.memory)
        return self.model.logits(hidden)

    def keep(self, sentences: Tensor) -> None:
        """See `StepInterface.keep`."""
        self.memory, self.state = self.memory.rows(sentences), self.state[sentences]


class LSTMSearch(BatchedSearch):
    """The beam search of `nmt` with the decoder steps of the LSTM."""

    def __init__(self, *arguments: Any):
        """See `BatchedSearch`."""
        super().__init__(*arguments)
        self.buffers = []  # no CUDA graphs

    def started(self, src: Tensor, width: int, *_: object) -> StepInterface:
        """See `BatchedSearch.started`."""
        return self._as_one([LSTMSteps(model, src, width) for model in self.transformers])

    @property
    def default_batch_tokens(self) -> int:
        """The maximum number of tokens in a batch, the same as for a large Transformer."""
        return 16_384


def training_flops(
    model: Model, vocabulary_size: int, source_lengths: Lengths, target_lengths: Lengths
) -> int:
    """Returns the FLOPs of one training step, as `nmt.benchmark.flops.training_flops` counts them.

    An LSTM layer of width h with an input of width i has 4 h (i + h) weights, which are used once
    per token. In each direction of an encoder layer, h = D / 2 and i = D. In the decoder, h = D; i
    is 2 D in the first layer and D in the other layers.
    """
    source, target = (np.asarray(side, np.int64) for side in (source_lengths, target_lengths))
    D = model.d_model
    of_source = model.encoder_layers * 2 * (4 * D // 2) * (D + D // 2) + D * D  # with W_a
    of_target = 4 * D * (3 * D + (model.decoder_layers - 1) * 2 * D)
    of_target += 2 * D * D + vocabulary_size * D  # with W_c and the logits
    products = of_source * int(source.sum()) + of_target * int(target.sum())
    return 6 * (products + 2 * D * int((source * target).sum()))
