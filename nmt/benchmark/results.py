"""Formats a benchmark result as text."""

from typing import Any


def as_text(found: dict[str, Any]) -> str:
    """Returns a benchmark result as text, with one value per line."""
    rows = _of_training(found) if _is_training(found) else _of_translating(found)
    ceilings = found["ceilings"]
    rows += [
        ("share of the ceiling", f"{found['ceiling_share']:.1%}"),
        ("peak memory", f"{found['peak_memory_bytes'] / 2**30:.2f} GiB"),
        ("machine", f"{found['device']}, {found['precision']}, torch {found['torch']}"),
        ("memory copy", f"{ceilings['copy_bytes_per_second'] / 1e9:.1f} GB/s"),
    ]
    lines = [f"{name:<32}{value}" for name, value in rows]
    lines.append("matrix products, GFLOP/s; the fastest is the ceiling")
    for each in ceilings["products"]:
        shape = f"({each['rows']} x {each['inner']}) @ ({each['inner']} x {each['columns']})"
        lines.append(f"  {each['flops_per_second'] / 1e9:>10,.1f}  {shape:<36}{each['name']}")
    return "\n".join(lines)


def _is_training(found: dict[str, Any]) -> bool:
    return "parts_seconds" in found


def _of_training(found: dict[str, Any]) -> list[tuple[str, str]]:
    steps, step_s = found["steps"], found["step_seconds"]
    rows = [
        ("target tokens per second", f"{found['target_tokens_per_second']:,.1f}"),
        ("step", f"{1e3 * step_s:,.1f} ms, {found['target_tokens_per_step']:,.0f} target tokens"),
    ]
    rows += [
        (f"  {part}", f"{1e3 * seconds:,.1f} ms, {seconds / step_s:.1%}")
        for part, seconds in found["parts_seconds"].items()
    ]
    return [
        *rows,
        ("steps", _timed(steps)),
        ("fill", f"{found['fill']:.1%} of the processed tokens are not padding"),
        ("work", f"{found['flops_per_second'] / 1e9:,.1f} GFLOP/s"),
    ]


def _timed(numbers: dict[str, int]) -> str:
    dropped = numbers["dropped"]
    return f"{numbers['timed']} timed, {dropped} discarded because the machine was slow"


def _of_translating(found: dict[str, Any]) -> list[tuple[str, str]]:
    passes, load_s = found["passes"], found["load_seconds"]
    rows = [
        ("sentences per second", f"{found['sentences_per_second']:,.2f}"),
        ("target tokens per second", f"{found['target_tokens_per_second']:,.1f}"),
        ("sentences", f"{found['sentences']:,}, beam {found['beam']}, {found['lengths']} lengths"),
        ("one sentence", f"{1e3 * found['sentence_seconds']:,.1f} ms"),
        ("first sentence", f"{1e3 * found['first_translation_seconds']:,.1f} ms"),
    ]
    if load_s is not None:
        rows.append(("loading the model", f"{1e3 * load_s:,.1f} ms"))
    rows += [
        (f"decoding step, sentences: {number}", f"{milliseconds:,.2f} ms")
        for number, milliseconds in found.get("milliseconds_per_step", {}).items()
    ]
    return [
        *rows,
        ("passes", _timed(passes)),
        ("work", f"{found['flops_per_second'] / 1e9:,.1f} GFLOP/s"),
    ]
