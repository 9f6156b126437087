"""How long connections that are not authenticated yet may take, how many there may be, and what is logged of them."""

from __future__ import annotations

import trio

from p2p_labeldp.network.limiter import ConnectionLimiter, LineLimiter


async def test_a_connection_has_its_time_and_the_oldest_makes_room_for_one_too_many(
    autojump_clock: object, nursery: trio.Nursery
) -> None:
    limiter = ConnectionLimiter(10.0, 2)
    ended: dict[int, tuple[float, str]] = {}

    async def hold(number: int) -> None:
        try:
            with limiter.admitted():
                await trio.sleep_forever()
        except trio.TooSlowError as error:
            ended[number] = trio.current_time(), str(error)

    for number in range(3):
        with limiter.admitted():  # one that is over takes nobody's room
            pass
        nursery.start_soon(hold, number)
        await trio.sleep(1)
    await trio.sleep(20)
    late = "no introduction within 10 s"
    assert ended == {0: (2.0, "it made room for newer connections"), 1: (11.0, late), 2: (12.0, late)}


async def test_lines_are_allowed_again_after_a_while(autojump_clock: object) -> None:
    said: list[str] = []
    log = LineLimiter(lambda event, **facts: said.append(str(facts.get("warning", event))), most=3, pause=10.0)
    for _ in range(10):
        log("refused")
    assert said == ["refused"] * 3
    await trio.sleep(25)
    for _ in range(10):
        log("refused")
    assert said[3:] == ["refused", "7 more lines about strangers were left out of this log", "refused"]
