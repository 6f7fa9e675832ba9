"""Which versions a contender's process has."""

from __future__ import annotations

import importlib
from importlib.metadata import version


class About:
    """Imports a rival, wherever its module is."""

    def __init__(self, rival: str) -> None:
        for package in ("rivals", "loaders", "samplers"):
            try:
                self._rival = importlib.import_module(f"{package}.{rival}")
                break
            except ModuleNotFoundError as error:
                if error.name not in (package, f"{package}.{rival}"):
                    raise
        else:
            raise ModuleNotFoundError(f"there is no contender {rival}")
        self._newest = rival.endswith("_newest")

    def versions(self) -> dict[str, str]:
        """By the names of the packages; two versions of one have two names."""
        suffix = " (newest)" if self._newest else ""
        return {f"{name}{suffix}": version(name) for name in self._rival.PACKAGES}
