"""The server's queue: shared batches, waiting, cancellation, and processes that end."""

import asyncio
import sys
import threading
from functools import partial

import pytest

from nmt.errors import InputError
from nmt.serving.batcher import Batcher, FullQueueError, NotReadyError, OtherModelError
from nmt.serving.model_process import EndedError
from nmt.translator import SearchOptions
from tests.patience import PATIENCE_S
from tests.serving.served import Here, Shouting

PLAIN = SearchOptions()


def batched(
    translator, scene, queue=256, others=(), kind=Here, new=None, note=lambda text: None, number=1
):
    """Runs a coroutine with a batcher that is ready; `new` starts each of `number` processes."""
    processes = [new] * number if new else [partial(kind, each) for each in (translator, *others)]

    async def run():
        batcher = Batcher(processes, queue, note)
        loaded = asyncio.Event()
        batcher.start(loaded.set)
        await loaded.wait()
        try:
            return await asyncio.wait_for(scene(batcher), PATIENCE_S)
        finally:
            for each in (translator, *others):
                each.free.set()
            batcher.stop()
            assert not batcher._running and not batcher._waiting
            assert batcher._busy == batcher._computed == 0

    return asyncio.run(run())


async def begun(translator, number: int = 1) -> None:
    while len(translator.batches) < number:
        await asyncio.sleep(0.001)


def hold(translator) -> None:
    translator.free.clear()


def texts(future) -> list[str]:
    return [best[0].text for best in future.result()]


def test_what_waits_goes_together_and_everybody_gets_their_own():
    translator = Shouting()

    async def scene(batcher):
        hold(translator)
        first = batcher.translate(["first"], PLAIN)
        await begun(translator)
        many = [batcher.translate([f"text {n}", f"more {n}"], PLAIN) for n in range(20)]
        other = batcher.translate(["other"], SearchOptions(beam=2))
        translator.free.set()
        await asyncio.gather(first, other, *many)
        assert [texts(each) for each in many] == [[f"TEXT {n}", f"MORE {n}"] for n in range(20)]
        assert texts(first) == ["FIRST"] and texts(other) == ["OTHER"]
        assert texts(batcher.translate([], PLAIN)) == []

    batched(translator, scene)
    assert [len(batch) for batch in translator.batches] == [1, 40, 1]


def test_a_batch_is_of_like_length_around_the_oldest():
    translator = Shouting()

    async def scene(batcher):
        hold(translator)
        first = batcher.translate(["first"], PLAIN)
        await begun(translator)
        lengths = [500, *range(1, 100), 400, 450, 600]
        rest = [batcher.translate(["x" * length], PLAIN) for length in lengths]
        translator.free.set()
        await asyncio.gather(first, *rest)

    batched(translator, scene)
    long, *others = translator.batches[1:]
    assert {400, 450, 500, 600} <= {len(text) for text in long}
    assert min(map(len, long)) > max(map(len, others[0]))


def test_a_text_of_each_request_shares_a_batch_but_not_many_long_ones():
    short, long = Shouting(), Shouting()

    async def scene(batcher, translator, text):
        hold(translator)
        first = batcher.translate(["first"], PLAIN)
        await begun(translator)
        rest = [batcher.translate([text], PLAIN) for _ in range(200)]
        translator.free.set()
        await asyncio.gather(first, *rest)

    batched(short, lambda batcher: scene(batcher, short, "short"))
    assert [len(batch) for batch in short.batches] == [1, 200]
    batched(long, lambda batcher: scene(batcher, long, "long" * 200))
    assert max(map(len, long.batches)) <= 64


def test_one_request_does_not_fill_a_batch_that_others_wait_for():
    translator = Shouting()

    async def scene(batcher):
        hold(translator)
        first = batcher.translate(["first"], PLAIN)
        await begun(translator)
        many = batcher.translate([f"many {n:03}" for n in range(256)], PLAIN)
        others = [batcher.translate([f"other {n:02}"], PLAIN) for n in range(100)]
        translator.free.set()
        await asyncio.gather(first, many, *others)

    batched(translator, scene)
    _, begin, then, *alone = translator.batches
    assert sum("many" in text for text in begin) <= 16
    assert sum("other" in text for text in begin + then) == 100
    assert max(map(len, alone)) <= 64  # larger batches delay new requests


