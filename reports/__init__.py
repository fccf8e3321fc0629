"""Result records in, one self-contained page and PNG figures out.

`write(run, directory)` takes the JSON object of a run, `python -m refkit.reports results.json --out DIR` its file;
`comparison.compare` holds two runs against each other.
"""

from refkit.reports.page import write
from refkit.reports.reading import ReportError, read_file

__all__ = ["ReportError", "read_file", "write"]
