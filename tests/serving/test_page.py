"""The page in headless Chromium; skipped without Chromium."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest

from nmt.evaluation.attention_maps import AttentionMaps, html_fragment
from nmt.reporting.report import render
from tests.conftest import make_settings
from tests.reporting.test_report import ONE, wmt_record
from tests.serving.models import PAIRS, learnt_translator
from tests.serving.served import served

CHROMIUM = Path("/usr/bin/chromium")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect
expect.set_options(timeout=20_000)
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no browser, {CHROMIUM}")

READS, SEES, SLEEPS, *_, LIVES = PAIRS
ARTICLE = f"{READS} {SEES}\n\n{SLEEPS}\n\n{LIVES}"
WORDS = "#target .unit"
BYTES = "The child buys two apples."


@pytest.fixture(scope="module")
def server(tiny_data, tmp_path_factory) -> Iterator[str]:
    """The address of a server with a small model."""
    config = make_settings(tiny_data, tmp_path_factory.mktemp("page"), decoding__beam=4)
    with served(learnt_translator(config, tiny_data)) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as engine:
        found = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def visit(browser, server):
    """Returns a function that opens the page; fails if there were errors or requests elsewhere."""
    contexts, wrong = [], []

    def opened(fragment: str = "", *, clock: bool = False, **options):
        context = browser.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(20_000)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.on("console", lambda said: "Content Security" in said.text and wrong.append(said.text))
        page.on("request", lambda sent: sent.url.startswith(server) or wrong.append(sent.url))
        if clock:  # installed before the page sets its first timer, so that `pause` stops them all
            page.clock.install(time=0)
        page.goto(server + fragment)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


def translate(page, text: str) -> None:
    """Enters a text and waits until the microscope shows its translation."""
    page.fill("#source", text)
    answered = "text => decodeURIComponent(location.hash).startsWith('#text=' + text)"
    page.wait_for_function(answered, arg=text)
    page.wait_for_selector(
        "#target[aria-busy=false]"
    )  # the link of the opening text may be the same
    expect(page.locator("#target")).to_have_text(PAIRS.get(text, re.compile(".")))
    page.wait_for_selector("#views:not(.pending) #tokens .chip")


def held(page, text: str):
    """Enters a text and returns its request, which the caller must continue or abort."""
    requests: list = []
    page.route("**/api/translate", lambda route: requests.append(route))
    page.fill("#source", text)
    while not requests:  # the handler runs only while waiting for the page
        page.wait_for_timeout(20)
    return requests[0]


def show_search(page) -> None:
    """Scrolls to the beam search, which is requested when it becomes visible."""
    page.locator("#search-section").scroll_into_view_if_needed()
    page.wait_for_selector("#search:not(.pending) .tree svg")


def asked_and_answered(page, path: str, section: str, text: str):
    """Translates a text, scrolls to a section, and returns the answer that the section shows."""

    def is_it(got) -> bool:
        return got.url.endswith(path) and got.request.post_data_json["text"] == text

    with page.expect_response(is_it) as answer:
        translate(page, text)
        page.locator(section).scroll_into_view_if_needed()
    return answer.value.json()


def pause(page) -> None:
    """Runs all timers of a visit with a `clock` and stops it; `page.clock.run_for` moves it on."""
    page.clock.pause_at(1000)


def asked(page, path: str) -> list:
    """Returns a list to which the page's later requests to a path are added."""
    found: list = []
    page.on("request", lambda sent: sent.url.endswith(path) and found.append(sent))
    return found


def test_typing_is_translated_when_it_pauses_and_stale_answers_are_dropped(visit):
    page = visit(clock=True)
    translate(page, READS)
    pause(page)
    sent = asked(page, "/api/translate")
    page.locator("#source").press_sequentially(" A dog")
    page.clock.run_for(249)
    expect(page.locator("#target")).to_have_class("stale")  # the dimmed old answer
    expect(page.locator("#target")).to_have_text(PAIRS[READS])
    assert sent == []
    held: list = []
    page.route("**/api/translate", lambda route: held.append(route))
    with page.expect_request("**/api/translate"):
        page.clock.run_for(1)
    with page.expect_event("requestfailed") as aborted:
        page.locator("#source").press_sequentially(" sleeps.")
    assert aborted.value.post_data_json["text"] == f"{READS} A dog"
    page.unroute("**/api/translate")
    page.clock.run_for(250)
    expect(page.locator("#target")).to_have_text(f"{PAIRS[READS]} {PAIRS[SLEEPS]}")
    expect(page.locator("#target")).not_to_have_class("stale")
    assert len(sent) == 2
    page.fill("#source", "")
    page.clock.run_for(250)
    expect(page.locator("#target")).to_have_text("")
    expect(page.locator("#microscope")).to_be_hidden()


