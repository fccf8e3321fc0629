"""axe-core, the accessibility checker, run inside a page. Its file is not part of this repository:

    npm pack axe-core && tar xzf axe-core-*.tgz && export AXE_CORE=$PWD/package/axe.min.js

or `npm install axe-core` in the repository's root folder.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.reports.browser import Page

_INSTALLED = Path(__file__).parents[2] / "node_modules/axe-core/axe.min.js"


def script() -> Path | None:
    """Where axe-core lies; None where it is not there."""
    named = os.environ.get("AXE_CORE")
    path = Path(named) if named else _INSTALLED
    return path if path.is_file() else None


def serious_faults(page: Page) -> list[str]:
    """What axe-core finds of serious or critical faults: rule, what it means, and the first element."""
    path = script()
    assert path is not None
    page.run(path.read_text(encoding="utf-8") + "; true")
    found: list[dict[str, Any]] = page.run("axe.run(document).then(result => result.violations)")
    return [
        f"{each['id']}: {each['help']} at {each['nodes'][0]['target']} ({len(each['nodes'])} places): "
        f"{each['nodes'][0].get('failureSummary', '')}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]
