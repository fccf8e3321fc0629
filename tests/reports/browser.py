"""A real browser for the tests of the pages: Debian's chromium, headless, spoken to by its DevTools protocol.

`open_browser()` gives a `Browser`; a `Page` of it loads a file, runs JavaScript, sends clicks and keys, takes pictures,
and notes what goes to the console and every request that is made.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DEADLINE = 60.0  # seconds that the browser may take to answer

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def missing() -> str:
    """Why no browser can be started here; empty where one can."""
    try:
        import websocket  # noqa: F401
    except ImportError:
        return "websocket-client is not installed"
    return "" if _program() else f"none of {', '.join(NAMES)} is on PATH"


def _program() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@contextlib.contextmanager
def open_browser() -> Iterator[Browser]:
    """A browser with a profile of its own, ended with the block."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        program = _program()
        assert program is not None
        process = subprocess.Popen(
            [
                program,
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--disable-component-update",
                "--disable-background-networking",
                "--hide-scrollbars",
                "--remote-debugging-port=0",
                "--remote-allow-origins=*",
                f"--user-data-dir={profile}",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "LANG": "C.UTF-8"},
        )
        try:
            yield Browser(_port(Path(profile) / "DevToolsActivePort", process))
        finally:
            process.terminate()
            process.wait(DEADLINE)


def _port(file: Path, process: subprocess.Popen[bytes]) -> int:
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        assert process.poll() is None, "the browser ended at once"
        if file.exists() and (lines := file.read_text().split()):
            return int(lines[0])
        time.sleep(0.05)
    raise TimeoutError("the browser did not open its DevTools port")


@dataclass(frozen=True)
class Browser:
    """A running browser."""

    port: int

    def page(self, width: int = 1280, height: int = 900, *, dark: bool = False) -> Page:
        """A new empty page of that size in CSS pixels."""
        import websocket

        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/json/new?about:blank", method="PUT")
        with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
            address = json.load(answer)["webSocketDebuggerUrl"]
        page = Page(websocket.create_connection(address, timeout=DEADLINE, max_size=None))
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.send(f"{domain}.enable")
        page.resize(width, height)
        page.send("Emulation.setEmulatedMedia", features=[_scheme(dark)])
        return page


def _scheme(dark: bool) -> dict[str, str]:
    return {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}


@dataclass
class Page:
    """One page. `problems`: errors and warnings of the console; `requests`: the address of every request but those for
    data inside the page."""

    socket: Any
    number: int = 0
    problems: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)

    def send(self, method: str, **parameters: Any) -> Any:
        """Send a command and return its result; RuntimeError where the browser refuses it."""
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        method, parameters = message.get("method", ""), message.get("params", {})
        self.events.append(method)
        if method == "Network.requestWillBeSent":
            if not parameters["request"]["url"].startswith("data:"):
                self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.problems.append(json.dumps(parameters["args"])[:500])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.problems.append(parameters["entry"]["text"])

    def resize(self, width: int, height: int) -> None:
        """The size of the page in CSS pixels; narrow ones count as a phone."""
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def open(self, file: Path) -> float:
        """Load a file from disk and return the seconds until its `load` event has been handled and it is painted."""
        self.events.clear()
        started = time.monotonic()
        answer = self.send("Page.navigate", url=file.resolve().as_uri())
        assert not answer.get("errorText"), f"{file}: {answer['errorText']}"
        while "Page.loadEventFired" not in self.events:
            self._note(json.loads(self.socket.recv()))
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
        return time.monotonic() - started

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression, awaited; AssertionError where it throws."""
        result = self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def click(self, selector: str) -> None:
        """Click in the middle of the first element that a CSS selector finds."""
        box = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
            " return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def press(self, key: str, code: int = 0) -> None:
        """Press and release a key: a character, or "Tab", "Enter", "ArrowRight", " "."""
        codes = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowRight": 39, " ": 32}
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        pressed = {"key": key, "windowsVirtualKeyCode": codes.get(key, code), "text": text}
        self.send("Input.dispatchKeyEvent", type="keyDown", **pressed)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=codes.get(key, code))

    def picture(self, file: Path, *, whole: bool = False) -> None:
        """Write a PNG of what is seen, or of the whole page."""
        answer = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(answer["data"]))