def test_a_text_that_is_too_long_stays_whole_and_is_not_sent(visit):
    page = visit()
    translate(page, READS)
    sent = asked(page, "/api/translate")
    page.fill("#source", "ä" * 20_001)
    expect(page.get_by_role("alert")).to_contain_text("20,001 characters, but at most 20,000")
    assert len(page.input_value("#source")) == 20_001 and sent == []
    expect(page.locator("#belongs")).to_have_text(f"Still the translation of {READS}")
    expect(page.locator("#microscope")).to_have_class("stale")
    page.fill("#source", SLEEPS)
    expect(page.locator("#target")).to_have_text(PAIRS[SLEEPS])
    expect(page.get_by_role("alert")).to_be_hidden()
    expect(page.locator("#belongs")).to_be_hidden()


def test_work_is_shown_while_it_lasts_and_nothing_old_passes_for_new(visit):
    page = visit()
    translate(page, READS)
    route = held(page, SLEEPS)
    expect(page.locator("#working")).to_be_visible()
    expect(page.locator("#target")).to_have_attribute("aria-busy", "true")
    expect(page.locator("#belongs")).to_be_hidden()
    page.locator(WORDS).nth(1).click()  # a word of the old translation
    page.locator(WORDS).nth(1).press("Enter")
    expect(page.locator(".menu")).to_have_count(0)
    route.abort()
    expect(page.locator("#belongs")).to_have_text(f"Still the translation of {READS}")
    expect(page.locator("#working")).to_be_hidden()
    expect(page.locator("#target")).to_have_attribute("aria-busy", "false")
    page.unroute("**/api/translate")
    page.get_by_role("button", name="Try now").click()
    expect(page.locator("#target")).to_have_text(PAIRS[SLEEPS])
    expect(page.locator("#microscope")).not_to_have_class("stale")
    page.locator(WORDS).nth(1).click()
    expect(page.locator(".menu")).to_have_count(1)


def test_an_exported_model_has_a_calm_sentence_and_no_microscope(visit):
    page = visit()
    page.wait_for_selector("#tokens .chip")  # a reload must not abort a request
    wrong: list = []
    page.on("response", lambda got: got.status >= 400 and wrong.append(got.url))

    def exported(route):
        route.fulfill(json=route.fetch().json() | {"microscope": False})

    page.route("**/api/model", exported)
    page.reload()
    inside = asked(page, "/api/inspect")
    page.fill("#source", SEES)  # not the opening text, whose answer could come later
    expect(page.locator("#target")).to_have_text(PAIRS[SEES])
    expect(page.locator("#no-microscope")).to_be_visible()
    expect(page.locator("#microscope")).to_be_hidden()
    page.locator(WORDS).first.hover()
    page.locator(WORDS).first.click()
    expect(page.get_by_role("menuitemradio").first).to_be_focused()
    assert wrong == inside == []


def test_an_article_keeps_its_paragraphs_and_shows_which_sentence_is_which(visit):
    page = visit()
    translate(page, ARTICLE)
    expected = f"{PAIRS[READS]} {PAIRS[SEES]}\n\n{PAIRS[SLEEPS]}\n\n{PAIRS[LIVES]}"
    assert page.locator("#target").evaluate("one => one.textContent") == expected
    expect(page.locator("#target .sentence")).to_have_count(4)
    page.locator("#target").get_by_role("button", name="schläft").hover()
    expect(page.locator("#target .sentence.chosen")).to_have_text(PAIRS[SLEEPS])
    expect(page.locator("#backdrop .sentence.chosen")).to_have_text(SLEEPS)
    expect(page.locator("#which")).to_contain_text("Sentence 1 of 4")  # hovering changes nothing
    page.locator("#target").get_by_role("button", name="schläft").click()
    page.keyboard.press("Escape")
    expect(page.locator("#which")).to_contain_text("Sentence 3 of 4")
    expect(page.locator("#which")).to_contain_text(SLEEPS)
    expect(page.locator("#tokens-target")).to_have_text(re.compile("15 tokens"))
    chips = page.locator("[aria-labelledby=tokens-target] .chip").all_text_contents()
    assert "".join(chips[:-1]).replace("▁", " ").strip() == PAIRS[SLEEPS]


def test_pointing_shows_where_the_model_looked(visit):
    page = visit()
    translate(page, READS)
    page.locator(WORDS, has_text="Buch").hover()
    expect(page.locator("#says")).to_contain_text("To write “Buch”, the model attended to “")
    expect(page.locator("#says")).to_contain_text("cross-attention, layer 2, mean of the heads")
    weights = page.locator("#backdrop .unit").evaluate_all(
        "all => all.map((one) => Number(one.style.getPropertyValue('--weight')))"
    )
    assert 0.5 < sum(weights) <= 1.01
    # on the source side, a text area covers the words, so the mouse is moved by coordinates
    box = page.locator("#backdrop .unit").nth(1).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator("#says")).to_contain_text("“man” received")
    expect(page.locator("[aria-labelledby=tokens-source] .chip.marked")).not_to_have_count(0)
    page.mouse.move(1, 1)
    expect(page.locator("#says")).to_have_text("")


