"""`make docs NAME=screenshots`: takes the documentation's pictures of the console, from a demo with traffic.

Exit code 0: the pictures are in docs/images; 1: there is no Chromium, or a step failed. All processes are stopped.
"""

import argparse
import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, cast

import aiohttp

from app.base.errors import PunctualError
from app.dev.broker import BrokerError
from app.dev.broker.ports import free_port
from app.dev.demo.installation import DemoInstallation, installation
from app.dev.demo.options import parse
from app.dev.demo.worker import DemoError
from punctual import DelayClient, DelayError
from tests.docs import busy_shop
from tests.harness.chromium import ARGUMENTS, CHROMIUM

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

IMAGES: Final = Path(__file__).parents[2] / "docs/images"
#: In CSS pixels; README shows pictures about 900 pixels wide.
WIDTH: Final = 1160
SCALE: Final = 2
#: Readers wait for them: a picture is no larger than this.
MAX_BYTES: Final = 250_000
COLOURS: Final = 256
MINUTES: Final = 12
_TIMEOUT_S: Final = 60.0
_TRIES: Final = 60
_Colour = tuple[int, int, int]


def main() -> int:
    """Run the demonstration, and take all pictures."""
    options = _options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options.directory.mkdir(parents=True, exist_ok=True)
    if CHROMIUM is None:
        return _failed("There is no Chromium: install it, or name it by CHROMIUM.")
    for name in [name for name in os.environ if name.startswith(("DELAY_", "KAFKA_"))]:
        del os.environ[name]  # the pictures show a demonstration of our own, as `make run` starts it
    try:
        with installation(parse(["--port", str(free_port())]), _say) as place:
            asyncio.run(_take(place, options.minutes, options.directory, everything=options.all))
    except KeyboardInterrupt:
        return _failed("Stopped; nothing is left running.")
    except (BrokerError, DelayError, DemoError, PunctualError, TimeoutError) as error:
        return _failed(str(error) or repr(error))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.docs.screenshots", description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"of traffic before (default: {MINUTES:g})")
    parser.add_argument("--directory", type=Path, default=IMAGES, help="where to (default: docs/images)")
    parser.add_argument("--all", action="store_true", help="every page, not only the documented ones")
    return parser.parse_args()


async def _take(place: DemoInstallation, minutes: float, directory: Path, *, everything: bool) -> None:
    from playwright.async_api import async_playwright  # noqa: PLC0415 - slow, and only needed with a browser

    await busy_shop.create_topics(place.settings)
    (worker,) = place.workers
    worker.start()
    await place.wait_ready()
    random = Random(7)  # noqa: S311 - a story, no secret
    async with AsyncExitStack() as opened:
        client = await opened.enter_async_context(DelayClient(place.settings.kafka.bootstrap))
        _say(f"Filling {worker.url}")
        await busy_shop.fill(client, place.settings, random)
        traffic = asyncio.create_task(busy_shop.flow(client, random))
        opened.callback(traffic.cancel)
        await _wait_for_dead_letters(worker.url, 5)
        await busy_shop.send_again(worker.url, "oders", "orders")
        _say(f"Traffic for {minutes:g} minutes, until {datetime.now(UTC) + timedelta(minutes=minutes):%H:%M} UTC")
        await asyncio.wait([traffic], timeout=minutes * 60)
        place.check()
        playwright = await opened.enter_async_context(async_playwright())
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        opened.push_async_callback(browser.close)
        await _pictures(browser, worker.url, directory, everything=everything)
        if traffic.done():
            traffic.result()


