"""All 93 node cases of the ONNX operator Attention, over HTTP, on every kernel table."""
import numpy as np
import pytest

import onnx_cases
from serving import as_array, ask

CASES = onnx_cases.cases()


def test_count():
    assert len(CASES) == 93


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_case(table, case):
    answer = ask(table, case.request())
    case.check({name: as_array(answer[name], np.asarray(want), name)
                for name, want in case.expected.items()})