def test_an_alternative_is_gone_on_from_by_keyboard_alone(visit):
    page = visit()
    translate(page, READS)
    page.locator(WORDS).first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    items = page.get_by_role("menuitemradio")
    expect(items.first).to_be_focused()
    shares = items.evaluate_all("all => all.map((one) => one.style.getPropertyValue('--share'))")
    assert sorted(map(float, shares), reverse=True) == [float(share) for share in shares]
    expect(items.first).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(WORDS).nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(items.first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".menu .more")).to_be_focused()  # unlikely words are folded
    page.keyboard.press("Enter")
    chosen = page.evaluate("document.activeElement.querySelector('.word').textContent")
    with page.expect_request("**/api/translate") as sent:
        page.keyboard.press("Enter")
    prefix = sent.value.post_data_json["prefix"]
    assert prefix.startswith("Der") and prefix.endswith(chosen)
    assert not PAIRS[READS].startswith(prefix)
    expect(page.locator("#target")).to_have_text(re.compile(f"^{re.escape(prefix)}"))
    page.get_by_role("button", name="Undo my choice").click()
    expect(page.locator("#target")).to_have_text(PAIRS[READS])


def test_tokens_have_bytes_and_probabilities(visit):
    page = visit()
    translate(page, BYTES)
    byte = page.locator("[aria-labelledby=tokens-target] .chip.byte").first
    assert re.fullmatch(r"byte C3, probability [\d.]+%", byte.get_attribute("aria-label"))
    byte.click()
    said = page.locator("#token-says")
    expect(said).to_contain_text("a byte, byte C3, part of “Ä”, probability")
    page.locator("#tokens summary").click()
    expect(page.locator("#tokens tbody tr").last).to_be_visible()
    rows = page.locator("#tokens tbody tr").all_inner_texts()
    assert any("▁a" in row and "20 61" in row for row in rows)
    assert (
        sum(row.startswith("written") for row in rows)
        == page.locator("[aria-labelledby=tokens-target] .chip").count()
    )


def test_attention_by_layer_and_head_and_as_a_table(visit):
    page = visit()
    translate(page, SLEEPS)
    thumbs = page.locator(".thumb")
    expect(thumbs).to_have_count(2 * (2 + 1))  # per layer: two heads and their mean
    sent = asked(page, "/api/inspect")
    page.get_by_role("button", name="Decoder: Masked self-attention").click()
    expect(page.locator(".triangle")).to_be_visible()
    expect(page.locator(".large")).to_contain_text("causal mask")
    thumbs.nth(1).click()
    expect(thumbs.nth(1)).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(thumbs.nth(4)).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".large .says")).to_contain_text("Decoder attention, layer 2, head 1")
    page.locator(".large").get_by_text("As a table").click()
    expect(page.locator(".large tbody tr").first).to_be_visible()
    rows = [row.split("\t") for row in page.locator(".large tbody tr").all_inner_texts()]
    for place, (_, *cells) in enumerate(rows, 1):
        weights = [float(cell.strip("%< ")) for cell in cells[:place]]
        assert sum(weights) == pytest.approx(100, abs=3)
        assert {*cells[place:]} <= {"masked"}  # later tokens
    painted = page.locator(".map canvas").evaluate("""canvas => {
        const {width, height} = canvas, pixels = canvas.getContext("2d");
        const at = (x, y) => pixels.getImageData(x * width, y * height, 1, 1).data[3];
        return [at(0.01, 0.01), at(0.95, 0.05)];
    }""")
    assert painted[0] > 200 and painted[1] == 0
    assert [each.post_data_json["kind"] for each in sent] == ["decoder"]
    page.route("**/api/*", lambda route: route.abort())
    page.get_by_role("button", name="Encoder: Self-attention").click()
    again = page.get_by_role("button", name="Try again")
    expect(again).to_have_count(2)
    expect(page.locator("#walk-token")).to_have_text("")
    expect(thumbs.first).to_be_hidden()  # those of the decoder
    page.unroute("**/api/*")
    again.last.click()
    again.first.click()
    expect(page.locator("#walk-token")).to_contain_text("Encoder, reading")
    expect(page.locator(".large .says")).to_contain_text("Encoder attention, layer 2, head 1")
    expect(again).to_have_count(0)


