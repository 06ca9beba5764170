"""Draws docs/dashboard.png: the page of a stream with made figures, in Chromium."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> int:
    sys.path.insert(0, str(ROOT))
    from tests.dashboard.stream import Query
    from tests.dashboard.test_dashboard import results

    import muntin

    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("needs Chromium: apt-get install chromium", file=sys.stderr)
        return 1
    query = Query()
    query.name = "fares"
    frame = results()
    frame["origin"] = frame["origin"].where(frame["origin"].isin(["JFK", "LGA"]), "EWR")
    with muntin.dashboard(query, results=lambda: frame) as page, tempfile.TemporaryDirectory() as folder:
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--user-data-dir={folder}", "--virtual-time-budget=3000", *sys.argv[1:]]
        command += [f"--screenshot={ROOT / 'docs' / 'dashboard.png'}", "--window-size=1100,1560", page.url]
        subprocess.run(command, capture_output=True, timeout=120, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