def test_a_long_request_lets_others_pass():
    translator = Shouting()

    async def scene(batcher):
        hold(translator)
        first = batcher.translate(["first"], PLAIN)
        await begun(translator)
        long = batcher.translate(["long" * 100] * 500, PLAIN)
        short = batcher.translate(["short"], PLAIN)
        translator.free.set()
        await asyncio.gather(first, long, short)

    batched(translator, scene)
    assert [*map("short".__eq__, map(max, translator.batches))].index(True) <= 2
    assert len(translator.batches) > 10


def test_a_full_queue_takes_no_more_until_there_is_room():
    translator = Shouting()

    async def scene(batcher):
        hold(translator)
        futures = [batcher.translate(["first"], PLAIN)]
        await begun(translator)
        futures += [batcher.translate(["text"], PLAIN) for _ in range(3)]
        with pytest.raises(FullQueueError):
            batcher.translate(["text"], PLAIN)
        with pytest.raises(FullQueueError):
            batcher.call(print)
        futures.pop().cancel()  # its client has disconnected
        await asyncio.sleep(0)
        futures.append(batcher.translate(["text"], PLAIN))
        translator.free.set()
        await asyncio.gather(*futures)
        assert batcher.waiting == 0 and 1 <= batcher.patience_s <= 60
        batcher.seconds, batcher.translated = 40.0, 10
        assert batcher.patience_s == 12  # 40 s / 10 * 3 requests

    batched(translator, scene, queue=3)
    assert sum(map(len, translator.batches)) == 4


def test_what_nobody_waits_for_is_not_begun_or_not_finished():
    translator = Shouting()

    async def scene(batcher):
        hold(translator)
        first = batcher.translate(["first"], PLAIN)
        await begun(translator)
        gone, call = batcher.translate(["gone"], PLAIN), batcher.call(lambda _: pytest.fail())
        stays = batcher.translate(["stays"], PLAIN)
        for future in (first, gone, call):
            future.cancel()
        translator.free.set()
        await stays

    batched(translator, scene)
    assert translator.batches == [["first"], ["stays"]]


def test_one_text_fails_alone():
    translator = Shouting()

    async def scene(batcher):
        hold(translator)
        first = batcher.translate(["first"], PLAIN)
        await begun(translator)
        good = [batcher.translate([f"good {n}"], PLAIN) for n in range(9)]
        bad = batcher.translate(["good 9", "poison", *["more"] * 100], PLAIN)
        translator.free.set()
        await asyncio.gather(first, *good)
        with pytest.raises(RuntimeError):
            await bad
        assert texts(good[3]) == ["GOOD 3"]
        await asyncio.sleep(0)
        assert batcher.waiting == 0

    batched(translator, scene)