def test_the_same_view_in_a_file_with_two_models_weights(browser):
    """Files of `nmt attention` and `nmt report` have several views, each with its own weights."""
    random = np.random.default_rng(1)
    pieces = ["▁a", "</s><b>", "</s>"]
    all_maps = []
    for _ in range(2):
        encoder, decoder, cross = random.dirichlet(np.ones(3), (3, 2, 4, 3)).astype(np.float32)
        encoder[0, 3] = encoder[0, 0]
        all_maps.append(
            AttentionMaps(pieces, pieces, ["<s>", *pieces[:-1]], encoder, decoder, cross)
        )
    page = browser.new_page(viewport={"width": 1000, "height": 1600})
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda sent: wrong.append(sent.url))
    page.set_content("".join(map(html_fragment, all_maps)))
    for number, maps in enumerate(all_maps):
        view = page.locator(".attention-view").nth(number)
        view.get_by_label("Encoder", exact=True).check()
        expect(view.locator(".thumb")).to_have_count(2 * (4 + 1))
        view.get_by_text("As a table").click()
        expect(view.locator("td")).to_have_count(9)
        cells = view.locator("td").all_inner_texts()
        shown = np.array([float(cell.strip("%< ")) / 100 for cell in cells]).reshape(3, 3)
        np.testing.assert_allclose(shown, maps.encoder[-1].mean(0), atol=0.01)
        view.get_by_text("Compare the heads").click()
        rows = view.locator("details").nth(1).locator("tbody tr")
        expect(rows).to_have_count(2 * 4)
        compared = {name: cells for name, *cells in (r.split("\t") for r in rows.all_inner_texts())}
        heads = maps.encoder[1]
        by = [abs(heads[2] - other).sum(-1).mean() / 2 for other in heads[[0, 1, 3]]]
        *places, near = compared["layer 2, head 3"]
        assert [float(cell.strip("%")) / 100 for cell in places] == pytest.approx(
            [np.diagonal(heads[2], offset).mean() for offset in (-1, 0, 1)]
            + [heads[2, :, 2].mean()],
            abs=0.01,
        )
        assert near.startswith(f"head {[1, 2, 4][np.argmin(by)]}, differs by")
        assert view.get_by_text("of their attention").count() == 0
        view.locator(".thumb").nth(3).click()  # head 3, after the mean and two heads
        expect(view.get_by_text("Heads 1 and 4 of layer 1 differ by < 0.1%")).to_be_visible()
        view.locator(".map canvas").hover(position={"x": 30, "y": 10})
        expect(view.locator(".says")).to_contain_text("“▁a” gives “</s><b>”")
        said = float(view.locator(".says").inner_text().split()[-4].strip("%<")) / 100
        assert said == pytest.approx(maps.encoder[0, 2, 0, 1], abs=0.01)
        assert view.locator(".marked").all_inner_texts() == ["</s><b>", "▁a"]
    page.close()
    assert wrong == []


def test_the_curves_of_a_report_are_smoothed_and_zoomed(browser):
    log = [{"step": n, "loss": 3.0 + n % 2} for n in range(1, 101)]
    report = render([replace(wmt_record(log, ONE, bleu=1.0), model=None)], print)
    page = browser.new_page(viewport={"width": 1000, "height": 2000})
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.set_content(report)
    plot = page.locator(".by-step .plot")

    def told(x: float) -> str:
        box = plot.bounding_box()
        page.mouse.move(box["x"] + x * box["width"], box["y"] + 9)
        return " ".join(page.locator(".tip").inner_text().split())

    assert [told(0.51), told(0.999)] == ["step 51 training 4", "step 100 training 3"]
    page.get_by_role("slider", name="Smoothing").fill("0.9")
    mean = np.array([0.9 ** (100 - n) * (3.0 + n % 2) for n in range(1, 101)]).sum() / 10
    assert told(0.999) == f"step 100 training {mean / (1 - 0.9**100):.4g}"
    assert told(0.02) == f"step 2 training {(0.09 * 4 + 0.1 * 3) / (1 - 0.9**2):.4g}"
    told(0.297)
    page.mouse.down()
    told(0.605)
    page.mouse.up()
    ends = [float(page.get_by_label(name, exact=True).input_value()) for name in ("From", "to")]
    assert ends == pytest.approx([30, 60], abs=1)
    assert told(0.01).startswith("step 30") and told(0.99).startswith("step 60")
    page.get_by_role("button", name="Whole run").click()
    assert told(0.999).startswith("step 100")
    page.close()
    assert wrong == []


def test_the_search_as_a_tree_and_another_alpha(visit):
    page = visit()
    tree = asked_and_answered(page, "/api/search", "#search-section", READS)
    nodes = [node for step in tree["steps"] for node in step]
    expect(page.locator(".node")).to_have_count(len(nodes))
    for state in ("live", "pruned", "finished"):
        assert page.locator(f".node.{state}").count() == sum(n["state"] == state for n in nodes) > 0
    assert page.locator(".node.marked").count() == tree["finished"][0]["length"]
    listed = page.locator(".ranking button")
    assert listed.first.inner_text() == PAIRS[READS]
    for alpha in (0, 0.6, 2):
        page.locator("#alpha").evaluate(f"""one => {{
            one.value = {alpha}; one.dispatchEvent(new Event("input")); }}""")
        order = sorted(
            tree["finished"],
            key=lambda each: each["log_probability"] / ((5 + each["length"]) / 6) ** alpha,
            reverse=True,
        )
        assert listed.all_inner_texts() == [each["text"] or "(empty)" for each in order[:8]]
    page.locator(".node.finished").last.focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#search .says")).to_contain_text("survivor")
    page.locator("#search summary").click()
    expect(page.locator("#search tbody tr")).to_have_count(len(nodes))
    with page.expect_request("**/api/search") as again:
        page.locator("#beam").select_option("2")
    assert again.value.post_data_json["beam"] == 2
    with page.expect_request("**/api/search") as other:
        translate(page, SEES)
    assert "beam" not in other.value.post_data_json  # another sentence has the model's own again


