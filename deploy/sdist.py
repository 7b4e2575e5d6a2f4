"""What a source distribution has besides the source: its date."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Hook(BuildHookInterface):
    def initialize(self, _version: str, build_data: dict) -> None:
        sys.path.insert(0, self.root)
        from deploy.describe.source_date import IN_SDIST, date_of_source

        self._made = TemporaryDirectory(prefix="lbd-sdist-")
        if not Path(self.root, IN_SDIST).exists():
            date = Path(self._made.name, "source_date")
            date.write_text(f"{date_of_source():.0f}\n")
            build_data["force_include"][str(date)] = IN_SDIST

    def finalize(self, *_: object) -> None:
        self._made.cleanup()
