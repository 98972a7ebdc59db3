"""Stores the result of an evaluation and formats the result as JSON or as text."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from nmt.evaluation.analysis import Analysis
from nmt.evaluation.analysis_tables import analysis_tables, contrastive_table
from nmt.evaluation.bleu import Comparison, Scores
from nmt.evaluation.contrastive import Contrastive
from nmt.evaluation.paper_bleu import ABOUT_PAPER_BLEU
from nmt.evaluation.test_sets import TestSet


@dataclass(frozen=True)
class Evaluation:
    """The scores of the translations of a test set, and the translations themselves."""

    scores: Scores
    bleu_interval: tuple[float, float]  # 95% confidence interval
    ter: float  # edits per 100 reference words
    ter_signature: str
    paper_bleu: float | None  # 0 to 100; None unless the target language is de or fr
    paper_bleu_interval: tuple[float, float] | None  # 95% confidence interval
    comparison: Comparison | None  # None without a baseline
    test_set: TestSet
    translations: list[str]
    comet: float | None = None
    comet_model: str | None = None
    paper_bleu_convention: str | None = None
    analysis: Analysis | None = None  # None unless requested
    contrastive: Contrastive | None = None  # None without a file of contrastive pairs

    def as_json(self) -> dict[str, Any]:
        """Returns the scores as JSON values. Numbers are rounded to six decimal places."""
        content: dict[str, Any] = asdict(self.scores) | {
            "bleu_interval": self.bleu_interval,
            "ter": self.ter,
            "ter_signature": self.ter_signature,
        }
        if self.paper_bleu is not None and self.paper_bleu_interval is not None:
            content |= {
                "paper_bleu": self.paper_bleu,
                "paper_bleu_interval": self.paper_bleu_interval,
                "paper_bleu_convention": self.paper_bleu_convention,
            }
        if self.comet is not None:
            content |= {"comet": self.comet, "comet_model": self.comet_model}
        if self.comparison is not None:
            content["baseline"] = asdict(self.comparison)
        content |= {
            name: asdict(part)
            for name in ("analysis", "contrastive")
            if (part := getattr(self, name)) is not None
        }
        # rounding removes errors such as 100.00000000000004
        return json.loads(json.dumps(content), parse_float=lambda digits: round(float(digits), 6))

    def as_text(self) -> str:
        """Returns the result as text, with one line per metric, followed by the tables."""
        scores, (low, high) = self.scores, self.bleu_interval
        lines = [
            f"BLEU = {scores.bleu:.2f}  (95%: {low:.2f} to {high:.2f})  {scores.bleu_signature}",
            f"chrF = {scores.chrf:.2f}  {scores.chrf_signature}",
            f"TER = {self.ter:.2f}  {self.ter_signature}",
        ]
        if self.paper_bleu is not None and self.paper_bleu_interval is not None:
            low, high = self.paper_bleu_interval
            interval = f"95%: {low:.2f} to {high:.2f}"
            lines.append(f"paper BLEU = {self.paper_bleu:.2f}  ({interval})  {ABOUT_PAPER_BLEU}")
        if self.comet is not None:
            lines.append(f"COMET = {self.comet:.4f}  {self.comet_model}")
        if (baseline := self.comparison) is not None:
            lines.append(
                f"baseline: BLEU = {baseline.bleu:.2f}, "
                f"difference {baseline.bleu_difference:+.2f} (p = {baseline.bleu_p_value:.4f}); "
                f"chrF = {baseline.chrf:.2f}, "
                f"difference {baseline.chrf_difference:+.2f} (p = {baseline.chrf_p_value:.4f})  "
                "paired bootstrap"
            )
        lines.append(f"sentences = {scores.sentences}")
        tables = analysis_tables(self.analysis) if self.analysis else []
        if self.contrastive:
            tables.append(contrastive_table(self.contrastive))
        return "\n\n".join(["\n".join(lines), *(table.as_text() for table in tables)])