def test_the_challenge_to_its_end(visit):
    page = visit()
    translate(page, LIVES)
    page.get_by_role("button", name="Play with this sentence").click()
    turns, best = 0, ""
    while best != "end of the sentence":
        if turns:
            page.get_by_role("button", name="Next token").click()
        expect(page.locator(".guess")).to_have_count(4)
        page.locator(".guess").first.click()
        expect(page.locator(".bars li")).to_have_count(5)
        best = page.locator(".bars .piece").first.inner_text()
        turns += 1
    page.get_by_role("button", name="To the end").click()
    expect(page.locator("#guess")).to_contain_text(f"of {turns} tokens of {PAIRS[LIVES]}")


def test_when_the_server_is_gone_it_is_said_kindly_and_tried_again(visit):
    page = visit()
    translate(page, READS)
    page.route("**/api/**", lambda route: route.abort("connectionrefused"))
    page.fill("#source", SLEEPS)
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("The server does not answer. Your text is still here.")
    assert page.locator("#source").input_value() == SLEEPS
    expect(page.locator("#target")).to_have_text(PAIRS[READS])
    page.unroute("**/api/**")
    expect(page.locator("#target")).to_have_text(PAIRS[SLEEPS])  # without user action
    expect(alert).to_be_hidden()
    refusal = {"error": "too many requests wait"}
    page.route("**/api/**", lambda route: route.fulfill(status=429, json=refusal))
    page.fill("#source", READS)
    expect(alert).to_contain_text("The server is busy.")
    page.unroute("**/api/**")
    page.get_by_role("button", name="Try now").click()
    expect(page.locator("#target")).to_have_text(PAIRS[READS])
    refusal = {"error": "more than 50,000 characters in one request"}
    page.route("**/api/**", lambda route: route.fulfill(status=400, json=refusal))
    page.fill("#source", SLEEPS)
    expect(alert).to_have_text(refusal["error"])


def test_a_link_holds_the_text_and_text_is_never_markup(visit):
    attack = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    page = visit(f"#text={quote(attack)}")
    expect(page.locator("#backdrop .unit").first).to_be_attached()
    assert page.locator("#source").input_value() == attack
    assert page.evaluate("document.querySelectorAll('img, main script').length") == 0
    told = {"text": attack, "sentences": [{"source": [0, 3], "target": [0, len(attack)]}]}
    page.route("**/api/translate", lambda route: route.fulfill(json={"translations": [told]}))
    page.fill("#source", "abc")
    expect(page.locator("#target")).to_have_text(attack)
    page.wait_for_selector("#tokens .chip")
    assert page.evaluate("document.querySelectorAll('img, main script').length") == 0
    assert page.url.endswith("#text=abc")
    page.evaluate(f"location.hash = 'text={quote(READS)}'")
    expect(page.locator("#source")).to_have_value(READS)
    page.evaluate("location.hash = 'text=%E0%A4%A'")  # invalid UTF-8 is ignored
    expect(page.locator("#source")).to_have_value(READS)


def test_only_finished_sentences_are_read_out(visit):
    page = visit(clock=True)
    spoken = page.locator("#announce")
    expect(page.locator("#target")).to_have_text(PAIRS[READS])
    pause(page)
    expect(spoken).to_have_text("")  # nobody asked for the opening sentence
    page.fill("#source", f"{READS} {SEES} A dog")
    page.clock.run_for(250)
    expect(page.locator("#target")).to_have_text(re.compile(f"^{PAIRS[READS]} {PAIRS[SEES]} ."))
    expect(spoken).to_have_text("")
    page.clock.run_for(1000)
    expect(spoken).to_have_text(PAIRS[SEES])
    page.fill("#source", f"{SEES} {SLEEPS}")
    page.clock.run_for(250)
    expect(page.locator("#target")).to_have_text(f"{PAIRS[SEES]} {PAIRS[SLEEPS]}")
    page.clock.run_for(1000)
    expect(spoken).to_have_text(PAIRS[SLEEPS])


def test_words_are_found_in_text_that_the_model_saw_otherwise(visit):
    """Covers decomposed letters, unusual spaces, invisible characters, and byte tokens."""
    page = visit()
    found = page.evaluate("""() => {
        const { tokensOf, units } = $text;
        const token = (text) => ({ text, piece: text, bytes: [] });
        const side = { text: "Ü 😀 b", tokens: ["Ü", " ", "", "", "", "😀", " b", ""].map(token) };
        const text = "  U\\u0308\\u00a0\\n😀 \\u00ad b ";
        return [tokensOf(units(text), text, side), tokensOf(units("a b c d"), "a b c d", side)];
    }""")
    units, others = found
    assert [each for each in units if each] == [[0, 1], [2, 6], [6, 7]]
    assert not any(others)


