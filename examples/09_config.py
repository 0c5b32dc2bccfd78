"""Settings: from a file, the environment, and keywords; what comes later wins."""

import tempfile
from pathlib import Path

import pyddsi

TEXT = """
[pyddsi]
lease = 2.0                 # seconds until others give us up
window_bytes = 1048576
"""

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "pyddsi.toml"
    file.write_text(TEXT)
    config = pyddsi.Config.load(file, latency=0.001)

with pyddsi.open(config) as session:
    print(session.config.lease, session.config.window_bytes, session.config.latency)

try:
    pyddsi.open(lese=2.0)  # pyright: ignore[reportCallIssue] - it is wrong on purpose
except pyddsi.ConfigError as error:
    print(error)
