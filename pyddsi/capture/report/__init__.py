"""
A report on captures: one page that opens with sentences a person can act on, and shows beneath them what they rest on.

    collect(capture)      what the page shows, added up, by one process          _local.py
                          the same by Spark                                      pyddsi/spark/report.py
    render(picture)       the page: no script, no other file, light and dark     _page.py, _svg.py

What is added up is bounded (Picture), however large the capture is: at most WINDOWS_MAX points in time, RESOURCES_MAX resources,
and so on. Both ways of adding up must give the same, and a test holds them to it.
"""

from __future__ import annotations

from pyddsi.capture.report._local import collect
from pyddsi.capture.report._page import render
from pyddsi.capture.report._picture import (
    RESOURCES_MAX,
    WINDOWS_MAX,
    Picture,
    Point,
    Series,
    window_of,
)

__all__ = [
    "RESOURCES_MAX",
    "WINDOWS_MAX",
    "Picture",
    "Point",
    "Series",
    "collect",
    "render",
    "window_of",
]
