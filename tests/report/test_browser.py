"""The report in a real browser with the network off: figures render, tables sort, nothing is logged."""

from __future__ import annotations

from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from test_report import audit  # noqa: F401

from browser import chromium
from edgeveil.report.audit_data import AuditData
from edgeveil.report.page import write_report


@pytest.mark.parametrize(("width", "height"), [(1200, 900), (390, 844)], ids=["desktop", "phone"])
def test_the_page_works_offline(audit: AuditData, tmp_path: Path, width: int, height: int) -> None:  # noqa: F811
    page = write_report(audit, tmp_path / "report.html")
    with chromium(width, height, offline=True) as driver:
        driver.get(page.as_uri())
        assert driver.execute_script("return window.innerWidth") <= width
        figures = driver.find_elements(By.CSS_SELECTOR, "figure svg")
        assert len(figures) == 10
        for figure in figures:
            box = figure.rect
            assert box["width"] > 200 and box["height"] > 100
        overflow = driver.execute_script("return document.documentElement.scrollWidth - window.innerWidth")
        assert overflow <= 0, "the page scrolls sideways"

        table = driver.find_element(By.CSS_SELECTOR, "table.sortable")
        heading = table.find_elements(By.CSS_SELECTOR, "thead button")[1]
        heading.click()
        rising = [float(c.text) for c in table.find_elements(By.CSS_SELECTOR, "tbody tr td:nth-child(2)")]
        assert rising == sorted(rising)
        heading.click()
        falling = [float(c.text) for c in table.find_elements(By.CSS_SELECTOR, "tbody tr td:nth-child(2)")]
        assert falling == sorted(rising, reverse=True)
        assert not [entry for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def test_dark_mode_repaints_the_figures(audit: AuditData, tmp_path: Path) -> None:  # noqa: F811
    page = write_report(audit, tmp_path / "report.html")
    ask = "return getComputedStyle(document.querySelector('#figure-tradeoff svg text')).fill"
    with chromium() as driver:
        colours = []
        for scheme in ("light", "dark"):
            feature = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", feature)
            driver.get(page.as_uri())
            colours.append(driver.execute_script(ask))
    assert colours[0] != colours[1]


def test_paper_is_white_even_for_readers_of_dark_pages(audit: AuditData, tmp_path: Path) -> None:  # noqa: F811
    page = write_report(audit, tmp_path / "report.html")
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    with chromium() as driver:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": dark})
        driver.get(page.as_uri())
        assert driver.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        cut = "return [...document.querySelectorAll('figure svg text')].filter(t => { const b = t.getBoundingClientRect(),"
        cut += " s = t.closest('svg').getBoundingClientRect(); return b.left < s.left - 2 || b.right > s.right + 2; }).length"
        assert driver.execute_script(cut) == 0, "text of a figure is cut off"


def test_nothing_is_cut_on_paper(audit: AuditData, tmp_path: Path) -> None:  # noqa: F811
    audit.settings["command"] = "edgeveil audit cora --defence " + ",".join(["lapgraph"] * 20)
    page = write_report(audit, tmp_path / "report.html")
    with chromium(720, 1000) as driver:  # the width of a sheet without its margins
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        driver.get(page.as_uri())
        wide = "return [...document.querySelectorAll('pre')].filter(p => p.scrollWidth > p.clientWidth + 1).length"
        assert driver.execute_script(wide) == 0, "a command is cut off"
        broken = (
            "return [...document.querySelectorAll('.summary td.num:not(.interval), .baselines td.num')].filter(c => {"
        )
        broken += " const r = document.createRange(); r.selectNodeContents(c); return r.getClientRects().length > 1; }).length"
        assert driver.execute_script(broken) == 0, "a figure is broken from its unit"
        assert driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
        shown = "return [...document.querySelectorAll('figure summary')].filter(s => s.checkVisibility()).length"
        assert driver.execute_script(shown) == 0, "paper cannot be unfolded"
