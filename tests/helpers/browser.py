"""A headless Chromium, driven over its debugging pipe: JSON messages that end in NUL, on descriptors 3 and 4.

    with Browser(folder) as browser:
        page = browser.open(path, width=360)
        page.evaluate("document.title")
        page.complaints, page.requests

One browser serves many pages. Every wait has a bound; the process is stopped by its id.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LIMIT = 60.0  # seconds for any answer; a loaded machine is slow to start a browser
_OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-quic", "--disable-extensions", "--disable-dev-shm-usage",
    "--disable-default-apps", "--disable-features=Translate,OptimizationHints,MediaRouter", "--hide-scrollbars",
    "--remote-debugging-pipe",
)  # fmt: skip
LEAST_TEXT = 8.5  # pixels
FAULTS = """(() => {
  const found = [];
  const shown = (element) => element.checkVisibility();
  for (const figure of document.querySelectorAll("figure, figure svg")) {
    const { width, height } = figure.getBoundingClientRect();
    if (shown(figure) && !(width > 0 && height > 0)) found.push(`${figure.tagName} without size`);
  }
  for (const drawing of [...document.querySelectorAll("svg")].filter(shown)) {
    const box = drawing.viewBox.baseVal;
    const scale = drawing.getBoundingClientRect().width / box.width;
    for (const text of drawing.querySelectorAll("text")) {
      const size = parseFloat(getComputedStyle(text).fontSize) * scale;
      if (size < LEAST) found.push(`text of ${size.toFixed(1)} pixels: ${text.textContent}`);
      const edges = text.getBoundingClientRect(), frame = drawing.getBoundingClientRect();
      const out = Math.max(frame.left - edges.left, edges.right - frame.right, frame.top - edges.top,
                           edges.bottom - frame.bottom) / scale;
      if (out > 4) found.push(`text sticks out by ${out.toFixed(0)}: ${text.textContent}`);
    }
  }
  // Two texts of a drawing on top of each other, by more than a hair; a title is for whoever points at something.
  for (const drawing of [...document.querySelectorAll("svg")].filter(shown)) {
    const texts = [...drawing.querySelectorAll("text")].filter((text) => text.textContent && shown(text));
    const boxes = texts.map((text) => text.getBoundingClientRect());
    for (let one = 0; one < texts.length; one += 1) {
      for (let other = one + 1; other < texts.length; other += 1) {
        const [a, b] = [boxes[one], boxes[other]];
        const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (wide > 2 && high > 0.3 * Math.min(a.height, b.height)) {
          found.push(`texts overlap: ${texts[one].textContent} and ${texts[other].textContent}`);
        }
      }
    }
  }
  const texts = "h1, h2, h3, p, li, td, th, button, label, figcaption, summary, .tiles *, .fills *, .events *";
  for (const each of document.querySelectorAll(texts)) {
    const scrolls = ["auto", "scroll"].includes(getComputedStyle(each).overflowX);
    const inline = getComputedStyle(each).display === "inline";
    if (shown(each) && !inline && !scrolls && each.clientWidth > 1 && each.scrollWidth > each.clientWidth + 1) {
      found.push(`cut: ${each.textContent.trim().slice(0, 60)}`);
    }
  }
  // A telephone zooms out where a page is too wide, and innerWidth grows with it; clientWidth does not.
  const { scrollWidth, clientWidth } = document.documentElement;
  if (scrollWidth > clientWidth) found.push(`the page is ${scrollWidth} wide, not ${clientWidth}`);
  return found;
})()""".replace("LEAST", str(LEAST_TEXT))


class Left(AssertionError):
    """A page was left for another one before it could answer."""


GONE = ("Inspected target navigated", "Execution context was destroyed", "Cannot find context")
"""What the browser says then."""


class Browser:
    """Context manager around one process; ``folder`` is for its profile and is the caller's to remove."""

    def __init__(self, folder: Path) -> None:
        assert CHROMIUM is not None, "no Chromium is installed"
        self._folder = folder
        self._number = 0
        self._buffer = b""
        self._heard: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        # The browser wants its ends at 3 and 4, which may be taken here: a shell moves them there.
        moved = f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}'
        self._process = subprocess.Popen(
            ["bash", "-c", moved, str(CHROMIUM), *_OPTIONS, f"--user-data-dir={self._folder}", "about:blank"],
            pass_fds=(to_read, to_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "HOME": str(self._folder)},
        )
        os.close(to_read)
        os.close(to_write)
        try:
            self.call("Browser.getVersion")
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        with contextlib.suppress(OSError, TimeoutError, EOFError):
            self.call("Browser.close", limit=5.0)
        self._stop()

    def _stop(self) -> None:
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)  # a session of its own: the browser and its children
            self._process.wait(timeout=10)
        for end in (self._write, self._read):
            with contextlib.suppress(OSError):
                os.close(end)

    def call(self, method: str, session: str | None = None, *, limit: float = LIMIT, **parameters: Any) -> Any:
        """Ask for something and wait for the answer; events that come meanwhile are kept."""
        self._number += 1
        wanted = self._number
        request = {"id": wanted, "method": method, "params": parameters}
        if session is not None:
            request["sessionId"] = session
        os.write(self._write, json.dumps(request).encode() + b"\0")
        for message in self._messages(limit):
            if message.get("id") == wanted:
                if "error" in message:
                    left = message["error"].get("message", "").startswith(GONE)
                    raise (Left if left else AssertionError)(f"{method}: {message['error']}")
                return message["result"]
            self._heard.append(message)
        raise AssertionError("unreachable")

    def _messages(self, limit: float) -> Iterator[dict[str, Any]]:
        deadline = time.monotonic() + limit
        while True:
            while b"\0" in self._buffer:
                raw, self._buffer = self._buffer.split(b"\0", 1)
                yield json.loads(raw)
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._read], [], [], left)[0]:
                raise TimeoutError(f"the browser did not answer within {limit:g} seconds")
            data = os.read(self._read, 1 << 20)
            if not data:
                raise EOFError("the browser has gone")
            self._buffer += data

    def events(self, session: str) -> list[dict[str, Any]]:
        """What a page has told so far, without answers."""
        return [message for message in self._heard if message.get("sessionId") == session and "method" in message]

    def wait_for(self, session: str, method: str) -> None:
        if any(message["method"] == method for message in self.events(session)):
            return
        for message in self._messages(LIMIT):
            self._heard.append(message)
            if message.get("sessionId") == session and message.get("method") == method:
                return

    def open(
        self,
        page: Path | str,
        *,
        width: int = 1280,
        dark: bool = False,
        height: int = 900,
        script: bool = True,
    ) -> Tab:
        """A new tab with a file or an address in it, loaded."""
        address = page.as_uri() if isinstance(page, Path) else page
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = Tab(self, target, session, address)
        for domain in ("Page", "Runtime", "Log", "Network"):
            tab.call(f"{domain}.enable")
        tab.resize(width, height)
        tab.darken(dark)
        if not script:
            tab.call("Emulation.setScriptExecutionDisabled", value=True)
        tab.call("Page.navigate", url=address)
        self.wait_for(session, "Page.loadEventFired")
        return tab


