"""The notebook in examples/ runs from top to bottom."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")  # of Jupyter's own machinery
@pytest.mark.parametrize("notebook", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.name)
def test_a_notebook_runs(notebook: Path) -> None:
    page = nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]
    assert sum(cell.cell_type == "code" for cell in page.cells) > 0
    NotebookClient(page, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(EXAMPLES)}}).execute()
    shown = [output for cell in page.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in shown), "a figure is drawn"
    assert not [output for output in shown if output.output_type == "error" or output.get("name") == "stderr"]