@pytest.mark.parametrize("width", [720, 1280])
def test_nothing_moves_that_is_pointed_at(visit, width):
    """Hovering names the right row of the map, and no part of the page moves."""
    page = visit(viewport={"width": width, "height": 1000})
    translate(page, BYTES)  # its last word has byte tokens, described in several lines
    page.locator("#walk-section").scroll_into_view_if_needed()
    page.wait_for_selector("#step h4")
    show_search(page)
    places = """() => ["h2", "h3", ".map", ".heat", ".chip", "#target", ".thumb", "footer"].flatMap(
        (name) => [...document.querySelectorAll(name)].map((one) => {
            const {x, y, width, height} = one.getBoundingClientRect();
            return [name, x, y + scrollY, width, height];
        }))"""
    canvas = page.locator(".map canvas")
    canvas.scroll_into_view_if_needed()
    before = page.evaluate(places)
    pieces = page.locator(".heat .queries span").all_inner_texts()
    box = canvas.bounding_box()
    for n, piece in enumerate(pieces):
        page.mouse.move(box["x"] + 5, box["y"] + (n + 0.5) * box["height"] / len(pieces))
        expect(page.locator(".large .says")).to_contain_text(f"“{piece}” gives")
        assert page.locator(".heat .queries .marked").all_inner_texts() == [piece]
        assert page.evaluate(places) == before
    pointed_at = page.locator(WORDS).all() + page.locator(".chip").all()
    for each in pointed_at if width == 720 else pointed_at[-8:]:
        each.hover()
        expect(page.locator("#token-says")).not_to_have_text("Choose a token.")
        assert page.evaluate(places) == before


def test_what_cannot_be_looked_into_clears_what_was_shown(visit):
    page = visit()
    translate(page, READS)
    expect(page.locator("#views")).to_be_visible()
    long = "The man " * 40 + "sleeps."
    page.fill("#source", f"{READS} {long}")
    expect(page.locator("#target .sentence")).to_have_count(2)
    page.get_by_role("button", name="Next sentence").click()
    expect(page.locator("#which .blind")).to_contain_text("tokens")
    assert page.locator("#views").bounding_box() is None  # takes no space
    page.get_by_role("button", name="Previous sentence").click()
    expect(page.locator("#views")).to_be_visible()
    expect(page.locator("#which")).to_contain_text(READS)
    page.fill("#source", f"{READS} {SEES}")
    expect(page.locator("#target .sentence").nth(1)).to_have_text(PAIRS[SEES])
    requests: list = []
    page.route("**/api/inspect", lambda route: requests.append(route))
    with page.expect_request("**/api/inspect"):
        page.get_by_role("button", name="Next sentence").click()
    expect(page.locator("#which")).to_contain_text(SEES)
    expect(page.locator("#tokens")).to_be_hidden()  # of the first sentence
    requests[0].continue_()
    expect(page.locator("#tokens")).to_be_visible()


def test_a_choice_stays_with_its_sentence_and_is_in_the_link(visit):
    page = visit()
    translate(page, f"{READS} {SEES}")
    first = page.locator("#target .sentence").first
    page.locator(WORDS).nth(1).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitemradio").first).to_be_focused()
    page.keyboard.press("End")
    page.keyboard.press("Enter")  # unfolds less likely words
    page.keyboard.press("Enter")
    expect(first).not_to_have_text(PAIRS[READS])
    expect(page.locator(WORDS).nth(1)).to_be_focused()  # the word that was replaced
    chosen = first.inner_text()
    page.fill("#source", f"{READS} {SLEEPS}")
    expect(page.locator("#target .sentence").nth(1)).to_have_text(PAIRS[SLEEPS])
    expect(first).to_have_text(chosen)
    assert "&choice=1%3A" in page.url
    other = visit(page.url[page.url.index("#") :])
    expect(other.locator("#target .sentence").first).to_have_text(chosen)
    expect(other.locator("#target .sentence").nth(1)).to_have_text(PAIRS[SLEEPS])
    other.get_by_role("button", name="Next sentence").click()
    expect(other.get_by_role("button", name="Undo my choice")).to_be_hidden()  # no choice here
    other.get_by_role("button", name="Previous sentence").click()
    other.get_by_role("button", name="Undo my choice").click()
    expect(other.locator("#target .sentence").first).to_have_text(PAIRS[READS])
    assert "choice=" not in other.url


def test_one_word_is_bold_and_it_is_the_one_that_stands_there(visit):
    page = visit()
    translate(page, LIVES)
    for word in page.locator(WORDS).all():
        word.click()
        expect(page.get_by_role("menuitemradio").first).to_be_focused()
        checked = page.locator(".menu [aria-checked=true] .word")
        assert checked.all_inner_texts() == [word.inner_text()]
        page.keyboard.press("Escape")