class Tab:
    """One page."""

    def __init__(self, browser: Browser, target: str, session: str, address: str) -> None:
        self._browser, self._target, self._session, self._address = browser, target, session, address

    def call(self, method: str, **parameters: Any) -> Any:
        return self._browser.call(method, self._session, **parameters)

    def close(self) -> None:
        self._browser.call("Target.closeTarget", targetId=self._target)

    def resize(self, width: int, height: int = 900) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def darken(self, dark: bool) -> None:
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, expression: str, limit: float = LIMIT) -> Any:
        """The value of an expression, once it has one that is true."""
        end = time.monotonic() + limit
        while not (found := self._asked(expression)):
            if time.monotonic() > end:
                text = self.evaluate("document.body.innerText")
                raise TimeoutError(f"not within {limit:g} seconds: {expression}; the page says: {text}")
            time.sleep(0.02)
        return found

    def _asked(self, expression: str) -> Any:
        """The value of an expression; none from a page that is left while it is asked."""
        with contextlib.suppress(Left):
            return self.evaluate(expression)
        return None

    def press(self, key: str) -> None:
        """A key as a person presses it, in whatever has the focus."""
        codes = {"ArrowDown": 40, "ArrowUp": 38, "Tab": 9, "Enter": 13}
        texts = {"text": "\r"} if key == "Enter" else {}
        for kind, more in (("keyDown", texts), ("keyUp", {})):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key], **more)

    @property
    def complaints(self) -> list[str]:
        """Errors on the console, exceptions, and whatever the browser itself has to say against the page."""
        self.evaluate("0")  # whatever was said before this answer has been heard
        found = []
        for event in self._browser.events(self._session):
            told = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(f"exception: {told['exceptionDetails'].get('text')}")
            elif event["method"] == "Runtime.consoleAPICalled" and told["type"] in ("error", "assert", "warning"):
                found.append(f"console: {[each.get('value') for each in told['args']]}")
            elif event["method"] == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
                found.append(f"log: {told['entry']['text']}")
        return found

    @property
    def requests(self) -> list[str]:
        """What was asked for, but for the page itself, what is below its address and data within it."""
        self.evaluate("0")
        asked = [
            event["params"]["request"]["url"]
            for event in self._browser.events(self._session)
            if event["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in asked if not url.startswith((self._address, "data:", f"blob:{_origin(self._address)}"))]

    def screenshot(self, path: Path, part: str = "html") -> None:
        """A part of the page, by its selector; the whole of it, top to bottom, if none is named."""
        box = f"document.querySelector({json.dumps(part)}).getBoundingClientRect()"
        clip = self.evaluate(f"(({{x, y, width, height}}) => ({{x, y, width, height, scale: 1}}))({box})")
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(found["data"]))

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])


def _origin(address: str) -> str:
    return "/".join(address.split("/")[:3])


def faults_of(tab: Tab) -> list[str]:
    """Everything that is wrong with a page as it is shown now."""
    asked = [f"asked for {url}" for url in tab.requests]
    return [*tab.complaints, *asked, *tab.evaluate(FAULTS)]


def require_order(tab: Tab) -> None:
    """Nothing is wrong on a telephone and on a desk, in light and dark."""
    for width, dark in ((390, True), (390, False), (1280, False), (1280, True)):
        tab.resize(width)
        tab.darken(dark)
        assert faults_of(tab) == [], f"{width} pixels, dark: {dark}"
