"""`pyddsi info`: what captures hold, and what looks wrong in them."""

from __future__ import annotations

import argparse
import json

from pyddsi.cli._arguments import Parser, add_json
from pyddsi.cli._captures import add_files, add_reading, opened, progress, warned

DESCRIPTION = """\
Say what captures hold: when, who, sessions, conduits and how they fared, resources with rates, samples repeated and passed
over, leases that expired, and what looks wrong, with the frame numbers that Wireshark has.

A capture shows what senders sent. So what was passed over and never came was lost before the place of capture (or by the
capturing itself), and what was repeated was lost behind it, discarded by its receiver, or not acknowledged in time.
"""

EXAMPLES = """\
examples:
  pyddsi info run.pcapng
  pyddsi info 'captures/*.pcap' --json | jq '.findings[].text'
  tcpdump -c 1000 -w - udp | pyddsi info -

exit status: 0; 2 for a file that cannot be read (with --strict also for one that is cut off)
"""


def add(parser: Parser) -> None:
    """Its options."""
    add_files(parser)
    add_reading(parser)
    add_json(parser, "all of it as one JSON object")


def run(options: argparse.Namespace) -> int:
    """Read and say."""
    capture = opened(options)
    with warned():
        info = capture.info(progress=progress("reading"))
    if options.json:
        print(json.dumps(info.to_dict(), ensure_ascii=False))
    else:
        print("\n".join(info.lines()))
    return 0
