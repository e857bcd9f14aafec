"""A predictor is anything that answers with a prediction: nothing here is needed to make one."""

import msgspec

from backends.base import Problem
from suite.analysis.prediction import Prediction, Predictor


class Five:
    """Every call takes 5 us to launch, and no CPU is known."""

    def predict(self, problem, device, transfer, reuse=1, host_memory="pageable", threads=None):
        if device == "cpu":
            return None
        parts = {"launch": 5e-6 * reuse}
        return Prediction(time_s=5e-6 * reuse, parts=parts, bound="launch", roof_share=None, log_sd=0.1)


def test_five_lines_make_a_predictor():
    model: Predictor = Five()
    problem = Problem(m=8, n=8, k=8)
    found = model.predict(problem, "cuda", "once", 10)
    assert (found.time_s, found.bound, found.parts) == (5e-5, "launch", {"launch": 5e-5})
    assert model.predict(problem, "cpu", "once", 10) is None
    assert msgspec.json.decode(msgspec.json.encode(found), type=Prediction) == found