def test_the_game_hides_its_answers(visit):
    page = visit()
    translate(page, READS)
    show_search(page)
    page.get_by_role("button", name="Play with this sentence").click()
    expect(page.locator(".guess")).to_have_count(4)
    visible = page.evaluate("""() => [...document.querySelectorAll("main *")].filter((one) =>
        one.checkVisibility({visibilityProperty: true}) && !one.closest("#guess, .field")
        && one.childElementCount === 0).map((one) => one.textContent).join(" ")""")
    assert "Translation" not in visible or "Buch" not in visible
    assert not any(part in visible for part in ("Mann", "liest", "Buch", "▁M"))
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#target")).to_be_visible()


def test_the_tree_scrolls_to_what_is_chosen(visit):
    page = visit(viewport={"width": 700, "height": 900})
    translate(page, LIVES)
    show_search(page)
    for choice in page.locator(".ranking button").all()[:3]:
        choice.click()
        shown, box = (page.locator(at).bounding_box() for at in (".node.finished.marked", ".tree"))
        assert box["x"] <= shown["x"] and shown["x"] + shown["width"] <= box["x"] + box["width"]


def test_text_runs_from_right_to_left_where_it_does(visit):
    page = visit()
    page.fill("#source", "האיש קורא ספר.")
    page.wait_for_selector("#backdrop .unit")
    ends = page.evaluate("""() => {
        const unit = document.querySelector("#backdrop .unit").getBoundingClientRect();
        const box = document.querySelector("#backdrop").getBoundingClientRect();
        const { direction } = getComputedStyle(document.querySelector("#source"));
        return [box.right - unit.right < 40, direction];
    }""")
    assert ends == [True, "rtl"]


def test_a_wide_window_is_used_and_a_lecture_has_large_type(visit):
    page = visit(viewport={"width": 1920, "height": 1080})
    translate(page, READS)
    assert page.locator("main").bounding_box()["width"] > 1700
    size = "one => parseFloat(getComputedStyle(one).fontSize)"
    assert page.locator(".heat").evaluate(size) >= 14
    page.get_by_role("button", name="Lecture size").click()
    assert page.locator(".heat").evaluate(size) >= 18
    heights = page.locator("#views > section").evaluate_all(
        "all => all.map((one) => one.offsetHeight)"
    )
    assert min(heights) >= 1080
    assert page.evaluate("document.documentElement.scrollWidth") == 1920


def test_it_opens_with_a_translation_and_says_what_the_model_is(visit):
    """Also if the microscope cannot be loaded at once."""
    page = visit("icon.svg")
    page.route("**/inside.js", lambda route: route.abort(), times=1)
    page.goto(page.url.replace("icon.svg", ""))
    expect(page.locator("#target")).not_to_have_text("")
    expect(page.locator("#model")).to_contain_text("translates English to German with")
    expect(page.locator("#tokens .chip").first).to_be_visible()
    page.locator("#walk-section").scroll_into_view_if_needed()
    expect(page.locator("#step h4")).to_have_text(re.compile("^1 of 30"))


@pytest.mark.parametrize("fragment, answer", [("", "model"), ("#text=A dog sleeps.", "translate")])
def test_the_first_translation_takes_two_requests(visit, fragment, answer):
    """Each sequential request costs a round trip, so nothing else may be required."""
    page = visit("icon.svg")
    other = re.compile(rf"/api/(?!{answer})|\.(js|css|svg)$")
    page.route(other, lambda route: route.abort())
    page.goto(page.url.replace("icon.svg", fragment), wait_until="commit")
    expect(page.locator("#target .unit").first).to_be_visible()


def test_doubt_is_told_above_the_translation(visit):
    page = visit()
    told = {"text": "der der der", "doubts": [], "sentences": [
        {"source": [0, 3], "target": [0, 11], "doubts": ["repeats", "unsure"]}]}  # fmt: skip
    page.route("**/api/translate", lambda route: route.fulfill(json={"translations": [told]}))
    page.fill("#source", "abc")
    expect(page.locator("#doubts")).to_contain_text("The translation repeats itself")
    expect(page.locator("#doubts")).to_contain_text("The model is uncertain")
    page.unroute("**/api/translate")
    page.fill("#source", READS)
    expect(page.locator("#doubts")).to_be_hidden()


