"""`pyddsi anonymize`: a capture that can be given away."""

from __future__ import annotations

import argparse
import json

from pyddsi.cli._arguments import Parser, UsageError, add_json
from pyddsi.cli._captures import add_files, add_part, add_reading, moment, opened, warned

DESCRIPTION = """\
Write the protocol's packets of captures without their secrets.

Addresses become others, so that two in one network still are in one; multicast groups stay. Payloads become zeros, peer ids other
bytes, of the same length; with --names, names become other letters, part by part. What the protocol is studied by stays: kinds,
flags, numbers, lengths, times. Everything that is not of the protocol is left out.
"""

EXAMPLES = """\
examples:
  pyddsi anonymize run.pcapng -o public.pcapng
  pyddsi anonymize run.pcapng -o public.pcapng --names
  pyddsi anonymize monday.pcap -o a.pcapng --key 00112233445566778899aabbccddeeff
  pyddsi anonymize tuesday.pcap -o b.pcapng --key 00112233445566778899aabbccddeeff      the same addresses
"""


def add(parser: Parser) -> None:
    """Its options."""
    add_files(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="the new capture, .pcapng or .pcap"
    )
    parser.add_argument("--names", action="store_true", help="hide the names of resources as well")
    parser.add_argument(
        "--key",
        metavar="HEX",
        help="16 bytes as hexadecimal digits: the same key maps the same way (default: a new one, which nobody knows)",
    )
    add_part(parser)
    add_reading(parser)
    add_json(parser, "what was written as one JSON object")


def run(options: argparse.Namespace) -> int:
    """Read and write."""
    try:
        key = None if options.key is None else bytes.fromhex(options.key)
        with warned():
            done = opened(options).anonymize(
                options.output,
                names=options.names,
                key=key,
                start=moment(options.start),
                stop=moment(options.stop),
            )
    except ValueError as error:
        hint = "" if "key" in str(error) else " (--key takes 32 hexadecimal digits)"
        raise UsageError(f"{error}{hint}") from None
    if options.json:
        print(json.dumps({"output": options.output, "packets": done.frames}))
    else:
        print(f"{done.frames:,} packets in {options.output}")
    return 0
