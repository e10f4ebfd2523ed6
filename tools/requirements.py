"""Prints what pyproject.toml requires: `build` to build and run airtcp, `dev` to work on it."""

import sys
import tomllib
from pathlib import Path

data = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))
project = data["project"]
requirements: list[str] = {
    "build": [*data["build-system"]["requires"], *project["dependencies"]],
    "dev": [r for extra in project["optional-dependencies"].values() for r in extra if not r.startswith("airtcp[")],
}[sys.argv[1]]
print("\n".join(requirements))