async def _pictures(browser: "Browser", url: str, directory: Path, *, everything: bool) -> None:
    context = await browser.new_context(
        base_url=url,
        viewport={"width": WIDTH, "height": 300},
        device_scale_factor=SCALE,
        color_scheme="light",
    )
    page = await context.new_page()
    pages = {
        "home": ("/", 0),
        "find": (f"/find?to=reminders&key={busy_shop.CUSTOMER.lower()}", 830),
        "message": (f"/messages/{busy_shop.SNOOZED}", 0),
        "destinations": ("/destinations", 0),
        "dead-letters": ("/dead-letters", 0),
        "recurring": ("/recurring", 0),
    }
    others = {
        "destination": ("/destinations/newsletter", 0),
        "rate-limited": ("/destinations/sms", 0),
        "all": ("/find/all?to=reminders&act=cancel", 0),
        "new": ("/new", 0),
        "workers": ("/workers", 0),
        "jobs": ("/jobs", 0),
        "audit": ("/audit", 0),
        "find-empty": ("/find", 0),
        "recurring-message": ("/messages/nightly-sales", 0),
    }
    for name, (address, shown) in (pages | (others if everything else {})).items():
        height = shown
        await page.goto(address)
        if name == "home":
            await _wait_for_timeline(page)
            box = await page.locator(".pair").bounding_box()
            height = int(box["y"] + box["height"]) if box else 0
        await _picture(page, directory / f"{name}.png", height)
    if everything:
        await page.goto("/dead-letters?to=remindres")
        await page.locator("tbody th a").first.click()
        await page.wait_for_url("**/dead-letters/*-*")
        await _picture(page, directory / "dead-letter.png", 0)


async def _wait_for_timeline(page: "Page") -> None:
    """Return once all pending messages are counted by destination: a scan has a second, and others use this machine."""
    for _ in range(_TRIES):
        await page.locator(".stacks").first.wait_for()
        if not await page.get_by_text("destination not counted separately").count():
            return
        await asyncio.sleep(5)
        await page.reload()
    raise TimeoutError("The timeline does not get complete: other programs keep this machine busy. Try again later.")


async def _picture(page: "Page", path: Path, height: int) -> None:
    """Save the page, or the top `height` CSS pixels, in few colours."""
    clip: Any = {"clip": {"x": 0, "y": 0, "width": WIDTH, "height": height}} if height else {}
    taken = await page.screenshot(full_page=True, **clip)
    _save(taken, path)


def _save(taken: bytes, path: Path) -> None:
    """Save a picture with a palette of its most frequent colours, each as it is."""
    from PIL import Image  # noqa: PLC0415 - tests read only the limits of this module

    image = Image.open(BytesIO(taken)).convert("RGB")
    counted = cast("list[tuple[int, _Colour]]", image.getcolors(image.width * image.height))
    frequent = [colour for _, colour in sorted(counted, reverse=True)[:COLOURS]]
    nearest = {colour: _nearest(frequent, colour) for _, colour in counted}
    few = Image.frombytes(
        "P", image.size, bytes(nearest[cast("_Colour", colour)] for colour in image.get_flattened_data())
    )
    few.putpalette([part for colour in frequent for part in colour])
    few.save(path, optimize=True)
    size = path.stat().st_size
    _say(f"{path.name}: {few.width} x {few.height}, {size / 1_000:.0f} kB")
    if size > MAX_BYTES:
        raise SystemExit(_failed(f"{path} is larger than {MAX_BYTES / 1_000:.0f} kB."))


def _nearest(frequent: list[_Colour], colour: _Colour) -> int:
    """Return the place of the colour that differs least."""
    away = [sum((one - other) ** 2 for one, other in zip(colour, it, strict=True)) for it in frequent]
    return away.index(min(away))


async def _wait_for_dead_letters(url: str, count: int) -> None:
    """Return once there are `count` dead letters."""
    async with aiohttp.ClientSession(url) as session, asyncio.timeout(_TIMEOUT_S):
        while True:
            async with session.get("/api/v1/dead-letters") as answer:
                if answer.ok and len((await answer.json())["rows"]) >= count:
                    return
            await asyncio.sleep(0.5)


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


def _failed(sentence: str) -> int:
    _say(sentence)
    return 1


if __name__ == "__main__":
    sys.exit(main())