def test_a_token_is_walked_through_the_model(visit):
    """Visits all steps by keyboard; tables show the server's numbers, and a link opens a step."""
    page = visit()
    found = asked_and_answered(page, "/api/steps", "#walk-section", READS)
    expect(page.locator("#step h4")).to_have_text(re.compile("^1 of 30"))
    expect(page.locator("#walk-token")).to_contain_text("layer 1, head 1")
    page.get_by_role("button", name="Forward", exact=True).focus()
    seen = {}
    for number in range(1, 31):
        expect(page.locator("#step h4")).to_have_text(re.compile(f"^{number} of 30"))
        title = page.locator("#step h4").inner_text().partition(": ")[2]
        assert page.locator("#figure .part.current").count() == 1
        assert page.locator("#step .equation code").inner_text()
        assert re.match(
            r"https://arxiv.org/html/1706.03762v7#S\d\.SS\d",
            page.locator("#step .equation a").get_attribute("href"),
        )
        if number == 1:
            page.locator("#step summary").click()
        expect(page.locator("#step tbody tr").first).to_be_visible()  # created when opened
        rows = page.locator("#step tbody tr").all_inner_texts()
        seen.setdefault(title, []).append([row.replace("−", "-").split("\t") for row in rows])
        page.keyboard.press("ArrowRight")
    expect(page.get_by_role("button", name="Forward", exact=True)).to_be_disabled()
    shown = [float(row[1]) for row in seen["A row of the embedding matrix"][0]]
    assert shown == pytest.approx(found["embedding"]["row"], abs=6e-5)
    for kind, (*rows, total) in zip(("self", "cross"), seen["Softmax"], strict=True):
        weights = [0 if row[3] == "masked" else float(row[3]) for row in rows]
        shares = [float(row[2]) / float(total[2]) for row in rows]
        assert shares == pytest.approx(found[kind]["weights"], abs=6e-4)
        assert weights == pytest.approx(found[kind]["weights"], abs=6e-5)
    read = [float(row[1]) for row in seen["The query of cross-attention"][0]]  # x
    assert read == pytest.approx(found["self"]["normalized"], abs=6e-5)
    hidden = [row[2] for row in seen["The mask"][0]]
    assert hidden == ["yes" if each else "no" for each in found["self"]["allowed"]]
    assert "no" in hidden and {row[2] for row in seen["The mask"][1]} == {"yes"}
    best = [float(row[3]) for row in seen["The ten most likely tokens"][0][:-1]]
    assert best == pytest.approx([e["probability"] for e in found["output"]["likeliest"]], abs=6e-5)
    taught = float(seen["Label smoothing"][0][0][1])
    assert taught == pytest.approx(found["output"]["target"], abs=6e-5)
    page.get_by_role("button", name="Encoder: Self-attention").click()
    expect(page.locator("#walk-token")).to_contain_text("Encoder, reading")
    expect(page.locator("#step h4")).to_contain_text("The query")
    expect(page.locator(".large .wide").first).to_have_attribute(
        "aria-label", re.compile("^Encoder")
    )
    page.get_by_role("button", name="Encoder: layer 1").click()
    expect(page.locator("#walk-token")).to_contain_text("layer 1")
    other = visit(page.url[page.url.index("#") :])
    other.wait_for_selector("#tokens .chip")
    other.locator("#walk-section").scroll_into_view_if_needed()
    expect(other.locator("#walk-token")).to_have_text(page.locator("#walk-token").inner_text())
    expect(other.locator("#step h4")).to_contain_text("The query")


@pytest.mark.parametrize(
    "place, shown", [("4.6.8", "layer 2, head 2"), ("0.0.0", "layer 1, head 1")]
)
def test_a_link_opens_a_step_although_the_model_has_fewer_layers_and_heads(visit, place, shown):
    link = f"#text={quote(READS)}&step=target.{place}.cross-query"
    first, second = visit(link), visit()
    second.wait_for_selector("#tokens .chip")
    second.evaluate("link => { location.hash = link; }", link)  # now the model is known
    for page in (first, second):
        page.wait_for_selector("#tokens .chip")
        page.locator("#walk-section").scroll_into_view_if_needed()
        expect(page.locator("#step h4")).to_contain_text("The query of cross-attention")
        expect(page.locator("#walk-token")).to_contain_text(shown)


def test_it_fits_a_telephone(visit):
    page = visit(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    translate(page, ARTICLE)
    show_search(page)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    source, target = (page.locator(name).bounding_box() for name in ("#source", "#target"))
    assert target["y"] >= source["y"] + source["height"]
    page.locator(WORDS, has_text="Mann").tap()
    menu = page.locator(".menu")
    expect(page.get_by_role("menuitemradio").first).to_be_visible()
    box = menu.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 360


def test_nobody_is_shut_out(visit):
    """axe-core checks most accessibility guidelines for web pages."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = visit()
    translate(page, f"{READS}\n\n{SLEEPS}")
    show_search(page)
    for summary in page.locator("#tokens summary, .large summary").all():
        summary.click()
    page.get_by_role("button", name="Decoder: Masked self-attention").click()
    page.wait_for_selector("#step h4")
    page.locator("#step summary").click()
    page.locator("#target").get_by_role("button", name="Hund").first.click()
    page.wait_for_selector("[role=menuitemradio]")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        paper = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert (int(re.findall(r"\d+", paper)[0]) < 60) == (scheme == "dark")
        assert violations(axe, page) == []
    page.keyboard.press("Escape")
    page.route("**/api/translate", lambda route: route.abort())
    page.get_by_role("button", name="Play with this sentence").click()
    page.locator(".guess").first.click()
    page.fill("#source", SEES)
    expect(page.get_by_role("alert")).to_be_visible()
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        assert violations(axe, page) == []


def violations(axe, page) -> list[str]:
    """Returns the violations with their elements."""
    return [
        f"{each['id']}: {node['html'][:150]} {node['failureSummary'][:200]}"
        for each in axe.run(page).response["violations"]
        for node in each["nodes"][:3]
    ]
