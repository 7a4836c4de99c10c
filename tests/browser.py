"""A real headless Chromium for tests of pages; skips with a reason where there is none."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
)  # fmt: skip


@cache
def executables() -> tuple[str, str] | None:
    """Chromium and its driver; CI may install Debian's packages, nobody else's machine is touched."""
    found = shutil.which("chromium"), shutil.which("chromedriver")
    if not all(found) and os.environ.get("CI") == "true" and shutil.which("apt-get"):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(["apt-get", "update"], check=False, timeout=300, **quiet)
        subprocess.run(
            ["apt-get", "install", "-y", "-q", "chromium", "chromium-driver"], check=False, timeout=600, **quiet
        )
        found = shutil.which("chromium"), shutil.which("chromedriver")
    return (found[0], found[1]) if found[0] and found[1] else None


@cache
def _started(chrome: str, chromedriver: str) -> Any:
    """One browser for all tests of this process: starting it takes longer than most of them."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = chrome
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(chromedriver))
    driver.set_script_timeout(120)
    atexit.register(driver.quit)
    return driver


@contextmanager
def chromium(width: int = 1100, height: int = 900, *, offline: bool = False) -> Iterator[Any]:
    """A selenium driver in a tab of its own; `offline` cuts the page off from any network."""
    paths = executables()
    if paths is None:
        pytest.skip("needs Chromium and chromedriver (Debian: chromium chromium-driver)")
    driver = _started(*paths)
    home = driver.current_window_handle
    driver.get_log("browser")  # what earlier pages said
    driver.switch_to.new_window("tab")
    try:
        driver.set_window_size(max(width, 500), height)
        if width < 500:  # no window is that narrow
            phone = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": True}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
        if offline:
            driver.set_network_conditions(offline=True, latency=0, download_throughput=0, upload_throughput=0)
        yield driver
    finally:
        if offline:
            driver.delete_network_conditions()
        driver.close()
        driver.switch_to.window(home)
