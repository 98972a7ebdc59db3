"""Formats a benchmark result as text or as a bar chart."""

from html import escape
from pathlib import Path
from typing import Any

from nmt.errors import ArgumentError
from nmt.lines.files import check_output, opened_output

# a group of bars: the heading and, for each bar, its label, its value and whether it shows nmt
Bars = tuple[str, list[tuple[str, float, bool]]]

_LABEL, _BAR, _VALUE, _ROW = 300, 420, 90, 22  # widths and height in pixels
_OWN, _OTHER = "#c2410c", "#94a3b8"


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


def check_picture(path: Path | None) -> None:
    """Raises ArgumentError for the parameter `output` if `path` cannot be used for an SVG file."""
    if path is None:
        return
    check_output(path)
    if path.suffix != ".svg":
        raise ArgumentError("{output} {} must end in .svg.", path)


def write_picture(found: dict[str, Any], path: Path | None) -> None:
    """Writes an SVG bar chart of a benchmark result; does nothing if `path` is None."""
    if path is None:
        return
    with opened_output(path) as file:
        file.write(picture(found).encode())


def picture(found: dict[str, Any]) -> str:
    """Returns an SVG bar chart of the times, the total FLOP rate and the FLOP rates of products."""
    speed = f"{found['target_tokens_per_second']:,.0f} target tokens/s"
    if _is_training(found):
        title = f"Training, {speed}"
        times = [(name, 1e3 * s, True) for name, s in found["parts_seconds"].items()]
        parts: Bars = ("parts of a step, ms", times)
    else:
        title = f"Translating, {found['sentences_per_second']:,.1f} sentences/s, {speed}"
        times = [("first sentence", 1e3 * found["first_translation_seconds"], True)]
        times.append(("single sentence", 1e3 * found["sentence_seconds"], True))
        parts = ("latency, ms", times)
    rates = [("total", found["flops_per_second"] / 1e9, True)]
    rates += [
        (each["name"], each["flops_per_second"] / 1e9, False)
        for each in found["ceilings"]["products"]
    ]
    under = f"{found['device']}, {found['precision']}, {found['ceiling_share']:.0%} of the ceiling"
    return _drawn(title, under, [parts, ("GFLOP/s: total, and of single products", rates)])


def _drawn(title: str, under: str, groups: list[Bars]) -> str:
    lines = [_text(10, 26, title, "font-size='17'"), _text(10, 46, under, "fill='#475569'")]
    top = 60
    for heading, bars in groups:
        lines.append(_text(10, top + 24, heading, "font-weight='bold'"))
        top += 34
        greatest = max(value for _, value, _ in bars) or 1.0
        for label, value, is_own in bars:
            width = max(1, round(_BAR * value / greatest))
            colour = _OWN if is_own else _OTHER
            lines += [
                _text(_LABEL - 8, top + 15, label, "text-anchor='end'"),
                f"<rect x='{_LABEL}' y='{top + 3}' width='{width}' height='{_ROW - 6}' "
                f"fill='{colour}'/>",
                _text(_LABEL + width + 6, top + 15, f"{value:,.4g}", ""),
            ]
            top += _ROW
    width, height = _LABEL + _BAR + _VALUE, top + 12
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' "
        f"height='{height}' font-family='sans-serif' font-size='13'>"
    )
    background = f"<rect width='{width}' height='{height}' fill='white'/>"
    return "\n".join([head, background, *lines, "</svg>\n"])


def _text(x: float, y: float, text: str, attributes: str) -> str:
    return f"<text x='{x}' y='{y}' {attributes}>{escape(text)}</text>"