def test_calls_run_alone_on_the_same_thread():
    translator = Shouting()

    async def scene(batcher):
        thread = await batcher.call(lambda _: threading.current_thread())
        assert thread in batcher._threads
        assert await batcher.call(lambda model, *more: (model, *more), 1, 2) == (translator, 1, 2)
        with pytest.raises(ZeroDivisionError):
            await batcher.call(lambda _: 1 // 0)
        assert (await batcher.translate(["still"], PLAIN))[0][0].text == "STILL"

    batched(translator, scene)


def test_a_model_that_cannot_be_loaded_and_an_end_are_no_model():
    async def scene():
        broken = Here(None)  # not a model
        batcher, loaded = Batcher([lambda: broken], 5), asyncio.Event()
        batcher.start(loaded.set)
        await loaded.wait()
        assert isinstance(batcher.failure, AttributeError) and not batcher.is_ready
        with pytest.raises(NotReadyError):
            batcher.call(print)

    asyncio.run(scene())
    translator = Shouting()

    async def end(batcher):
        hold(translator)
        first = batcher.translate(["first"], PLAIN)
        await begun(translator)
        waits = batcher.translate(["waits"], PLAIN)
        batcher.stop()  # while the translator waits
        assert waits.cancelled() and not batcher.is_ready and not batcher.has_died
        await first

    batched(translator, end)


def test_one_that_leaves_a_batch_takes_nobody_elses_translation_along():
    translator = Shouting()

    async def scene(batcher):
        hold(translator)
        first = batcher.translate(["first"], PLAIN)
        await begun(translator)
        gone, stays = batcher.translate(["gone"], PLAIN), batcher.translate(["stays"], PLAIN)
        translator.free.set()
        await first
        hold(translator)
        await begun(translator, 2)
        gone.cancel()
        translator.free.set()
        await stays
        assert texts(stays) == ["STAYS"]

    batched(translator, scene)


def test_clients_that_come_back_one_by_one_share_a_batch_again(monkeypatch):
    monkeypatch.setattr("nmt.serving.batcher._PATIENCE", sys.maxsize)
    translator = Shouting()

    async def scene(batcher):
        hold(translator)
        alone = batcher.translate(["alone"], PLAIN)
        await begun(translator)
        for _ in range(2):
            futures = []
            for number in range(5):
                futures.append(batcher.translate([f"text {number}"], PLAIN))
                await asyncio.sleep(0.01)
            translator.free.set()
            await asyncio.gather(alone, *futures)

    batched(translator, scene)
    assert [len(batch) for batch in translator.batches] == [1, 5, 5]


def test_two_processes_work_at_once_on_what_each_has_taken():
    both = [Shouting(), Shouting()]
    for translator in both:
        hold(translator)

    async def scene(batcher):
        first = batcher.translate(["first"], PLAIN)
        while not sum(len(each.batches) for each in both):
            await asyncio.sleep(0.001)
        second = batcher.translate(["second"], SearchOptions(beam=2))
        for translator in both:
            await begun(translator)
        assert batcher._busy == 2
        for translator in both:
            translator.free.set()
        await asyncio.gather(first, second)
        assert texts(first) == ["FIRST"] and texts(second) == ["SECOND"]

    batched(both[0], scene, others=both[1:])


def test_one_request_of_many_texts_is_worked_off_by_all_processes():
    both = [Shouting(), Shouting()]
    for translator in both:
        hold(translator)

    async def scene(batcher):
        texts = [f"text {n}" for n in range(100)]
        many = batcher.translate(texts, PLAIN)
        for translator in both:
            await begun(translator)
        for translator in both:
            translator.free.set()
        assert [best[0].text for best in await many] == [text.upper() for text in texts]

    batched(both[0], scene, others=both[1:])


class Sharing(Here):
    """Records the number of processes that share the cores."""

    asked: list[int]

    def n_best(self, *arguments, sharing, **more):
        self.asked.append(sharing)
        return super().n_best(*arguments, sharing=sharing, **more)


def test_a_lone_request_has_all_cores():
    both = [Shouting(), Shouting()]
    asked = Sharing.asked = []

    async def scene(batcher):
        await batcher.translate(["alone"] * 3, PLAIN)
        assert asked == [1]
        while batcher._busy:  # the answer arrives before `_busy` changes
            await asyncio.sleep(0.001)
        for translator in both:
            hold(translator)
        first = batcher.translate(["first"], PLAIN)
        while len(asked) < 2:
            await asyncio.sleep(0.001)
        second = batcher.translate(["second"], PLAIN)
        while len(asked) < 3:
            await asyncio.sleep(0.001)
        assert asked[1:] == [1, 2]
        for translator in both:
            translator.free.set()
        await asyncio.gather(first, second)

    batched(both[0], scene, others=both[1:], kind=Sharing)


class Late(Here):
    """A process that cannot be killed before it has started, and then loads until it is killed."""

    def __init__(self):
        super().__init__(Shouting())
        self.has_started, self.was_killed = threading.Event(), threading.Event()

    def start(self):
        self.has_started.wait(PATIENCE_S)
        self.was_killed.wait(PATIENCE_S)
        raise EndedError

    def end(self):
        if self.has_started.is_set():
            self.was_killed.set()
        self.has_started.set()


def test_a_process_that_starts_during_the_end_is_killed():
    async def scene():
        late = Late()
        batcher = Batcher([lambda: late], 5)
        batcher.start()
        while not batcher._processes:
            await asyncio.sleep(0.001)
        batcher.stop()
        assert late.was_killed.is_set()

    asyncio.run(scene())


class Mortal(Here):
    """A process that ends when it gets a certain word."""

    def n_best(self, texts, *others, **more):
        if "kill" in texts:
            raise EndedError
        return super().n_best(texts, *others, **more)


def test_after_a_process_that_was_killed_comes_another():
    made, notes = [], []

    def new() -> Mortal:
        made.append(Mortal(Shouting()))
        return made[-1]

    async def scene(batcher):
        with pytest.raises(EndedError):
            await batcher.translate(["kill"], PLAIN)
        then = batcher.translate(["then"], PLAIN)
        await then
        assert texts(then) == ["THEN"]
        assert len(made) == 2 and batcher._processes == made[1:]
        assert made[0].is_closed and not made[1].is_closed
        assert batcher.is_ready and not batcher.has_died
        [note] = notes
        assert "A replacement is starting" in note

    batched(Shouting(), scene, new=new, note=notes.append)


def test_one_that_was_killed_while_nothing_was_to_do_costs_nobody_an_answer():
    made, notes = [], []

    def new() -> Here:
        made.append(Here(Shouting()))
        return made[-1]

    async def scene(batcher):
        made[0].has_ended = True
        then = batcher.translate(["then"], PLAIN)
        await then
        assert texts(then) == ["THEN"] and made[1].translator.batches and len(notes) == 1

    batched(Shouting(), scene, new=new, note=notes.append)


def test_a_request_goes_to_a_process_that_runs_while_another_cannot_be_started():
    made, notes = [], []

    def new() -> Here:
        if len(made) == 2:
            raise InputError("no such model")
        made.append(Here(Shouting()))
        return made[-1]

    async def scene(batcher):
        made[0].has_ended = True
        while len(notes) < 2:  # idle processes take turns, but not before both of them wait
            found = batcher.translate(["text"], PLAIN)
            await found
            assert texts(found) == ["TEXT"]
            await asyncio.sleep(0.001)
        assert "could not be started" in notes[1] and not made[0].translator.batches

    batched(Shouting(), scene, new=new, note=notes.append, number=2)


def test_one_that_cannot_be_started_again_is_tried_again_and_meanwhile_nobody_waits(monkeypatch):
    monkeypatch.setattr("nmt.serving.batcher._RETRY_S", 0.2)
    made, notes, fails = [], [], True

    def new() -> Mortal:
        if made and fails:
            raise InputError("no such model, m, name another")
        made.append(Mortal(Shouting()))
        return made[-1]

    async def scene(batcher):
        nonlocal fails
        killed = batcher.translate(["kill"], PLAIN)
        waits = batcher.translate(["waits"], SearchOptions(beam=2))
        for future in (killed, waits):
            with pytest.raises(EndedError):
                await future
        assert batcher.has_died and "cannot be restarted" in batcher.problem
        assert "no such model, m" in notes[-1] and notes[-1].endswith("will try again in 0.2 s.")
        with pytest.raises(NotReadyError):
            batcher.translate(["then"], PLAIN)
        while len(notes) < 3:
            await asyncio.sleep(0.01)
        assert notes[-1].endswith("will try again in 0.4 s.")
        fails = False
        while not batcher.is_ready:
            await asyncio.sleep(0.01)
        then = batcher.translate(["then"], PLAIN)
        await then
        assert texts(then) == ["THEN"] and not batcher.problem

    batched(Shouting(), scene, new=new, note=notes.append)


def test_a_process_with_another_model_serves_nobody_and_the_first_model_is_tried_again(monkeypatch):
    monkeypatch.setattr("nmt.serving.batcher._RETRY_S", 0.01)
    made, notes, on_disk = [], [], "first"

    def new() -> Mortal:
        made.append(Mortal(Shouting()))
        made[-1].translator.sha256 = on_disk
        return made[-1]

    async def scene(batcher):
        nonlocal on_disk
        on_disk = "other"
        with pytest.raises(EndedError):
            await batcher.translate(["kill"], PLAIN)
        while not batcher.problem:
            await asyncio.sleep(0.01)
        assert "Restart the server" in batcher.problem and "could not be started" in notes[1]
        assert "Restart the server" in notes[1] and notes[1].endswith("will try again in 0.01 s.")
        for _ in range(3):  # all in the process with the first model
            await batcher.translate(["then"], PLAIN)
        assert batcher.is_ready and made[2].is_closed
        with pytest.raises(EndedError):
            await batcher.translate(["kill"], PLAIN)
        while not batcher.has_died:
            await asyncio.sleep(0.01)
        assert "Restart the server" in batcher.problem
        on_disk = "first"
        while batcher.problem:
            await asyncio.sleep(0.01)
        await batcher.translate(["then"], PLAIN)
        others = [each for each in made if each.translator.sha256 == "other"]
        assert others and not [each for each in others if each.translator.batches]

    batched(Shouting(), scene, new=new, note=notes.append, number=2)


def test_processes_that_load_two_models_at_the_start_do_not_serve():
    async def scene():
        both = [Here(Shouting()), Here(Shouting())]
        both[1].translator.sha256 = "other"
        batcher, loaded = Batcher([lambda: both[0], lambda: both[1]], 5), asyncio.Event()
        batcher.start(loaded.set)
        await loaded.wait()
        assert isinstance(batcher.failure, OtherModelError) and not batcher.is_ready
        batcher.stop()

    asyncio.run(scene())
